"""Tokenizers of UTF-8 bytes, which need no training."""

from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer


class ByteTokenizer(Tokenizer):
    """One token per UTF-8 byte: ids 0 .. 255 are the bytes, 256 opens a document."""

    kind = "bytes"

    def __init__(self):
        super().__init__([bytes([value]) for value in range(256)] + [b""], bos_id=256)

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls()

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return 257

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls()


class ByT5Tokenizer(Tokenizer):
    """One token per UTF-8 byte with the ids of ByT5 (Xue et al. 2022, section 3.1).

    0 is padding, 1 (</s>) opens and ends documents, 2 is unknown; the bytes follow.
    """

    kind = "byt5"
    _NAMES = ("<pad>", "</s>", "<unk>")
    _SPECIALS = len(_NAMES)

    def __init__(self):
        super().__init__([b""] * self._SPECIALS + [bytes([value]) for value in range(256)], bos_id=1)
        self.special_ids = frozenset(range(self._SPECIALS))
        self.separator_id = self.bos_id

    def id_of(self, token: str) -> int | None:
        return self._NAMES.index(token) if token in self._NAMES else None

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls()

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return cls._SPECIALS + 256

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32) + self._SPECIALS

    def to_json(self) -> dict[str, Any]:
        return {"specials": self._SPECIALS}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls()
