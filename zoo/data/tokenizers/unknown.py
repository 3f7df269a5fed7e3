"""Stands in for the tokenizer of stored tokens that nobody has named."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from zoo.config.field import AUTO
from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets
from zoo.errors import ConfigError, DataError, shown


class UnknownTokenizer(Tokenizer):
    """Reads and writes ids as numbers between spaces: what they stand for is not known.

    Without the id of a token between documents, none opens a document or ends a generated text.

    Args:
        size: number of ids, V.
        document_id: the token between documents; None if unknown.
    """

    kind = "unknown"
    reads_text = lossless = False

    def __init__(self, size: int, document_id: int | None = None):
        # No id of the model: neither [MASK] nor the separator, which follow the others.
        super().__init__([f"{id} ".encode() for id in range(size)], size + 2)
        self.opens_documents, self.special_ids = False, frozenset()
        if document_id is not None:
            self.bos_id, self.opens_documents, self.special_ids = document_id, True, frozenset({document_id})

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        id = settings.document_id
        return cls(cls.known_vocab_size(settings), None if id == AUTO else id)

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        if not settings.ids:
            raise ConfigError(
                "data.tokenizer.ids must be the number of ids of the tokenizer that made the tokens, e.g. 50257 for "
                "GPT-2"
            )
        return settings.ids

    def encode(self, text: str) -> np.ndarray:
        words = re.findall(r"[^\s,]+", text)
        if wrong := next((word for word in words if not (word.isascii() and word.isdigit())), None):
            raise DataError(
                f"the tokenizer is unknown, so a text must be ids between spaces, such as 17 4 0; got {shown(wrong)}"
            )
        ids = np.array([int(word) if len(word) < 12 else -1 for word in words], np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.vocab_size:
            raise DataError(f"ids must lie in 0 .. {self.vocab_size - 1}")
        return ids.astype(np.int32)

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        found = []
        for text in texts:
            places = [match.span() for match in re.finditer(r"[^\s,]+", text)]
            spans = np.array(places, np.int32).reshape(-1, 2)
            found.append(TokenOffsets(self.encode(text), spans[:, 0], spans[:, 1]))
        return found

    def decode(self, ids: Iterable[int], document: str = "") -> str:
        return " ".join(map(str, self.checked_ids(ids)))

    def token_bytes(self) -> np.ndarray:
        return np.zeros(self.vocab_size, np.int64)

    def to_json(self) -> dict[str, Any]:
        return {"ids": self.vocab_size, "document_id": self.bos_id if self.opens_documents else None}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(content["ids"], content["document_id"])
