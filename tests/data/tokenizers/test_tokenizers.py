import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo.data.rows.token_streams import tokenize
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers import tokenizer as tokenizer_module
from zoo.data.tokenizers.byte_pair import BytePairTokenizer
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.character_level import CharacterTokenizer
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, tokenizer_class
from zoo.errors import ConfigError, DataError

LOSSLESS = ("bytes", "byt5", "characters", "bpe")
TEXT = (
    "The cat's hat -- they'll say 'twas 1234 cats, isn't it?\n\n  def f(x):\n\treturn x  \r\n"
    "naïve café, Straße, ελληνικά, 日本語のテキスト, 🙂👩‍👩‍👧, \u00a0\u2003\u2028 \x1c\x00 e\u0301 <|endoftext|> Ġ Ċ\n"
)
# Characters that the vocabulary of TEXT contains, and any others.
known_texts = st.text(alphabet=sorted(set(TEXT)))


def built(kind, size=300, training=TEXT):
    source = Documents.of((training,), "test text")
    return tokenizer_class(kind).build(SimpleNamespace(kind=kind, vocab_size=size, split_digits=False), source, source)


@pytest.fixture(scope="module")
def all_tokenizers(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))
        return [built(kind) for kind in LOSSLESS]


@given(text=known_texts)
def test_encode_and_decode_are_inverse_and_count_bytes_exactly(all_tokenizers, text):
    for tokenizer in all_tokenizers:
        ids = tokenizer.encode(text)
        assert ids.dtype == np.int32
        assert ids.ndim == 1
        assert tokenizer.bos_id not in ids
        assert ((ids >= 0) & (ids < tokenizer.vocab_size)).all()
        assert tokenizer.decode(ids) == text
        assert tokenizer.token_bytes()[ids].sum() == len(text.encode())


@given(text=st.text())
def test_bytes_and_bpe_encode_any_text(all_tokenizers, text):
    for tokenizer in all_tokenizers:
        if tokenizer.kind != "characters":
            ids = tokenizer.encode(text)
            assert tokenizer.decode(ids) == text
            assert tokenizer.token_bytes()[ids].sum() == len(text.encode())


@given(texts=st.lists(known_texts.filter(str.strip), min_size=1, max_size=5))
def test_stream_marks_the_start_of_every_document(all_tokenizers, texts):
    for tokenizer in all_tokenizers:
        stream = tokenize(tokenizer, Documents.of(texts, "test")).tokens
        expected = [np.append(tokenizer.bos_id, tokenizer.encode(text)) for text in texts]
        np.testing.assert_array_equal(stream, np.concatenate([np.zeros(0, np.int32), *expected]))
        assert tokenizer.decode(stream) == "".join(texts)
        assert tokenizer.decode(stream, document="¶") == "".join("¶" + text for text in texts)


def test_sizes_and_the_special_token(all_tokenizers):
    byte, byt5, character, pair = all_tokenizers
    assert (byte.vocab_size, byte.bos_id) == (257, 256)
    assert (byt5.vocab_size, byt5.bos_id) == (259, 1)
    assert (character.vocab_size, character.bos_id) == (len(set(TEXT)) + 1, len(set(TEXT)))
    assert (pair.vocab_size, pair.bos_id) == (300, 299)
    for tokenizer in all_tokenizers:
        sizes = tokenizer.token_bytes()
        assert sizes.dtype == np.int64
        assert sizes.shape == (tokenizer.vocab_size,)
        assert sizes[tokenizer.bos_id] == 0
        assert (np.delete(sizes, sorted(tokenizer.special_ids)) > 0).all()


def test_byt5_numbers_bytes_after_its_special_ids():
    tokenizer = built("byt5")
    assert tokenizer.encode("é!").tolist() == [0xC3 + 3, 0xA9 + 3, ord("!") + 3]
    assert tokenizer.fingerprint != built("bytes").fingerprint


