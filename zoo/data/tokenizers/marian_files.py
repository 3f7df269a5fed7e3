"""Marian's tokenizer files (OPUS-MT): two SentencePiece models, one for each language, whose pieces
share the ids of one list.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.tokenizers.added_tokens import AddedTokens
from zoo.data.tokenizers.sentencepiece_files import ModelTokenizer, load_model
from zoo.data.tokenizers.tokenizer import TokenOffsets
from zoo.errors import ConfigError, DataError
from zoo.files import read_json

FILES = SOURCE_FILE, TARGET_FILE, LIST_FILE = "source.spm", "target.spm", "vocab.json"
# A list of its own for each language.
OTHER_LIST_FILE = "target_vocab.json"
END, UNKNOWN, PADDING = "</s>", "<unk>", "<pad>"
# In models of several target languages, the first token of a source names the language.
LANGUAGE = re.compile(r">>.+?<<")


class MarianTokenizer(ModelTokenizer):
    """One side's tokenizer: pieces of its SentencePiece model, with the ids of the common list.

    A text is ended by "</s>", and a decoder begins with "<pad>". A token ">>fra<<" at the beginning
    of a text is kept whole. Text is read as it is: transformers normalises punctuation first if the
    package sacremoses is installed.

    Args:
        contents: the bytes of the models, by "source" and "target".
        ids: id of each piece, of both languages.
        side: "source" or "target".

    Raises:
        DataError: no such models, or the list lacks a special token.
    """

    kind = "marian"
    has_source_side = True

    def __init__(self, contents: Mapping[str, bytes], ids: Mapping[str, int], side: str = "target"):
        if missing := [token for token in (END, UNKNOWN, PADDING) if token not in ids]:
            raise DataError(f"{LIST_FILE} has no {missing[0]}")
        self._contents, self._ids, self._side = dict(contents), dict(ids), side
        self._model = load_model(contents[side])
        special = {END, UNKNOWN, PADDING, *(token for token in ids if LANGUAGE.fullmatch(token))}
        self._piece_of_id = {id: piece for piece, id in ids.items() if piece not in special}
        pieces = [self._piece_of_id.get(id, "").encode() for id in range(max(ids.values()) + 1)]
        super().__init__(pieces, ids[END])
        self._start_id = ids[PADDING]
        self.special_ids = frozenset(id for id, piece in enumerate(pieces) if not piece)

    def id_of(self, token: str) -> int | None:
        return self._ids.get(token)

    @property
    def start_id(self) -> int:
        return self._start_id

    @property
    def source_side(self) -> "MarianTokenizer":
        return MarianTokenizer(self._contents, self._ids, "source")

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return read_marian(Path(settings.path))

    @classmethod
    def known_vocab_size(cls, settings: Any) -> int:
        return read_marian(Path(settings.path)).vocab_size

    def encode(self, text: str) -> np.ndarray:
        language = LANGUAGE.match(text)
        names = [language[0]] if language else []
        names += self._model.EncodeAsPieces(text[language.end() :] if language else text)
        return np.array([self._ids.get(name, self._ids[UNKNOWN]) for name in names], np.int32)

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        found = []
        for text in texts:
            language = LANGUAGE.match(text)
            begin = language.end() if language else 0
            mapping = self._model.EncodeAsOffsetMapping(text[begin:])
            offsets = [
                *([(0, begin)] if language else []),
                *((one + begin, end + begin) for one, end in mapping["offsets"]),
            ]
            places = np.array(offsets, np.int32).reshape(-1, 2)
            found.append(TokenOffsets(self.encode(text), places[:, 0], places[:, 1]))
        return found

    def to_json(self) -> dict[str, Any]:
        contents = {name: base64.b64encode(content).decode() for name, content in sorted(self._contents.items())}
        return {"contents": contents, "ids": self._ids, "side": self._side}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        models = {name: base64.b64decode(model, validate=True) for name, model in content["contents"].items()}
        return cls(models, content["ids"], content["side"])


def is_marian(folder: Path) -> bool:
    """Returns whether a folder holds the files of a Marian tokenizer."""
    return all((folder / name).is_file() for name in FILES)


def read_marian(path: Path) -> MarianTokenizer:
    """Reads the tokenizer of the target side; its `source_side` is that of the source.

    Args:
        path: one of the three files.

    Raises:
        ConfigError: the languages have lists of their own, or an added token is not in the list.
        DataError: a file is damaged.
    """
    folder = path.parent
    if (folder / OTHER_LIST_FILE).is_file():
        raise ConfigError(
            f"data.tokenizer.path={folder}: {OTHER_LIST_FILE} numbers the target's tokens apart from the source's; "
            "only one list for both is supported"
        )
    ids = read_json(folder / LIST_FILE)
    if not isinstance(ids, dict) or not all(isinstance(id, int) for id in ids.values()):
        raise DataError(f"{LIST_FILE} does not map tokens to ids")
    for id, token in AddedTokens.beside(path).by_id.items():
        if ids.get(token.content) != id:
            raise ConfigError(
                f"data.tokenizer.path={folder}: the added token {token.content!r} with the id {id} is not in "
                f"{LIST_FILE}, which is not supported; add it there, or remove it"
            )
    return MarianTokenizer(
        {"source": (folder / SOURCE_FILE).read_bytes(), "target": (folder / TARGET_FILE).read_bytes()}, ids
    )
