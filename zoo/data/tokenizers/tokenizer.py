"""The tokenizer interface: text to token ids and back.

Each token of a lossless tokenizer stands for a known number of UTF-8 bytes, and the tokens of a text
stand for exactly its bytes. Many published tokenizers lose or change some of a text; its bytes are
then divided among its tokens (`zoo.data.tokenizers.document_bytes`), so that bits per byte are
comparable across all tokenizers. One special token, which stands for no bytes, opens every document.
It is not text, so no text can imitate it.
"""

import copy
import hashlib
import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.sources.documents import Documents
from zoo.data.sources.text_files import SAFE_CUT
from zoo.data.tokenizers.word_boundaries import WordJoins, joins_by_white_space
from zoo.errors import ConfigError, DataError
from zoo.files import cache_directory, read_json, write_json

# Special tokens that do not end a text.
NOT_ENDS = ("<unk>", "[UNK]", "<pad>", "[PAD]")
TOKENIZER_FILE = "tokenizer.json"
# A run also keeps this file if its encoder reads another vocabulary than its decoder writes.
SOURCE_TOKENIZER_FILE = "source_tokenizer.json"
# Character ids of the published ELMo models, after the bytes (1 .. 256): begin and end of a
# sentence, begin and end of a token, padding within a token.
_SENTENCE_BEGIN, _SENTENCE_END, _TOKEN_BEGIN, _TOKEN_END, _TOKEN_PADDING = 257, 258, 259, 260, 261
# Characters that the `tokenizers` library encodes at once, in one thread.
_CHUNK = 1 << 14
# Words of more characters are cut when a tokenizer is trained.
_LONGEST_WORD = 1 << 13
_LONG_STRETCH = re.compile(rf"\S{{{_LONGEST_WORD}}}|\s{{{_LONGEST_WORD}}}")
_POLL_SECONDS = 0.2
_BYTE_PIECE = re.compile(rb"<0x([0-9A-F]{2})>")


class TokenOffsets(NamedTuple):
    """The tokens of a text and their character offsets, all int32 [tokens].

    Token i stands for characters starts[i] .. stops[i] - 1; a token that stands for no character
    has starts[i] = stops[i].
    """

    ids: np.ndarray
    starts: np.ndarray
    stops: np.ndarray