@pytest.mark.parity
def test_byt5_matches_transformers():
    transformers = pytest.importorskip("transformers")
    other, tokenizer = transformers.ByT5Tokenizer(), built("byt5")
    assert tokenizer.encode(TEXT).tolist() == other.encode(TEXT, add_special_tokens=False)
    assert tokenizer.bos_id == other.eos_token_id
    assert tokenizer.special_ids == {other.pad_token_id, other.eos_token_id, other.unk_token_id}


def test_characters_of_tokens(all_tokenizers):
    for tokenizer in all_tokenizers:
        table = tokenizer.token_characters(7)
        assert table.shape == (tokenizer.vocab_size, 7)
        assert table.dtype == np.int32
        for id, (row, piece) in enumerate(zip(table.tolist(), tokenizer.pieces, strict=True)):
            length = row.index(260)
            assert row[0] == 259
            inside = [257] if id == tokenizer.bos_id else [byte + 1 for byte in piece[:5]]
            assert row[1:length] == inside
            assert row[length + 1 :] == [261] * (6 - length)
    pair = all_tokenizers[2]
    longest = max(range(pair.vocab_size), key=lambda id: len(pair.pieces[id]))
    assert len(pair.pieces[longest]) > 3
    assert pair.token_characters(5)[longest].tolist() == [259, *(byte + 1 for byte in pair.pieces[longest][:3]), 260]
    assert len(np.unique(pair.token_characters(50), axis=0)) == pair.vocab_size


def test_byte_ids_are_the_bytes():
    assert ByteTokenizer().encode("aé").tolist() == [97, 0xC3, 0xA9]


def test_character_ids_follow_code_points():
    tokenizer = CharacterTokenizer("ba🙂aé")
    assert tokenizer.characters == "abé🙂"
    assert tokenizer.encode("🙂ab").tolist() == [3, 0, 1]


def test_character_vocabulary_covers_the_whole_source():
    source = Documents.of(("abc", "xyz"), "test")
    tokenizer = CharacterTokenizer.build(None, source, Documents.of(("abc",), "test"))
    assert tokenizer.characters == "abcxyz"


@pytest.mark.parametrize("unknown", ["q", "\x00", "\U0010ffff"])
def test_unknown_character_is_named_with_its_position(unknown):
    with pytest.raises(DataError, match=rf"U\+{ord(unknown):04X}\) at position 2 "):
        CharacterTokenizer("abc").encode("ab" + unknown + unknown)


def test_half_a_character_decodes_to_a_replacement_character():
    for tokenizer in (ByteTokenizer(), built("bpe", 257, "x")):
        first, second = tokenizer.encode("é")
        assert tokenizer.decode([first]) == tokenizer.decode([second]) == "\ufffd"
        assert tokenizer.decode([97, second, 98]) == tokenizer.decode([97]) + "\ufffd" + tokenizer.decode([98])


@pytest.mark.parametrize("ids", [[-1], [257], [0, -5]])
def test_decode_refuses_ids_out_of_range(ids):
    with pytest.raises(ValueError, match=r"0 \.\. 256"):
        ByteTokenizer().decode(ids)


def test_decode_takes_lists_generators_and_arrays():
    tokenizer = ByteTokenizer()
    for ids in ([104, 105], (number for number in (104, 105)), np.array([104, 105], np.uint16)):
        assert tokenizer.decode(ids) == "hi"
    assert tokenizer.decode([]) == ""


