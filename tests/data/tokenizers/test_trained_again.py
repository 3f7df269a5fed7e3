"""A trained tokenizer is a function of its text and its settings: every process makes the same one."""

import os
import random
import subprocess
import sys
import unicodedata
from types import SimpleNamespace

import pytest

from zoo import config as configs
from zoo.data.sources.documents import Documents
from zoo.data.sources.source import read_text_file
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer, load_tokenizer, tokenizer_class
from zoo.errors import DataError

TRAIN = """
import sys
from types import SimpleNamespace
from zoo.data.sources.source import read_text_file
from zoo.data.tokenizers.tokenizer_registry import tokenizer_class
documents = read_text_file(sys.argv[1], "\\n\\n")
for kind, size in (one.split("=") for one in sys.argv[2:]):
    settings = SimpleNamespace(kind=kind, vocab_size=int(size), lowercase=True, split_digits=False)
    print(tokenizer_class(kind).build(settings, documents, documents).fingerprint)
"""
# Many words and many characters are equally frequent, so the result depends on how ties are broken.
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéèçñøåþð"
TEXT = "\n\n".join(
    " ".join("".join(LETTERS[(i * k + j * j + k) % len(LETTERS)] for k in range(2 + j % 5)) for j in range(40))
    for i in range(50)
)


def settings(kind, size):
    return configs.override(
        configs.default(), {"data.tokenizer.kind": kind, "data.tokenizer.vocab_size": size}
    ).data.tokenizer


def trained(kind, size, *texts):
    documents = Documents.of(texts, "test")
    return tokenizer_class(kind).build(settings(kind, size), documents, documents)


@pytest.mark.promise(reason="several processes train a tokenizer")
def test_every_process_trains_the_same_tokenizers(tmp_path):
    path, kinds = tmp_path / "text.txt", {"wordpiece": 400, "unigram": 500, "bpe": 400}
    path.write_text(TEXT)
    documents, found = read_text_file(path, "\n\n"), [[]]
    for kind, size in kinds.items():
        tokenizer_settings = SimpleNamespace(kind=kind, vocab_size=size, lowercase=True, split_digits=False)
        found[0].append(tokenizer_class(kind).build(tokenizer_settings, documents, documents).fingerprint)
    for number in (0, 2):
        environment = os.environ | {
            "ZOO_CACHE": str(tmp_path / str(number)),
            "PYTHONHASHSEED": str(number),
            "RAYON_NUM_THREADS": str(1 + number),
        }
        command = [sys.executable, "-c", TRAIN, str(path), *(f"{kind}={size}" for kind, size in kinds.items())]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout.splitlines())
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 3


def test_wordpiece_ids_are_in_a_fixed_order():
    tokenizer = trained("wordpiece", 300, TEXT)
    names = [piece.decode() for piece in tokenizer.pieces]
    special_ids = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert [
        name.encode() for name in special_ids if tokenizer._model.token_to_id(name) != special_ids.index(name)
    ] == []
    singles = [name for name in names[5:] if len(name) == 1]
    later = [name for name in names[5:] if len(name) == 3 and name.startswith("##")]
    assert names[5 : 5 + len(singles) + len(later)] == sorted(singles) + sorted(later)
    # A character that is never inside a word has no ## piece.
    assert "##," not in {piece.decode() for piece in trained("wordpiece", 268, "one, two " * 30 + TEXT).pieces}


def test_characters_past_the_alphabet_are_unknown_and_ties_go_by_code_point():
    rare = [chr(0x4E00 + i) for i in range(1100)]
    tokenizer = trained("wordpiece", 1009, " ".join(rare) + " " + "a" * 5)
    ids = tokenizer.encode("".join(rare)).tolist()
    unknown = 1
    assert unknown not in ids[:999]
    assert ids[999:] == [unknown] * 101


def test_unigram_pieces_keep_tabs_and_newlines():
    tokenizer = trained("unigram", 279, "if x:\n\treturn y\n\tpass of\r\n " * 50)
    text = "if x:\n\treturn y\n\tpass of\r\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert set(tokenizer.pieces) >= {b"\n", b"\t", b"\r"}
    assert not any(ord(character) >= 0xF0000 for piece in tokenizer.pieces for character in piece.decode())


def test_unigram_reports_the_size_that_its_characters_need():
    letters = "".join(chr(0x4E00 + i) for i in range(400))
    with pytest.raises(
        DataError,
        match=r"data.tokenizer.vocab_size: too few for unigram: the characters of the text alone need \d+ more",
    ):
        trained("unigram", 300, letters)


@pytest.mark.parametrize(("around", "between"), [("", "\n"), ("\u3000", "")])
def test_unigram_learns_from_text_without_spaces(around, between):
    """SentencePiece's trainer drops words of more than 4,192 bytes unless told otherwise."""
    words = ["的一是", "了我", "不人在", "他有"]
    draw = random.Random(1)
    lines = ["".join(draw.choice(words) for _ in range(12)) for _ in range(400)]
    tokenizer = trained("unigram", 290, "one two " + between.join(f"{line}{around}" for line in lines))
    assert "的一是".encode() in tokenizer.pieces
    assert len(tokenizer.encode(lines[5])) < len(lines[5])


def test_unigram_reads_the_names_of_special_tokens_and_of_bytes_as_text(tmp_path):
    lines = "<p>Now <s>$20</s> only $15</p> x<0x41>y <pad>|<unk> " * 50
    tokenizer = trained("unigram", 282, lines)
    tokenizer.save(tmp_path)
    for text in ("<s>$20</s> only", "</s>", "a</s></s>", "x<0x41>y", "<pad>|<unk>", "{</s>}", "＜/s＞"):
        for reader in (tokenizer, load_tokenizer(tmp_path)):
            ids = reader.encode(text).tolist()
            assert not reader.special_ids.intersection(ids)
            assert reader.decode(ids) == unicodedata.normalize("NFKC", text)
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint


def test_the_names_of_a_unigram_file_are_text_where_no_piece_spells_them():
    """Characters that a vocabulary lacks are less probable than the name of a special token."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    spelled = [(f"<0x{byte:02X}>", -20.0) for byte in range(256)]
    vocabulary = [("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), ("a", -3.0), *spelled]
    model = Tokenizer(models.Unigram(vocabulary, unk_id=1, byte_fallback=True))
    model.pre_tokenizer = pre_tokenizers.Metaspace()
    model.add_special_tokens(["</s>", "<unk>"])
    tokenizer = PretrainedTokenizer(keep_own_tokens(model))
    ids = tokenizer.encode("a</s>a").tolist()
    assert ids[:2] == [2, 3]
    assert bytes(id - 4 for id in ids[2:-1]) == b"</s>"
    assert tokenizer.encode("<0x41>").tolist() == [2, *(4 + byte for byte in b"<0x41>")]
