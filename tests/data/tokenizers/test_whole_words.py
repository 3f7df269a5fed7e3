"""Words as tokens: their offsets, words that the vocabulary lacks, and their characters."""

import numpy as np
import pytest

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, tokenizer_class
from zoo.data.tokenizers.word_level import WordTokenizer
from zoo.errors import DataError

TEXT = "the cat  sat\u00a0on\nthe mat , naïve"


def test_words_are_separated_by_white_space(tmp_path):
    texts = Documents.of([TEXT, "one mat"], "here")
    tokenizer = tokenizer_class("words").build(None, texts, Documents.of(["the"], "here"))
    # The words of all texts, including held-out ones.
    assert tokenizer.words == (",", "cat", "mat", "naïve", "on", "one", "sat", "the")
    (located,) = tokenizer.encode_with_offsets([TEXT])
    assert located.ids.tolist() == [7, 1, 6, 4, 7, 2, 0, 3]
    assert [TEXT[start:stop] for start, stop in zip(located.starts, located.stops, strict=True)] == TEXT.split()
    assert tokenizer.encode("").tolist() == []
    assert tokenizer.decode([8, 7, 1, 9, 8, 2], document="|") == "|the cat|mat"
    assert not tokenizer.token_bytes().any()
    assert not any(joins.any() for joins in tokenizer.word_joins())
    tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint == tokenizer.fingerprint
    with pytest.raises(DataError, match="the word 'dog' at character 4 is not one of the source's 8"):
        tokenizer.encode("the dog")


def test_characters_are_those_of_the_published_models():
    tokenizer = WordTokenizer(["ab"])
    assert tokenizer.token_characters(5).tolist() == [
        [259, 98, 99, 260, 261],
        [259, 257, 260, 261, 261],
        [259, 258, 260, 261, 261],
    ]
    assert (tokenizer.bos_id, tokenizer.separator_id, tokenizer.vocab_size) == (1, 2, 3)
    assert tokenizer.encode("ab ab").dtype == np.int32
