"""Words as tokens: where they stand, what the vocabulary lacks, and their characters."""

import numpy as np
import pytest

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer_registry import load_tokenizer, tokenizer_class
from zoo.data.tokenizers.word_level import WordTokenizer
from zoo.errors import DataError

TEXT = "the cat  sat\u00a0on\nthe mat , naïve"


def test_words_are_what_white_space_divides(tmp_path):
    texts = Documents.of([TEXT, "one mat"], "here")
    made = tokenizer_class("words").build(None, texts, Documents.of(["the"], "here"))
    # Those of all texts, held-out ones included.
    assert made.words == (",", "cat", "mat", "naïve", "on", "one", "sat", "the")
    (located,) = made.encode_with_offsets([TEXT])
    assert located.ids.tolist() == [7, 1, 6, 4, 7, 2, 0, 3]
    assert [TEXT[start:stop] for start, stop in zip(located.starts, located.stops, strict=True)] == TEXT.split()
    assert made.encode("").tolist() == []
    assert made.decode([8, 7, 1, 9, 8, 2], document="|") == "|the cat|mat"
    assert not made.token_bytes().any()
    assert not any(joins.any() for joins in made.word_joins())
    made.save(tmp_path)
    assert load_tokenizer(tmp_path).fingerprint == made.fingerprint
    with pytest.raises(DataError, match="the word 'dog' at character 4 is not one of the source's 8"):
        made.encode("the dog")


def test_characters_are_those_of_the_published_models():
    made = WordTokenizer(["ab"])
    assert made.token_characters(5).tolist() == [
        [259, 98, 99, 260, 261],
        [259, 257, 260, 261, 261],
        [259, 258, 260, 261, 261],
    ]
    assert (made.bos_id, made.separator_id, made.vocab_size) == (1, 2, 3)
    assert made.encode("ab ab").dtype == np.int32
