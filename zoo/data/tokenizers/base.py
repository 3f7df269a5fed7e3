"""Text <-> token ids: one class per kind in `TOKENIZERS`, one interface for all.

Every token stands for a known number of UTF-8 bytes, and the tokens of a text stand for exactly its
bytes, so losses in bits per byte compare across tokenizers. One special token, which stands for no
bytes, opens every document; it is no text, so no text can imitate it.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.sources.text_files import SAFE_CUT
from zoo.data.tokenizers.word_boundaries import Joins, by_white_space
from zoo.errors import ConfigError, DataError, did_you_mean
from zoo.files import cache_directory, read_json, write_json

_FILE = "tokenizer.json"
# Characters of the published ELMo models beside the bytes, which are 1 .. 256: what opens a
# sentence and what ends it, a token's begin and end, and what fills it up.
_OPENS, _ENDS, _BEGIN, _END, _FILL = 257, 258, 259, 260, 261
# Characters of which the library makes tokens at once, in one thread.
_CHUNK = 1 << 14


class Located(NamedTuple):
    """The tokens of a text: token i stands for characters starts[i] .. stops[i] - 1; int32
    [tokens]. One that is no character has none.
    """

    ids: np.ndarray
    starts: np.ndarray
    stops: np.ndarray


class Tokenizer(ABC):
    """Text to ids and back.

    Attributes:
        kind: its name in `TOKENIZERS`.
        pieces: the UTF-8 bytes that each id stands for; b"" for the special token.
        vocab_size: number of ids, V.
        document_id: id of the special token that opens every document.
        mask_id: id of [MASK]: the tokenizer's own, or the first that it does not use.
        separator_id: id of the token that ends sentences and segments: the tokenizer's own [SEP] or
            </s>, or the first that neither it nor [MASK] uses.
        specials: ids that stand for no text.
    """

    kind: ClassVar[str]

    def __init__(
        self, pieces: Sequence[bytes], document_id: int, mask_id: int | None = None, separator_id: int | None = None
    ):
        self.pieces = tuple(pieces)
        self.vocab_size = len(self.pieces)
        self.document_id = document_id
        self.mask_id = self.vocab_size if mask_id is None else mask_id
        self.separator_id = max(self.vocab_size, self.mask_id + 1) if separator_id is None else separator_id
        self.specials = frozenset({document_id})

    @classmethod
    def ids_in_advance(cls, settings: Any, objective: Any, rows: str = "packed") -> int | None:
        """`ids_needed` as far as it is known from `data.tokenizer` alone; None where the source has
        to be read.
        """
        size = cls.size_in_advance(settings)
        return size if size is None else size + beside(objective, rows, masks=False, separates=False)

    def ids_needed(self, objective: Any, rows: str = "packed") -> int:
        """Number of ids that a model must have for an objective, the `objective` part of a config,
        and for `data.rows`.
        """
        return self.vocab_size + beside(
            objective, rows, self.mask_id < self.vocab_size, self.separator_id < self.vocab_size
        )

    @classmethod
    @abstractmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        """The tokenizer that `data.tokenizer` asks for, made from the whole source or its training
        part.
        """

    @classmethod
    @abstractmethod
    def size_in_advance(cls, settings: Any) -> int | None:
        """V as far as it is known from `data.tokenizer` alone; None where the source has to be
        read.
        """

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Ids of one text, int32 [tokens], without the special token."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Everything `from_json` needs, as plain JSON types."""

    @classmethod
    @abstractmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text."""
        return [self.encode(text) for text in texts]

    def located(self, texts: Sequence[str]) -> list[Located]:
        """The ids of each text, and where in it each stands."""
        return [
            _by_bytes(text, ids, [len(self.pieces[id]) for id in ids.tolist()])
            for text, ids in zip(texts, self.encode_batch(texts), strict=True)
        ]

    def decode(self, ids: Iterable[int], document: str = "") -> str:
        """Text of the ids; bytes that form no character become U+FFFD, the special token becomes
        `document`.

        Raises:
            ValueError: an id outside 0 .. V-1.
        """
        ids = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64).ravel()
        if ids.size and not 0 <= ids.min() <= ids.max() < self.vocab_size:
            raise ValueError(f"ids must lie in 0 .. {self.vocab_size - 1}, got {ids.min()} .. {ids.max()}")
        special = document.encode()
        content = b"".join(special if id == self.document_id else self.pieces[id] for id in ids.tolist())
        return content.decode(errors="replace")

    def token_bytes(self) -> np.ndarray:
        """Number of UTF-8 bytes each id stands for, int64 [V]; 0 for the special token."""
        return np.array([len(piece) for piece in self.pieces], np.int64)

    def word_joins(self) -> Joins:
        """Which tokens form words: what white space separates is one. Special tokens belong to
        none.
        """
        return by_white_space([piece.decode(errors="replace") for piece in self.pieces], self.specials)

    def token_characters(self, width: int) -> np.ndarray:
        """The bytes of each token, for models that read characters: int32 [V, width].

        They are those of the published models (Peters et al. 2018), so that their weights fit: 1 ..
        256 are the bytes 0 .. 255, 259 and 260 the begin and the end of a token, and 261 fills it
        up; 0, the empty slot, is in no token. A token with more than `width` - 2 bytes is cut and
        keeps its end. What opens a document has one character, 257, which opens a sentence there,
        and what separates sentences, where the tokenizer has a token for it, 258.

        Args:
            width: at least 3.
        """
        table = np.full((self.vocab_size, width), _FILL, np.int32)
        for id, (row, piece) in enumerate(zip(table, self.pieces, strict=True)):
            marks = {self.separator_id: [_ENDS], self.document_id: [_OPENS]}
            inside = marks.get(id) or [byte + 1 for byte in piece[: width - 2]]
            row[: len(inside) + 2] = _BEGIN, *inside, _END
        return table

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the definition: equal fingerprints encode equally."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def save(self, folder: str | Path) -> None:
        """Writes `tokenizer.json` into `folder`, for `load_tokenizer`."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_json(Path(folder) / _FILE, {"kind": self.kind} | self.to_json())


