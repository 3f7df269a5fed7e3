"""Characters as tokens."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.errors import DataError


class CharacterTokenizer(Tokenizer):
    """One token per character of the source, ordered by code point; the last id opens a document.

    Args:
        characters: the vocabulary, in any order.
    """

    kind = "characters"

    def __init__(self, characters: Iterable[str]):
        self.characters = "".join(sorted(set(characters)))
        self._code_points = _code_points(self.characters)
        pieces = [character.encode() for character in self.characters]
        super().__init__([*pieces, b""], bos_id=len(pieces))

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls(set().union(*(set(piece.text) for piece in source.pieces())))

    @classmethod
    def known_vocab_size(cls, settings: Any) -> None:
        return None

    def encode(self, text: str) -> np.ndarray:
        """Returns the ids of one text, int32 [tokens].

        Raises:
            DataError: a character that the vocabulary lacks.
        """
        code_points = _code_points(text)
        ids = np.searchsorted(self._code_points, code_points)
        found = np.append(self._code_points, 0)[ids] if len(ids) else code_points
        unknown = found != code_points
        if unknown.any():
            position = int(unknown.argmax())
            raise DataError(
                f"character {text[position]!r} (U+{ord(text[position]):04X}) at position {position} is not one of "
                f"the source's {len(self.characters)}; data.tokenizer.kind = bytes or bpe encodes any text"
            )
        return ids.astype(np.int32)

    def to_json(self) -> dict[str, Any]:
        return {"characters": self.characters}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls(content["characters"])


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