class Tokenizer(ABC):
    """Converts text to token ids and back.

    Attributes:
        kind: value of `data.tokenizer.kind`.
        pieces: the UTF-8 bytes that each id stands for; b"" for special tokens.
        vocab_size: number of ids, V.
        bos_id: id of the special token that opens every document. It also marks the end where one is
            needed: of generated text, and of the texts of a pair.
        mask_id: id of [MASK]: the tokenizer's own, or the first unused id.
        separator_id: id of the token that ends sentences and segments: the tokenizer's own [SEP] or
            </s>, or the first id that neither the tokenizer nor [MASK] uses.
        special_ids: ids that stand for no text.
        opens_documents: whether there is a `bos_id`, which a tokenizer that is not known may lack.
        has_source_side: whether `source_side` is another tokenizer.
        reads_text: whether it turns text into ids and back.
        document_id: the `bos_id` that `with_document_id` has set; None if it is the tokenizer's own.
        lossless: the tokens of a text stand for exactly its bytes, those of their pieces.
    """

    kind: ClassVar[str]
    has_source_side = False
    lossless = opens_documents = reads_text = True
    document_id: int | None = None

    def __init__(
        self, pieces: Sequence[bytes], bos_id: int, mask_id: int | None = None, separator_id: int | None = None
    ):
        self.pieces = tuple(pieces)
        self.vocab_size = len(self.pieces)
        self.bos_id = bos_id
        self.mask_id = self.vocab_size if mask_id is None else mask_id
        self.separator_id = max(self.vocab_size, self.mask_id + 1) if separator_id is None else separator_id
        self.special_ids = frozenset({bos_id})

    @property
    def opening_ids(self) -> list[int]:
        """The ids that a document begins with: `bos_id`, or none."""
        return [self.bos_id] if self.opens_documents else []

    def with_document_id(self, id: int) -> Self:
        """Returns the tokenizer with another token between documents, for tokens that were made so.

        Raises:
            ConfigError: it has no such id.
        """
        if not 0 <= id < self.vocab_size:
            raise ConfigError(f"data.tokenizer.document_id={id} is not one of the tokenizer's {self.vocab_size:,} ids")
        if id == self.bos_id:
            return self
        found = copy.copy(self)
        for cached in ("fingerprint", "within_text"):
            found.__dict__.pop(cached, None)
        found.bos_id, found.special_ids = id, self.special_ids | {id}
        found.document_id = id
        return found

    @property
    def end_ids(self) -> frozenset[int]:
        """The special tokens at which text ends: not those of padding, masks or unknown text."""
        return self.special_ids - {*map(self.id_of, NOT_ENDS), self.mask_id} | {*self.opening_ids}

    def id_of(self, token: str) -> int | None:
        """Returns the id of a token by its name, special or not; None if it has no such name."""
        return None

    @property
    def within_text(self) -> "Tokenizer":
        """The tokenizer for text that continues a document, which begins with white space: the same
        ids, without the space that some tokenizers put before a text.
        """
        return self

    @property
    def start_id(self) -> int:
        """Id of the token that the decoder of an encoder-decoder begins with."""
        return self.bos_id

    @property
    def source_side(self) -> "Tokenizer":
        """The tokenizer of the texts that are translated; this one is that of the translations."""
        return self

    @classmethod
    @abstractmethod
    def build(cls, settings: Any, source: Documents, training: Documents) -> "Tokenizer":
        """Makes the tokenizer that `data.tokenizer` asks for.

        Args:
            settings: the `data.tokenizer` part of a config.
            source: all documents.
            training: the documents of the training part.
        """

    @classmethod
    @abstractmethod
    def known_vocab_size(cls, settings: Any) -> int | None:
        """Returns V if `data.tokenizer` alone determines it, or None if the source must be read."""

    @classmethod
    def known_model_vocab_size(cls, settings: Any, objective: Any, rows: str = "packed") -> int | None:
        """Returns `model_vocab_size` if `data.tokenizer` alone determines it, else None."""
        size = cls.known_vocab_size(settings)
        return size if size is None else size + num_extra_ids(objective, rows, has_mask=False, has_separator=False)

    def model_vocab_size(self, objective: Any, rows: str = "packed") -> int:
        """Returns the number of ids that a model needs.

        Args:
            objective: the `objective` part of a config.
            rows: `data.row_format`.
        """
        return self.vocab_size + num_extra_ids(
            objective, rows, self.mask_id < self.vocab_size, self.separator_id < self.vocab_size
        )

    @abstractmethod
    def encode(self, text: str) -> np.ndarray:
        """Returns the ids of one text, int32 [tokens], without special tokens."""

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text."""
        return [self.encode(text) for text in texts]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[TokenOffsets]:
        """Returns the ids of each text with their character offsets.

        Raises:
            DataError: the tokens do not stand for the bytes of a text.
        """
        found = []
        for text, ids in zip(texts, self.encode_batch(texts), strict=True):
            offsets = self._exact_offsets(text, ids)
            if offsets is None:
                raise DataError(
                    f"data.tokenizer: the tokens of {text[:40]!r} do not stand for its {len(text.encode())} bytes, so "
                    "their places in it are unknown; take another tokenizer"
                )
            found.append(offsets)
        return found

    def _exact_offsets(self, text: str, ids: np.ndarray) -> TokenOffsets | None:
        """Returns the offsets of tokens whose pieces are the bytes of a text, one after the other;
        None if they are not.
        """
        pieces = [self.pieces[id] for id in ids.tolist()]
        if b"".join(pieces) != text.encode():
            return None
        return _offsets_of_bytes(text, ids, [len(piece) for piece in pieces])

    def decode(self, ids: Iterable[int], document: str = "") -> str:
        """Returns the text of token ids.

        Bytes that form no character become U+FFFD; the token that opens documents becomes
        `document`.

        Raises:
            ValueError: an id outside 0 .. V-1.
        """
        special = document.encode()
        content = b"".join(special if id == self.bos_id else self.pieces[id] for id in self.checked_ids(ids))
        return content.decode(errors="replace")

    def decode_batch(self, texts: Sequence[np.ndarray]) -> list[str]:
        """Returns the text of each array of ids, none of which opens a document."""
        return [self.decode(ids) for ids in texts]

    def checked_ids(self, ids: Iterable[int]) -> list[int]:
        """Returns ids of any array or iterable as a list of Python integers.

        Raises:
            ValueError: an id outside 0 .. V-1.
        """
        ids = np.asarray(ids if isinstance(ids, np.ndarray) else list(ids), np.int64).ravel()
        if ids.size and not 0 <= ids.min() <= ids.max() < self.vocab_size:
            raise ValueError(f"ids must lie in 0 .. {self.vocab_size - 1}, got {ids.min()} .. {ids.max()}")
        return ids.tolist()

    def documents_of(self, ids: Iterable[int]) -> list[list[int]]:
        """Splits ids at the tokens that open documents, which are dropped. Raises as `decode`."""
        parts: list[list[int]] = [[]]
        for id in self.checked_ids(ids):
            if id == self.bos_id:
                parts.append([])
            else:
                parts[-1].append(id)
        return parts

    def written_pieces(self) -> list[bytes] | None:
        """Returns the bytes that each id adds to a decoded text; None if neighbours decide that."""
        return list(self.pieces) if self.lossless else None

    def token_bytes(self) -> np.ndarray:
        """Returns the number of UTF-8 bytes of each id, int64 [V]; 0 for special tokens.

        All are 0 where the tokens do not stand for exactly the bytes of the text, so no loss
        per byte is defined.
        """
        return np.array([len(piece) for piece in self.pieces], np.int64)

    def word_joins(self) -> WordJoins:
        """Returns which neighbouring tokens belong to one word; special tokens belong to none.

        By default, white space separates words.
        """
        return joins_by_white_space([piece.decode(errors="replace") for piece in self.pieces], self.special_ids)

    def token_characters(self, width: int) -> np.ndarray:
        """Returns the character ids of each token, for models that read characters.

        The ids are those of the published models (Peters et al. 2018), so that their weights fit: 1
        .. 256 are the bytes 0 .. 255, 259 and 260 begin and end a token, 261 fills up the row. 0 is
        padding and occurs in no token. A token of more than `width` - 2 bytes is truncated and
        keeps its end marker. The token that opens documents has the single character 257, which
        begins a sentence in those models; the separator, if the tokenizer has one, has 258.

        Args:
            width: at least 3.

        Returns:
            int32 [V, width].
        """
        table = np.full((self.vocab_size, width), _TOKEN_PADDING, np.int32)
        for id, (row, piece) in enumerate(zip(table, self.pieces, strict=True)):
            special = {self.separator_id: [_SENTENCE_END], self.bos_id: [_SENTENCE_BEGIN]}
            inside = special.get(id) or [byte + 1 for byte in piece[: width - 2]]
            row[: len(inside) + 2] = _TOKEN_BEGIN, *inside, _TOKEN_END
        return table

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Returns everything `from_json` needs, as plain JSON types."""

    @classmethod
    @abstractmethod
    def from_json(cls, content: dict[str, Any]) -> "Tokenizer":
        """Makes the tokenizer that `to_json` described."""

    def summary(self) -> dict[str, Any]:
        """Returns what identifies the tokenizer, as plain JSON."""
        return {"kind": self.kind, "vocab_size": self.vocab_size, "fingerprint": self.fingerprint}

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the definition; tokenizers with equal fingerprints encode identically."""
        return hashlib.sha256(json.dumps(self.to_json() | self._own_document_id, sort_keys=True).encode()).hexdigest()

    def save(self, folder: str | Path) -> None:
        """Writes `tokenizer.json` into `folder`, for `load_tokenizer`."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_json(Path(folder) / TOKENIZER_FILE, {"kind": self.kind} | self.to_json() | self._own_document_id)

    @property
    def _own_document_id(self) -> dict[str, int]:
        """The part of the definition that `with_document_id` has set."""
        return {} if self.document_id is None else {"document_id": self.document_id}

    @classmethod
    def load_or_train(cls, key: str, train: Callable[[], Self]) -> Self:
        """Returns the cached tokenizer of this class, or trains it and caches it.

        Args:
            key: everything that the result depends on, besides the class.
            train: called if the cache has no such tokenizer or a damaged one.
        """
        folder = cache_directory() / "tokenizers" / hashlib.sha256(f"{cls.kind} {key}".encode()).hexdigest()[:32]
        try:
            return parse_saved(folder, lambda content: {cls.kind: cls}[content["kind"]].from_json(content))
        except (ConfigError, DataError):
            pass  # missing or damaged
        tokenizer = train()
        tokenizer.save(folder)
        return tokenizer