def beside(objective: Any, rows: str, masks: bool, separates: bool) -> int:
    """Number of ids that an objective and its rows need beside a tokenizer's.

    They are the sentinels, or [MASK] and after it what separates sentences, where the tokenizer has
    none (`masks`, `separates`).
    """
    if objective.kind == "span":
        return objective.sentinels
    if rows != "packed" and not separates:
        return 1 if masks else 2
    return int(objective.kind in ("masked", "denoising") and not masks)


class ByteTokenizer(Tokenizer):
    """One token per UTF-8 byte: ids 0-255 are the bytes, 256 opens a document."""

    kind = "bytes"

    def __init__(self):
        super().__init__([bytes([value]) for value in range(256)] + [b""], document_id=256)

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls()

    @classmethod
    def size_in_advance(cls, settings: Any) -> int:
        return 257

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32)

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls()


class ByT5Tokenizer(Tokenizer):
    """One token per UTF-8 byte, numbered as ByT5 has it (Xue et al. 2022, section 3.1): 0 is
    padding, 1 (</s>) opens and ends documents, 2 is unknown, and the bytes follow.
    """

    kind = "byt5"
    _SPECIALS = 3

    def __init__(self):
        super().__init__([b""] * self._SPECIALS + [bytes([value]) for value in range(256)], document_id=1)
        self.specials = frozenset(range(self._SPECIALS))
        self.separator_id = self.document_id

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls()

    @classmethod
    def size_in_advance(cls, settings: Any) -> int:
        return cls._SPECIALS + 256

    def encode(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int32) + self._SPECIALS

    def to_json(self) -> dict[str, Any]:
        return {"specials": self._SPECIALS}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        return cls()


class CharacterTokenizer(Tokenizer):
    """One token per character of the source, numbered by code point; the last id opens a document.

    Args:
        characters: the vocabulary; sorted here.
    """

    kind = "characters"

    def __init__(self, characters: Iterable[str]):
        self.characters = "".join(sorted(set(characters)))
        self._code_points = _code_points(self.characters)
        pieces = [character.encode() for character in self.characters]
        super().__init__([*pieces, b""], document_id=len(pieces))

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        return cls(set().union(*(set(piece.text) for piece in source.pieces())))

    @classmethod
    def size_in_advance(cls, settings: Any) -> None:
        return None

    def encode(self, text: str) -> np.ndarray:
        """Raises DataError for a character that the vocabulary lacks."""
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


