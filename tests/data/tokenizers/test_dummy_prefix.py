"""Text after a cut is encoded as in the whole document: without the space before a text."""

import numpy as np
import pytest

from tests.support.small_tokenizers import CORPUS, byte_fallback, byte_level, sentencepiece_content, wordpiece
from zoo.config import default, override
from zoo.data.rows.token_streams import cached_streams, tokenize
from zoo.data.sources.documents import Documents, Piece
from zoo.data.tokenizers.own_tokens import keep_own_tokens
from zoo.data.tokenizers.sentencepiece_files import SentencePieceTokenizer
from zoo.data.tokenizers.tokenizer_registry import PretrainedTokenizer
from zoo.data.tokenizers.trained import UnigramTokenizer

TEXT = "the cat sat. the dog\nsat on the mat\n\nand the file"


def in_stretches():
    """One document, read in three stretches."""
    stretches = ((0, 12), (12, 20), (20, len(TEXT)))
    return Documents(lambda policy: (Piece(not start, TEXT[start:stop]) for start, stop in stretches), "in stretches")


def llama_file(**settings):
    """A model that keeps all spaces, as LLaMA's."""
    return SentencePieceTokenizer(sentencepiece_content(
        normalization_rule_name="identity", remove_extra_whitespaces=False, byte_fallback=True, vocab_size=320, **settings
    ))  # fmt: skip


def llama_json():
    return PretrainedTokenizer(keep_own_tokens(byte_fallback()))


def unigram():
    settings = override(default(), {"data.tokenizer.kind": "unigram", "data.tokenizer.vocab_size": 300}).data.tokenizer
    return UnigramTokenizer.build(settings, Documents.of(CORPUS, "c"), Documents.of((*CORPUS, TEXT), "t"))


@pytest.fixture(params=(llama_file, llama_json, unigram))
def tokenizer(request, cache):
    return request.param()


def whole(tokenizer):
    return [tokenizer.bos_id, *tokenizer.encode(TEXT).tolist()]


def test_a_text_in_stretches_has_the_tokens_of_the_whole(tokenizer):
    found = tokenize(tokenizer, in_stretches())
    assert found.tokens.tolist() == whole(tokenizer)
    assert found.difference is None
    assert found.sizes.sum() == len(TEXT.encode())


def test_sentences_have_the_tokens_of_the_whole(tokenizer):
    found = tokenize(tokenizer, Documents.of((TEXT,), "whole"), with_sentences=True)
    assert found.tokens.tolist() == whole(tokenizer)
    assert found.difference is None
    parts = np.split(found.tokens, found.sentences[1:])
    read = [tokenizer.within_text.decode(part[part != tokenizer.bos_id]) for part in parts]
    assert [text.removeprefix(" the cat") for text in read] == [
        " sat.",
        " the dog",
        "\nsat on the mat",
        "\n\nand the file",
    ]


def test_the_prefix_belongs_to_the_beginning_of_a_document(tokenizer):
    within = tokenizer.within_text
    assert tokenizer.decode([*tokenizer.encode("a"), *within.encode(" the")]) == "a the"
    assert [*tokenizer.encode("the cat."), *within.encode("\nthe")] == tokenizer.encode("the cat.\nthe").tolist()
    assert tokenizer.encode("the").tolist() != within.encode("the").tolist()


def test_another_document_token_keeps_what_is_within(tokenizer):
    assert tokenizer.within_text.bos_id == tokenizer.bos_id
    other = tokenizer.with_document_id(1 if tokenizer.bos_id != 1 else 2)
    assert other.within_text.bos_id == other.bos_id


@pytest.mark.parametrize("make", [byte_level, wordpiece])
def test_tokenizers_without_a_prefix_stay_as_they_are(make, cache):
    found = PretrainedTokenizer(keep_own_tokens(make()))
    assert found.within_text is found


def test_models_that_strip_a_text_keep_the_prefix(cache):
    from tokenizers import normalizers

    model = byte_fallback()
    model.normalizer = normalizers.Sequence([normalizers.Strip(), model.normalizer])
    found = PretrainedTokenizer(keep_own_tokens(model))
    assert found.within_text is found


def test_sentences_that_lose_their_first_space_keep_the_prefix():
    found = SentencePieceTokenizer(sentencepiece_content())
    assert found.within_text is found
    assert found.decode([*found.encode("the cat"), *found.encode(" sat")]) == "the cat sat"


def test_earlier_streams_are_not_read_again(cache, monkeypatch):
    tokenizer = llama_json()
    with monkeypatch.context() as earlier:
        earlier.setattr(type(tokenizer), "within_text", property(lambda self: self))
        # The name of the folder was the same for all tokenizers.
        earlier.setattr(tokenizer, "lossless", True)
        before = cached_streams(tokenizer, {"train": in_stretches()})["train"].tokens
    assert cached_streams(tokenizer, {"train": in_stretches()})["train"].tokens.tolist() == whole(tokenizer)
    assert len(before) > len(whole(tokenizer))