def parse_saved(folder: str | Path, parse: Callable[[dict[str, Any]], Any]) -> Any:
    """Reads the file that `Tokenizer.save` wrote into `folder`.

    Args:
        folder: the folder.
        parse: makes the tokenizer of the file's content.

    Raises:
        ConfigError: no such file.
        DataError: the file is damaged.
    """
    path = Path(folder) / TOKENIZER_FILE
    if not path.is_file():
        raise ConfigError(f'no such file: "{path}"')
    try:
        return parse(read_json(path))
    except Exception as error:  # the tokenizers library raises bare Exception
        raise DataError(f'"{path}": not a tokenizer file: {type(error).__name__}: {error}') from error


def num_extra_ids(objective: Any, rows: str, has_mask: bool, has_separator: bool) -> int:
    """Returns how many ids an objective and its rows need in addition to a tokenizer's.

    These are the sentinels of span corruption, or [MASK] followed by the separator.

    Args:
        objective: the `objective` part of a config.
        rows: `data.row_format`.
        has_mask, has_separator: the tokenizer has these tokens itself.
    """
    if objective.kind in OBJECTIVE_KINDS.having("spans"):
        return objective.sentinels
    if rows != "packed" and not has_separator:
        return 1 if has_mask else 2
    return int(objective.kind in OBJECTIVE_KINDS.having("masking") and not has_mask)