class BytePairTokenizer(Tokenizer):
    """Byte-level BPE as in GPT-2 (Radford et al. 2019, section 2.2), trained on the training part
    only.

    Ids 0 .. V-2 are the learned ones, V-1 opens a document.

    Args:
        model: a byte-level BPE of the `tokenizers` library, without special tokens.
    """

    kind = "bpe"

    def __init__(self, model: Any):
        self._model = model
        to_bytes = byte_of_symbol()
        symbols = sorted(model.get_vocab().items(), key=lambda item: item[1])
        pieces = [bytes(to_bytes[character] for character in symbol) for symbol, _ in symbols]
        super().__init__([*pieces, b""], document_id=len(pieces))

    @classmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> Self:
        """Reads the cached tokenizer of this training text, or trains it (a few seconds for 10 MB)."""
        import tokenizers

        size = cls.size_in_advance(settings)
        parts = f"{cls.kind} {size} {training.fingerprint} {tokenizers.__version__}"
        folder = cache_directory() / "tokenizers" / hashlib.sha256(parts.encode()).hexdigest()[:32]
        try:
            return load_tokenizer(folder)
        except (ConfigError, DataError):
            pass  # not there yet, or damaged
        tokenizer = cls._trained(training, size)
        tokenizer.save(folder)
        return tokenizer

    @classmethod
    def _trained(cls, training: Documents, size: int) -> Self:
        from tokenizers import Tokenizer as Model
        from tokenizers import models, pre_tokenizers, trainers

        model = Model(models.BPE())
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(vocab_size=size - 1, show_progress=False, initial_alphabet=alphabet)
        model.train_from_iterator(training_chunks(training), trainer)
        tokenizer = cls(model)
        if tokenizer.vocab_size < size:
            raise DataError(
                f"data.tokenizer.vocab_size: {size} asked for, but the {training.description} yields only "
                f"{tokenizer.vocab_size}; ask for at most that, or take a longer text"
            )
        return tokenizer

    @classmethod
    def size_in_advance(cls, settings: Any) -> int:
        if settings.vocab_size < 257:
            raise ConfigError(
                f'data.tokenizer.vocab_size: "bpe" needs at least 257 (256 bytes and the token that opens a '
                f"document), got {settings.vocab_size}"
            )
        return int(settings.vocab_size)

    def encode(self, text: str) -> np.ndarray:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        chunks = [list(text_chunks(text)) for text in texts]
        encodings = iter(
            self._model.encode_batch_fast([chunk for text in chunks for chunk in text], add_special_tokens=False)
        )
        return [np.concatenate([np.array(next(encodings).ids, np.int32) for _ in text]) for text in chunks]

    def to_json(self) -> dict[str, Any]:
        return {"model": json.loads(self._model.to_str())}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        from tokenizers import Tokenizer as Model

        return cls(Model.from_str(json.dumps(content["model"])))


TOKENIZERS: dict[str, type[Tokenizer]] = {
    tokenizer.kind: tokenizer for tokenizer in (ByteTokenizer, ByT5Tokenizer, CharacterTokenizer, BytePairTokenizer)
}


def tokenizer_class(kind: str, where: str = "data.tokenizer.kind") -> type[Tokenizer]:
    """The class of that kind. Raises ConfigError, naming the field `where`, for an unknown one."""
    from zoo.data.tokenizers.pretrained import PublishedTokenizer
    from zoo.data.tokenizers.sentencepiece_files import SentencePieceTokenizer
    from zoo.data.tokenizers.trained import UnigramTokenizer, WordPieceTokenizer
    from zoo.data.tokenizers.word_level import WordTokenizer

    others = (WordTokenizer, WordPieceTokenizer, UnigramTokenizer, PublishedTokenizer, SentencePieceTokenizer)
    kinds = TOKENIZERS | {tokenizer.kind: tokenizer for tokenizer in others}
    if kind not in kinds:
        options = ", ".join(f'"{name}"' for name in kinds)
        raise ConfigError(f'{where}: unknown tokenizer "{kind}"{did_you_mean(kind, kinds)}; one of {options}')
    return kinds[kind]


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """Reads what `Tokenizer.save` wrote into `folder`.

    Raises:
        ConfigError: no such file.
        DataError: the file is damaged.
    """
    path = Path(folder) / _FILE
    if not path.is_file():
        raise ConfigError(f'no such file: "{path}"')
    try:
        content = read_json(path)
        return tokenizer_class(content["kind"]).from_json(content)
    except Exception as error:  # the tokenizers library raises bare Exception
        raise DataError(f'"{path}": not a tokenizer file: {type(error).__name__}: {error}') from error


def _by_bytes(text: str, ids: np.ndarray, sizes: Sequence[int]) -> Located:
    """Tokens that stand for so many bytes each, one after another; part of a character counts as
    the character.
    """
    content = np.frombuffer(text.encode(), np.uint8)
    # The number of each byte's character.
    character = np.append(np.cumsum((content & 0xC0) != 0x80) - 1, len(text))
    stops = np.cumsum(sizes, dtype=np.int64)
    if len(sizes) and stops[-1] != len(content):
        raise ValueError(f"tokens of {stops[-1]} bytes for a text of {len(content)}")
    starts = stops - sizes
    ends = np.where(stops > starts, character[stops - 1] + 1, character[starts])
    return Located(ids, character[starts].astype(np.int32), ends.astype(np.int32))


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)


def training_chunks(training: Documents) -> Iterator[str]:
    """The text that a tokenizer is trained on, in chunks."""
    return (chunk for piece in training.pieces() for chunk in text_chunks(piece.text))


def text_chunks(text: str) -> Iterator[str]:
    """Cuts a long text where no token can span the cut."""
    start = 0
    while cut := SAFE_CUT.search(text, start + _CHUNK):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]


def byte_of_symbol() -> dict[str, int]:
    """The byte behind each of the 256 symbols that byte-level BPE writes bytes with.

    Printable Latin-1 bytes are their own symbol; the others take the symbols from U+0100 on, in
    order.
    """
    from tokenizers import pre_tokenizers

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    own = {symbol: ord(symbol) for symbol in symbols if ord(symbol) < 256}
    others = sorted(set(range(256)) - set(own.values()))
    return own | dict(zip([symbol for symbol in symbols if ord(symbol) >= 256], others, strict=True))
