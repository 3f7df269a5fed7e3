"""What a tokenizer loses is measured on texts, and the bytes of a document are divided among its
tokens.
"""

import numpy as np
import pytest

from tests.support.small_tokenizers import KINDS, saved
from zoo.data.rows.token_streams import cached_streams, tokenize
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.data.tokenizers.document_bytes import ByteCount, bytes_of_tokens, encode_with_bytes
from zoo.data.tokenizers.tokenizer import TokenOffsets
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, read_pretrained

TEXTS = (
    "the cat  sat",
    " café on the\tmat\n\n and e\u0301 đem ",
    "日本 🎉 the\u00a0dog",
    "the    data   <tab> of",
    "   ",
    "日",
    "Law, AND work\r\n",
    "a▁b",
)
LOSSLESS = {"byte_level", "with_added_words", "with_dropout"}


@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_measured_and_the_bytes_of_documents_are_divided(tmp_path, kind):
    tokenizer = read_pretrained(saved(tmp_path / kind, kind))
    assert tokenizer.lossless == (kind in LOSSLESS)
    assert bool(tokenizer.token_bytes().any()) == tokenizer.lossless
    for text, (ids, sizes) in zip(TEXTS, encode_with_bytes(tokenizer, TEXTS), strict=True):
        np.testing.assert_array_equal(ids, tokenizer.encode(text))
        assert len(ids) == len(sizes)
        assert (sizes >= 0).all()
        assert sizes.sum() == (len(text.encode()) if len(ids) else 0)
        if tokenizer.lossless:
            assert tokenizer.decode(ids) == text
            assert sizes.tolist() == tokenizer.token_bytes()[ids].tolist() or not text.isascii()
    tokenizer.save(tmp_path / "saved")
    again = load_tokenizer(tmp_path / "saved")
    assert (again.fingerprint, again.lossless) == (tokenizer.fingerprint, tokenizer.lossless)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_has_the_bytes_of_its_documents(tmp_path, kind, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    tokenizer = read_pretrained(saved(tmp_path / kind, kind))
    documents = Documents.of([text for text in TEXTS if text.strip()], "seven texts")
    (stream,) = cached_streams(tokenizer, {"held_out": documents}, scored=("held_out",)).values()
    in_memory = tokenize(tokenizer, documents)
    assert stream.record() == in_memory.record()
    np.testing.assert_array_equal(stream.tokens, in_memory.tokens)
    if kind in LOSSLESS:
        assert stream.sizes is None
        assert list(stream.record()) == ["tokens_sha256"]
        return
    np.testing.assert_array_equal(stream.sizes, in_memory.sizes)
    opens = np.flatnonzero(stream.tokens == tokenizer.bos_id)
    assert np.add.reduceat(stream.sizes, opens).tolist() == [len(text.encode()) for text in TEXTS if text.strip()]
    difference = stream.record()["difference"]
    assert difference["bytes"] == documents.bytes
    assert difference["documents"] > 0
    whole = [text for text in TEXTS if text.strip()]
    assert difference["bytes_of_tokens"] == sum(
        len(tokenizer.decode(tokenizer.encode(text)).encode()) for text in whole
    )
    changed = [text for text in whole if tokenizer.decode(tokenizer.encode(text)) != text]
    assert len(changed) == difference["documents"]
    first = difference["first"]
    assert whole[first["document"]] == changed[0]
    assert (
        changed[0].encode()[: first["byte"]] == tokenizer.decode(tokenizer.encode(changed[0])).encode()[: first["byte"]]
    )


def test_a_difference_that_no_probe_shows_is_found_in_the_text(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    tokenizer = read_pretrained(saved(tmp_path / "bpe", "without_some_bytes"))
    tokenizer.lossless = True  # As if it had passed.
    documents = Documents.of(["the cat", "a café"], "two texts")
    streams = cached_streams(tokenizer, {"train": documents, "held_out": documents}, scored=("held_out",))
    assert streams["train"].sizes is None
    for stream in streams.values():
        assert stream.difference == {
            "bytes": 14, "bytes_of_tokens": 12, "documents": 1,
            "first": {"document": 1, "byte": 5, "text": "a café", "decoded": "a caf"},
        }  # fmt: skip
    assert streams["held_out"].sizes.sum() == 14


def test_bytes_without_a_token_go_to_the_next_or_the_last_and_shared_places_are_divided():
    # "a", nothing for " ", both of the tokens of "é", "b", and nothing for the last "!".
    offsets = TokenOffsets(np.arange(4), np.array([0, 2, 2, 3]), np.array([1, 3, 3, 4]))
    assert bytes_of_tokens("a éb!", offsets).tolist() == [1, 2, 1, 2]
    # A token that stands for no character, and places that go back.
    offsets = TokenOffsets(np.arange(3), np.array([0, 0, 0]), np.array([0, 2, 1]))
    assert bytes_of_tokens("abc", offsets).tolist() == [0, 2, 1]


def test_the_first_difference_is_counted_over_the_pieces_of_a_document():
    count = ByteCount()
    count.add(True, "same", 4, None)
    count.add(True, "é", 2, "é")
    count.add(False, "x y", 3, "x")
    count.add(False, "z", 1, "")
    assert count.record() == {
        "bytes": 10, "bytes_of_tokens": 7, "documents": 1,
        "first": {"document": 1, "byte": 3, "text": "x y", "decoded": "x"},
    }  # fmt: skip


def test_dropout_of_a_file_is_off(tmp_path):
    text = "the cat sat on the mat and the dog " * 20
    plain, dropped = (read_pretrained(saved(tmp_path / kind, kind)) for kind in ("byte_level", "with_dropout"))
    assert dropped.encode(text).tolist() == plain.encode(text).tolist()
    dropped.save(tmp_path / "run")
    assert load_tokenizer(tmp_path / "run").fingerprint == plain.fingerprint


def test_an_empty_text_has_no_tokens_and_no_offsets():
    (found,) = ByteTokenizer().encode_with_offsets([""])
    assert [len(part) for part in found] == [0, 0, 0]
