"""Whole words as tokens, for models that read characters."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets
from zoo.data.tokenizers.word_boundaries import WordJoins
from zoo.errors import DataError

_WORD = re.compile(r"\S+")


class WordTokenizer(Tokenizer):
    """One token per word of the source, separated by white space; the last two ids are special.

    They open a document and end a sentence. An ELMo reads the characters of each word (Peters et
    al. 2018), so to it an id is only an index; punctuation is a word if the text has white space
    around it, as the text of the published models had. White space is lost, so `token_bytes` is 0.

    Args:
        words: the vocabulary, in any order.
    """

    kind = "words"
    lossless = False

    def __init__(self, words: Iterable[str]):
        self.words = tuple(sorted(set(words)))
        self._ids = {word: id for id, word in enumerate(self.words)}
        count = len(self.words)
        super().__init__([*(word.encode() for word in self.words), b"", b""], bos_id=count, separator_id=count + 1)
        self.special_ids = frozenset({count, count + 1})

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls(set().union(*(_WORD.findall(piece.text) for piece in source.pieces())))

    @classmethod
    def known_vocab_size(cls, settings: Any) -> None:
        return None

    def encode(self, text: str) -> np.ndarray:
        """Returns the ids of one text, int32 [tokens]. Raises DataError for an unknown word."""
        return self.encode_with_offsets([text])[0].ids

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """Returns the ids of each text with their character offsets. Raises as `encode`."""
        return [self._located(text) for text in texts]

    def _located(self, text: str) -> TokenOffsets:
        found = list(_WORD.finditer(text))
        ids = [self._ids.get(match[0], -1) for match in found]
        if -1 in ids:
            word = found[ids.index(-1)]
            raise DataError(
                f"the word {word[0][:40]!r} at character {word.start()} is not one of the source's {len(self.words)}; "
                "data.tokenizer.kind=bytes or bpe encodes any text"
            )
        starts, stops = ([place(match) for match in found] for place in (re.Match.start, re.Match.end))
        return TokenOffsets(*(np.array(column, np.int32) for column in (ids, starts, stops)))

    def decode(self, ids: Any, document: str = "") -> str:
        """Returns the words, separated by single spaces; otherwise as `Tokenizer.decode`."""
        return document.join(
            " ".join(self.words[id] for id in part if id != self.separator_id) for part in self.documents_of(ids)
        )

    def token_bytes(self) -> np.ndarray:
        return np.zeros(self.vocab_size, np.int64)

    def word_joins(self) -> WordJoins:
        """Returns no joins: every token is a word."""
        return np.zeros(self.vocab_size, bool), np.zeros(self.vocab_size, bool)

    def to_json(self) -> dict[str, Any]:
        return {"words": list(self.words)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(content["words"])
