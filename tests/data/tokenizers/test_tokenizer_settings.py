"""The class and settings stored with a tokenizer decide its ids: they are followed or refused."""

import json
import os

import pytest

from tests.support.small_tokenizers import saved
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError

# Accents, Chinese, emoji with a joiner, line separators, combining marks, right-to-left text.
HOSTILE = (
    "Crème brûlée",
    "ÀÉÎÕÜ ñ",
    "東京 tower",
    "a中b",
    "👩‍🔬 x",
    "one\u2028two",
    "one\u0085two",
    "tab\tand  spaces ",
    "don't",
    "e\u0301",
    "שלום עולם",
    "x" * 120,
    "",
    "[MASK] [CLS]",
)
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *"ABCDEFT", "é", "è", "û", "ñ", "中", "東", "京", "'", "ש", "ל"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "tower", "two"]


def wordpiece(folder, tokens=WORDS, **settings):
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_bytes("".join(f"{token}\n" for token in tokens).encode())
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    # A new time, because files that were read before are recognised by their time.
    os.utime(folder / "vocab.txt", ns=(hash(str(settings)) % 10**9,) * 2)
    return folder


SETTINGS = [
    {},
    {"do_lower_case": False},
    {"do_lower_case": True, "strip_accents": False},
    {"do_lower_case": False, "strip_accents": True},
    {"tokenize_chinese_chars": False},
]


@pytest.mark.parity
@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_change_ids_as_in_transformers(tmp_path, settings):
    transformers = pytest.importorskip("transformers")
    folder = wordpiece(tmp_path / "words", tokenizer_class="BertTokenizer", **settings)
    theirs = transformers.BertTokenizerFast(str(folder / "vocab.txt"), **settings)
    ours = read_pretrained(folder)
    for text in HOSTILE:
        if "[MASK]" not in text:  # Transformers reads a special token that a text spells out.
            assert ours.encode(text).tolist() == theirs(text, add_special_tokens=False)["input_ids"], text


def test_every_setting_changes_ids(tmp_path):
    found = [
        [read_pretrained(wordpiece(tmp_path / str(number), **settings)).encode(text).tolist() for text in HOSTILE]
        for number, settings in enumerate(SETTINGS)
    ]
    assert all(one != other for place, one in enumerate(found) for other in found[:place])


def test_only_a_line_feed_ends_a_token(tmp_path):
    odd = ["\u2028", "\u0085", "\x0b", "last"]
    tokenizer = read_pretrained(wordpiece(tmp_path / "odd", [*WORDS[:5], *odd]))
    assert tokenizer.vocab_size == 9
    assert tokenizer.encode("last").tolist() == [8]
    windows = tmp_path / "windows"
    windows.mkdir()
    (windows / "vocab.txt").write_bytes("\r\n".join([*WORDS[:5], "last"]).encode())
    assert read_pretrained(windows).encode("last").tolist() == [5]


def byte_pairs(folder, vocabulary, **settings):
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def test_add_prefix_space_is_followed(tmp_path):
    vocabulary = ["<|endoftext|>", "a", "Ġ"]
    assert read_pretrained(byte_pairs(tmp_path / "without", vocabulary)).encode("a").tolist() == [1]
    prefixed = byte_pairs(tmp_path / "with", vocabulary, tokenizer_class="RobertaTokenizer", add_prefix_space=True)
    assert read_pretrained(prefixed).encode("a").tolist() == [2, 1]


def sentencepiece(folder, name, **settings):
    folder.mkdir()
    (folder / name).write_bytes(b"")
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


REFUSED = {
    "a class of vocab.txt": (
        lambda folder: wordpiece(folder, tokenizer_class="BertJapaneseTokenizer"),
        "names BertJapaneseTokenizer, which reads vocab.txt in a way of its own",
    ),
    "words that are never split": (lambda folder: wordpiece(folder, never_split=["[X]"]), "sets never_split="),
    "no basic tokens": (lambda folder: wordpiece(folder, do_basic_tokenize=False), "sets do_basic_tokenize=False"),
    "words with marked ends": (
        lambda folder: byte_pairs(folder, ["<|endoftext|>", "a</w>"]),
        "'a</w>' marks the end of a word, so this is no byte-level BPE",
    ),
    "words with marked ends, of a class without": (
        lambda folder: byte_pairs(folder, ["<|startoftext|>", "a</w>"], tokenizer_class="GPT2Tokenizer"),
        "'a</w>' marks the end of a word, so this is no byte-level BPE",
    ),
    "XLM-R, mBART or CamemBERT": (
        lambda folder: sentencepiece(folder, "sentencepiece.bpe.model"),
        "belong to XLM-R, mBART and CamemBERT",
    ),
    "mBART by its class": (
        lambda folder: sentencepiece(folder, "sentencepiece.bpe.model", tokenizer_class="MBartTokenizer"),
        "names MBartTokenizer",
    ),
    "no space before a text, of a model that puts one": (
        lambda folder: saved(folder, "sentencepiece", tokenizer_class="LlamaTokenizer", add_prefix_space=False),
        "sets add_prefix_space=False, and tokenizer.model puts a space before a text",
    ),
    "a class of spiece.model": (
        lambda folder: sentencepiece(folder, "spiece.model", tokenizer_class="AlbertTokenizer"),
        "names AlbertTokenizer",
    ),
}


@pytest.mark.parametrize(("write", "message"), REFUSED.values(), ids=REFUSED)
def test_unsupported_layouts_and_settings_are_refused(tmp_path, write, message):
    with pytest.raises(ConfigError) as refused:
        read_pretrained(write(tmp_path / "folder"))
    (line,) = refused.value.problems
    assert message in line
    assert "save the tokenizer as tokenizer.json" in line


@pytest.mark.parametrize("content", ["{", "[]"])
def test_unreadable_settings_are_refused(tmp_path, content):
    folder = wordpiece(tmp_path / "words")
    (folder / "tokenizer_config.json").write_text(content)
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json"):
        read_pretrained(folder)
