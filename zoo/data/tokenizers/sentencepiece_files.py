"""Tokenizers in SentencePiece's format (Kudo & Richardson 2018).

These are the `.model` files of T5, mT5, LLaMA, Mistral and Gemma, whose ids number the pieces, and of
XLM-R and CamemBERT, which number them in ways of their own.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets
from zoo.data.tokenizers.word_boundaries import WordJoins, joins_by_marker
from zoo.errors import ConfigError, DataError, one_line


class Layout(NamedTuple):
    """The ids of a tokenizer as a function of its pieces' ids.

    Attributes:
        shift: added to the id of a piece.
        own: tokens with ids of their own; one that is also a piece has no other id. The unknown piece
            is "<unk>" in all of them.
        has_mask: a token "<mask>" comes after the last piece.
    """

    shift: int
    own: Mapping[str, int]
    has_mask: bool


PIECES = "pieces"
LAYOUTS = {
    PIECES: Layout(0, {}, False),
    # fairseq's dictionary begins with four tokens, and SentencePiece's with three others.
    "xlm-roberta": Layout(1, {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}, True),
    # CamemBERT's has them before all of SentencePiece's.
    "camembert": Layout(4, {"<s>NOTUSED": 0, "<pad>": 1, "</s>NOTUSED": 2, "<unk>": 3, "<unk>NOTUSED": 4}, True),
}


class ModelTokenizer(Tokenizer):
    """A tokenizer that a SentencePiece model runs, with ids of its own for the pieces.

    A subclass sets `_model`, and `_piece_of_id`: for each id that stands for text, the model's piece
    (its name or its number). A space is part of the token after it, and text is normalised, so
    `token_bytes` is 0 everywhere.
    """

    lossless = False
    _model: Any
    _piece_of_id: Mapping[int, int] | Mapping[int, str]

    def decode(self, ids: Iterable[int], document: str = "") -> str:
        return document.join(
            self._model.Decode([self._piece_of_id[id] for id in part if id in self._piece_of_id])
            for part in self.documents_of(ids)
        )

    def decode_batch(self, texts: Sequence[np.ndarray]) -> list[str]:
        return self._model.Decode([[self._piece_of_id[id] for id in ids.tolist() if id in self._piece_of_id] for ids in texts])

    def token_bytes(self) -> np.ndarray:
        return np.zeros(self.vocab_size, np.int64)

    def word_joins(self) -> WordJoins:
        """Returns joins by the mark of a space, which begins a word."""
        return joins_by_marker([piece.decode() for piece in self.pieces], self.special_ids)


def load_model(content: bytes) -> Any:
    """Returns the `SentencePieceProcessor` of the bytes of a `.model` file.

    Raises:
        ConfigError: the package is missing.
        DataError: not such a file.
    """
    try:
        import sentencepiece
    except ModuleNotFoundError:
        raise ConfigError(
            "reading a SentencePiece model needs the package sentencepiece: pip install sentencepiece"
        ) from None
    model = sentencepiece.SentencePieceProcessor()
    try:
        model.LoadFromSerializedProto(content)
    except (RuntimeError, ValueError) as error:
        raise DataError(f"not a SentencePiece model: {one_line(error)}") from error
    return model


class SentencePieceTokenizer(ModelTokenizer):
    """The tokenizer of a `.model` file, run by the `sentencepiece` library.

    A document is opened by the model's token for the beginning of a sentence, or, if it has none
    (T5), by the token for the end. Text is prefixed with a space.

    Args:
        content: the bytes of the file.
        layout: name of one of `LAYOUTS`.

    Raises:
        DataError: not such a file, or one with neither of the two tokens.
    """

    kind = "sentencepiece"

    def __init__(self, content: bytes, layout: str = PIECES):
        self._content, self._layout, self._model = content, layout, load_model(content)
        bos_id = next((id for id in (self._model.bos_id(), self._model.eos_id()) if id >= 0), None)
        if bos_id is None:
            raise DataError("the tokenizer has no token that could open a document: none begins or ends a sentence")
        self._id_of_piece = ids = _ids_of_pieces(self._model, LAYOUTS[layout])
        self._piece_of_id = {id: piece for piece, id in enumerate(ids.tolist())}
        mask_id = int(ids.max()) + 1 if LAYOUTS[layout].has_mask else None
        pieces = [b""] * (int(ids.max()) + 1 + (mask_id is not None))
        for piece, id in enumerate(ids):
            if not (self._model.IsControl(piece) or self._model.IsUnknown(piece) or piece == bos_id):
                pieces[id] = self._model.IdToPiece(piece).encode()
        ends = self._model.eos_id()
        super().__init__(
            pieces, int(ids[bos_id]), mask_id, separator_id=int(ids[ends]) if ends >= 0 and ends != bos_id else None
        )
        self.special_ids = frozenset(id for id, piece in enumerate(pieces) if not piece)

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return read_sentencepiece(settings.path)

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return read_sentencepiece(settings.path).vocab_size

    def encode(self, text: str) -> np.ndarray:
        return self._ids(self._model.Encode(text))

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self._ids(pieces) for pieces in self._model.Encode(list(texts))]

    def _ids(self, pieces: Sequence[int]) -> np.ndarray:
        return self._id_of_piece[np.array(pieces, np.int32)]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        found = []
        for text in texts:
            mapping = self._model.EncodeAsOffsetMapping(text)
            offsets = np.array(mapping["offsets"], np.int32).reshape(-1, 2)
            found.append(TokenOffsets(self._ids(mapping["ids"]), offsets[:, 0], offsets[:, 1]))
        return found

    def to_json(self) -> dict[str, Any]:
        layout = {} if self._layout == PIECES else {"layout": self._layout}
        return {"content": base64.b64encode(self._content).decode(), **layout}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(base64.b64decode(content["content"], validate=True), content.get("layout", PIECES))


def _ids_of_pieces(model: Any, layout: Layout) -> np.ndarray:
    ids = np.arange(model.GetPieceSize(), dtype=np.int32) + layout.shift
    for piece in range(len(ids)):
        name = "<unk>" if model.IsUnknown(piece) else model.IdToPiece(piece)
        ids[piece] = layout.own.get(name, ids[piece])
    return ids


def read_sentencepiece(path: str | Path, layout: str = PIECES) -> SentencePieceTokenizer:
    """Reads the tokenizer of a `.model` file.

    Args:
        path: of the file.
        layout: name of one of `LAYOUTS`.

    Raises:
        DataError: it is damaged.
    """
    return SentencePieceTokenizer(Path(path).read_bytes(), layout)