def _offsets_of_bytes(text: str, ids: np.ndarray, sizes: Sequence[int]) -> TokenOffsets:
    """Returns offsets of consecutive tokens of `sizes` bytes, which are all bytes of the text.

    Part of a character counts as the character.
    """
    content, sizes = np.frombuffer(text.encode(), np.uint8), np.asarray(sizes, np.int64)
    # The number of each byte's character.
    character = np.append(np.cumsum((content & 0xC0) != 0x80) - 1, len(text))
    stops = np.cumsum(sizes, dtype=np.int64)
    starts = stops - sizes
    ends = np.where(stops > starts, character[stops - 1] + 1, character[starts])
    return TokenOffsets(ids, character[starts].astype(np.int32), ends.astype(np.int32))


def written_bytes(piece: bytes) -> bytes:
    """Returns the bytes that a piece of SentencePiece writes: "▁" is a space, and "<0x0A>" a byte."""
    single = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(single[1], 16)]) if single else piece.replace("▁".encode(), b" ")


def training_chunks(training: Documents) -> Iterator[str]:
    """Yields the text that a tokenizer is trained on, in chunks.

    Stretches of more than `_LONGEST_WORD` characters with or without white space are cut there: the
    time that trainers take grows with the square of a word's length.
    """
    for piece in training.pieces():
        for chunk in text_chunks(piece.text):
            start = 0
            for match in _LONG_STRETCH.finditer(chunk):
                yield chunk[start : match.end()]
                start = match.end()
            yield chunk[start:]


def interruptible(compute: Callable[[], None]) -> None:
    """Runs a function in a thread of its own, so that the program can be interrupted while a library
    computes without returning to Python. Raises what it raises.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            compute()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_POLL_SECONDS)
    if raised:
        raise raised[0]


def text_chunks(text: str) -> Iterator[str]:
    """Cuts a long text at places that no token spans."""
    start = 0
    while cut := SAFE_CUT.search(text, start + _CHUNK):
        yield text[start : cut.start()]
        start = cut.start()
    yield text[start:]
