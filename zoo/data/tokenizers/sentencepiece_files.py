"""Tokenizers in SentencePiece's format (Kudo & Richardson 2018).

These are the `.model` files of T5, mT5, LLaMA, Mistral and Gemma.
"""

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets
from zoo.data.tokenizers.word_boundaries import WordJoins, joins_by_marker
from zoo.errors import ConfigError, DataError


class SentencePieceTokenizer(Tokenizer):
    """The tokenizer of a `.model` file, run by the `sentencepiece` library.

    A document is opened by the model's token for the beginning of a sentence, or, if it has none
    (T5), by the token for the end. A space is part of the token after it, the text is normalised
    and prefixed with a space, so no loss per byte of text is defined: `token_bytes` is 0
    everywhere.

    Args:
        content: the bytes of the file.

    Raises:
        DataError: not such a file, or one with neither of the two tokens.
    """

    kind = "sentencepiece"

    def __init__(self, content: bytes):
        try:
            import sentencepiece
        except ModuleNotFoundError:
            raise ConfigError(
                "reading a SentencePiece model needs the package sentencepiece: pip install sentencepiece"
            ) from None
        self._content, self._model = content, sentencepiece.SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(content)
        except (RuntimeError, ValueError) as error:
            raise DataError(f"not a SentencePiece model: {' '.join(str(error).split())[:200]}") from error
        bos_id = next((id for id in (self._model.bos_id(), self._model.eos_id()) if id >= 0), None)
        if bos_id is None:
            raise DataError("the tokenizer has no token that could open a document: none begins or ends a sentence")
        size = self._model.GetPieceSize()
        unwritten = {id for id in range(size) if self._model.IsControl(id) or self._model.IsUnknown(id)} | {bos_id}
        ends = self._model.eos_id()
        super().__init__(
            [b"" if id in unwritten else self._model.IdToPiece(id).encode() for id in range(size)],
            bos_id,
            separator_id=ends if ends >= 0 and ends != bos_id else None,
        )
        self.special_ids = frozenset(unwritten)

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return read_sentencepiece(settings.path)

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return read_sentencepiece(settings.path).vocab_size

    def encode(self, text: str) -> np.ndarray:
        return np.array(self._model.Encode(text), np.int32)

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._model.Encode(list(texts))]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        found = []
        for text in texts:
            pieces = self._model.Encode(text, out_type="immutable_proto").pieces
            table = np.array([(piece.id, piece.begin, piece.end) for piece in pieces], np.int32).reshape(-1, 3)
            found.append(TokenOffsets(*table.T))
        return found

    def decode(self, ids: Iterable[int], document: str = "") -> str:
        return document.join(self._model.Decode(part) for part in self.documents_of(ids))

    def token_bytes(self) -> np.ndarray:
        return np.zeros(self.vocab_size, np.int64)

    def word_joins(self) -> WordJoins:
        """Returns joins by the mark of a space, which begins a word."""
        return joins_by_marker([piece.decode() for piece in self.pieces], self.special_ids)

    def to_json(self) -> dict[str, Any]:
        return {"content": base64.b64encode(self._content).decode()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(base64.b64decode(content["content"], validate=True))


def read_sentencepiece(path: str | Path) -> SentencePieceTokenizer:
    """Reads the tokenizer of a `.model` file.

    Raises:
        DataError: it is damaged.
    """
    return SentencePieceTokenizer(Path(path).read_bytes())
