"""Tokenizers in SentencePiece's format (Kudo & Richardson 2018).

These are the `.model` files of T5, mT5, LLaMA, Mistral and Gemma, whose ids number the pieces, and of
XLM-R and CamemBERT, which number them in ways of their own.
"""

import base64
import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.added_tokens import AddedToken, AddedTokens
from zoo.data.tokenizers.dummy_prefix import model_without_prefix
from zoo.data.tokenizers.tokenizer import Tokenizer, TokenOffsets, written_bytes
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


PIECES, MASK = "pieces", "<mask>"
# T5's sentinels. They are no tokens of text: an objective that has spans adds them.
_SENTINEL = re.compile(r"<extra_id_\d+>")
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
        return self._model.Decode(
            [[self._piece_of_id[id] for id in ids.tolist() if id in self._piece_of_id] for ids in texts]
        )

    def token_bytes(self) -> np.ndarray:
        return np.zeros(self.vocab_size, np.int64)

    def written_pieces(self) -> list[bytes] | None:
        return [written_bytes(piece) for piece in self.pieces]

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
        added: special tokens after the pieces, in the order of their ids.
        roles: special tokens by role ("bos_token" ...), which come before the model's own.

    Attributes:
        ids: id of each token by its name.
        added: as given.
        roles: as given; empty if the model's own are the same.

    Raises:
        DataError: not such a file, or one with neither of the two tokens.
    """

    kind = "sentencepiece"

    def __init__(
        self,
        content: bytes,
        layout: str = PIECES,
        added: Sequence[str] = (),
        roles: Mapping[str, str] = MappingProxyType({}),
    ):
        self._content, self._layout, self._model = content, layout, load_model(content)
        self.added, self._id_of_piece = tuple(added), _ids_of_pieces(self._model, LAYOUTS[layout])
        self._piece_of_id = {id: piece for piece, id in enumerate(self._id_of_piece.tolist())}
        self.ids = _ids_by_name(self._model, layout, self._id_of_piece, self.added)
        bos_id, mask_id, separator_id = chosen = self._chosen(roles)
        # A run's own file keeps only roles that decide something.
        self.roles = dict(roles) if chosen != self._chosen({}) else {}
        if bos_id is None:
            raise DataError("the tokenizer has no token that could open a document: none begins or ends a sentence")
        pieces = [b""] * (max(self.ids.values()) + 1)
        for piece, id in enumerate(self._id_of_piece.tolist()):
            if not (self._model.IsControl(piece) or self._model.IsUnknown(piece) or id == bos_id):
                pieces[id] = self._model.IdToPiece(piece).encode()
        super().__init__(pieces, bos_id, mask_id, separator_id)
        self.special_ids = frozenset(id for id, piece in enumerate(pieces) if not piece)

    @property
    def puts_space(self) -> bool:
        """Whether a space is put before a text (`add_dummy_prefix`)."""
        return self._model.Normalize("a") != "a"

    @cached_property
    def within_text(self) -> Tokenizer:
        content = model_without_prefix(self._content, load_model)
        if content is None:
            return self
        found = copy.copy(self)
        found._model = load_model(content)
        return found

    def _chosen(self, roles: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
        """Returns the ids of the token that opens documents, of the mask and of the separator."""
        model, ids = self._model, self._id_of_piece.tolist()
        begins, ends = (ids[piece] if piece >= 0 else None for piece in (model.bos_id(), model.eos_id()))

        def first(*candidates: str | int | None) -> int | None:
            named = (self.ids.get(roles.get(one)) if isinstance(one, str) else one for one in candidates)
            return next((id for id in named if id is not None), None)

        bos_id = first("bos_token", "cls_token", begins, ends, "eos_token")
        mask_id = first("mask_token", self.ids.get(MASK) if LAYOUTS[self._layout].has_mask else None)
        separator_id = first("sep_token", "eos_token", ends)
        return bos_id, mask_id, None if separator_id == bos_id else separator_id

    def id_of(self, token: str) -> int | None:
        return self.ids.get(token)

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
        added = {"added": list(self.added)} if self.added else {}
        roles = {"roles": self.roles} if self.roles else {}
        return {"content": base64.b64encode(self._content).decode(), **layout, **added, **roles}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(
            base64.b64decode(content["content"], validate=True),
            content.get("layout", PIECES),
            content.get("added", ()),
            content.get("roles", {}),
        )


def _ids_of_pieces(model: Any, layout: Layout) -> np.ndarray:
    ids = np.arange(model.GetPieceSize(), dtype=np.int32) + layout.shift
    for piece in range(len(ids)):
        name = "<unk>" if model.IsUnknown(piece) else model.IdToPiece(piece)
        ids[piece] = layout.own.get(name, ids[piece])
    return ids


def _ids_by_name(model: Any, layout: str, ids: np.ndarray, added: Sequence[str]) -> dict[str, int]:
    """Returns the id of every token by its name: of pieces, of the layout's own tokens and of added
    ones.
    """
    found = {model.IdToPiece(piece): int(id) for piece, id in enumerate(ids)} | dict(LAYOUTS[layout].own)
    size = int(ids.max()) + 1
    for name in (*([MASK] if LAYOUTS[layout].has_mask else []), *added):
        found[name], size = size, size + 1
    return found


def read_sentencepiece(
    path: str | Path, layout: str = PIECES, added: AddedTokens | None = None
) -> SentencePieceTokenizer:
    """Reads the tokenizer of a `.model` file.

    Args:
        path: of the file.
        layout: name of one of `LAYOUTS`.
        added: what the files beside it say.

    Raises:
        ConfigError: an added token that is text, or whose id does not follow the pieces'.
        DataError: it is damaged.
    """
    content = Path(path).read_bytes()
    if added is None:
        return SentencePieceTokenizer(content, layout)
    plain, more = SentencePieceTokenizer(content, layout, (), added.roles), []
    listed = {token.content: id for id, token in added.by_id.items()}
    unlisted = [token.content for token in added.special if token.content not in {*plain.ids, *listed}]
    for id, token in [*added.by_id.items(), *((None, AddedToken(name, {"special": True})) for name in unlisted)]:
        known = plain.ids.get(token.content, id if _SENTINEL.fullmatch(token.content) else None)
        if known is None and added.is_special(token):
            more.append(token.content)
            known = plain.vocab_size + len(more) - 1
        elif known is None:
            raise ConfigError(
                f"data.tokenizer.path={path}: the added token {token.content!r} is found in text, which is not read "
                "beside a SentencePiece model; save the tokenizer as tokenizer.json"
            )
        if id not in (None, known):
            raise ConfigError(
                f"data.tokenizer.path={path}: the added token {token.content!r} has the id {id}, and by the model it "
                f"has {known}; the files do not belong together"
            )
    return SentencePieceTokenizer(content, layout, more, added.roles) if more else plain