def test_saved_tokenizers_encode_the_same(all_tokenizers, tmp_path):
    for tokenizer in all_tokenizers:
        tokenizer.save(tmp_path / tokenizer.kind)
        loaded = load_tokenizer(tmp_path / tokenizer.kind)
        assert type(loaded) is type(tokenizer)
        assert loaded.fingerprint == tokenizer.fingerprint
        assert (loaded.vocab_size, loaded.bos_id) == (tokenizer.vocab_size, tokenizer.bos_id)
        np.testing.assert_array_equal(loaded.encode(TEXT), tokenizer.encode(TEXT))
        assert [path.name for path in (tmp_path / tokenizer.kind).iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize(
    "content", ["", "{}", '{"kind": "bpe"}', '{"kind": "bpe", "model": {}}', '{"kind": "other"}', "[]"]
)
def test_damaged_tokenizer_file(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(DataError, match="not a tokenizer file"):
        load_tokenizer(tmp_path)


def test_missing_tokenizer_file(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_tokenizer(tmp_path)


def test_unknown_kind_suggests():
    with pytest.raises(
        ConfigError, match=r'data\.tokenizer\.kind: unknown tokenizer "byte" \(did you mean "bytes"\?\)'
    ):
        tokenizer_class("byte")


def test_bpe_merges_frequent_pairs():
    tokenizer = built("bpe", 262, "banana " * 50)
    assert len(tokenizer.encode(" banana")) < len(" banana")
    assert b"anan" in tokenizer.pieces or b"banana" in tokenizer.pieces


def test_bpe_learns_from_every_training_document_and_from_no_other():
    texts = "plum " * 30, "kiwi " * 30
    training, source = Documents.of(texts, "training"), Documents.of((*texts, "zuzu " * 99), "source")
    pieces = BytePairTokenizer.build(SimpleNamespace(vocab_size=265, split_digits=False), source, training).pieces
    assert {b" plum", b" kiwi"} <= set(pieces)
    assert b"zu" not in pieces


def test_bpe_size_must_include_the_bytes_and_be_reachable():
    with pytest.raises(ConfigError, match="at least 257"):
        built("bpe", 256)
    with pytest.raises(DataError, match=r"data\.tokenizer\.vocab_size: 5000 asked for.*yields only 2\d\d"):
        built("bpe", 5000, "few words")


def test_bpe_encodes_chunks_like_the_whole_text(monkeypatch):
    tokenizer = built("bpe", 380, TEXT * 3)
    text = TEXT * 20
    whole = tokenizer._model.encode(text, add_special_tokens=False).ids
    for size in (1, 7, 64):
        monkeypatch.setattr(tokenizer_module, "_CHUNK", size)
        assert len(list(tokenizer_module.text_chunks(text))) > 10
        assert tokenizer.encode(text).tolist() == whole


@given(text=st.text(alphabet=st.sampled_from("aZ1'st \n\t\r\x1c\u00a0\u2028é-_🙂")), size=st.integers(1, 5))
def test_bpe_chunks_change_no_token(all_tokenizers, text, size):
    tokenizer = all_tokenizers[-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_module, "_CHUNK", size)
        assert "".join(tokenizer_module.text_chunks(text)) == text
        assert tokenizer.encode(text).tolist() == tokenizer._model.encode(text, add_special_tokens=False).ids


def test_bpe_is_cached_and_a_damaged_cache_is_trained_again(cache, monkeypatch):
    first = built("bpe")
    (file,) = cache.glob("tokenizers/*/tokenizer.json")
    with monkeypatch.context() as patch:
        patch.setattr(BytePairTokenizer, "_trained", None)
        assert built("bpe").fingerprint == first.fingerprint
    file.write_text(file.read_text()[:-200])
    assert built("bpe").fingerprint == first.fingerprint
    json.loads(file.read_text())
    built("bpe", 290)
    built("bpe", 300, TEXT + "more")
    assert len(list(cache.glob("tokenizers/*"))) == 3


@pytest.mark.promise(reason="three processes train a tokenizer on much text")
def test_bpe_training_on_real_text_is_the_same_in_every_process(tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from test_tokenizers import TEXT, built; import sysconfig, pathlib;"
        "text = ''.join(p.read_text(encoding='utf-8') for p in sorted(pathlib.Path(sysconfig.get_path('stdlib')).glob('a*.py')));"
        "print(built('bpe', 1000, TEXT + text).fingerprint)"
    )
    prints = set()
    for seed in "012":
        threads = {"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": str(1 + int(seed))}
        environment = {**os.environ, **threads, "ZOO_CACHE": str(tmp_path / seed)}
        command = [sys.executable, "-c", program, str(Path(__file__).parent)]
        prints.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(prints) == 1


def test_bpe_on_real_text(real_text):
    text = real_text("tinyshakespeare.txt").read_text(encoding="utf-8")
    tokenizer = built("bpe", 512, text)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes()[ids].sum() == len(text.encode())
    assert len(text.encode()) / len(ids) > 1.8
