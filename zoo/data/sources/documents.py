"""Texts that are read anew at every pass, so that a corpus need not fit into memory, and their
fixed split in two.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError

# From this many documents on, validation is made of whole documents.
_WHOLE_DOCUMENTS_FROM = 20


class Piece(NamedTuple):
    """Consecutive text of one document; `opens` says that it is the document's first."""

    opens: bool
    text: str


@dataclass(frozen=True)
class DocumentIndex:
    """What one pass over documents tells of them.

    Attributes:
        digests: sha256 of each document's UTF-8 text, bytes [documents].
        characters, bytes: size of each document, int64 [documents].
        left_out: how much of what kind of text was left out or replaced.
    """

    digests: Sequence[bytes]
    characters: np.ndarray
    bytes: np.ndarray
    left_out: Counter[str]

    @classmethod
    def of(cls, pieces: Iterable[Piece], policy: BadTextPolicy) -> Self:
        """Goes through all pieces."""
        hashes, digests, characters, sizes = None, [], [], []
        for opens, text in pieces:
            if opens:
                digests += [hashes.digest()] if hashes else []
                hashes = hashlib.sha256()
                characters.append(0)
                sizes.append(0)
            content = text.encode()
            hashes.update(content)
            characters[-1] += len(text)
            sizes[-1] += len(content)
        digests += [hashes.digest()] if hashes else []
        return cls(digests, np.array(characters, np.int64), np.array(sizes, np.int64), policy.counts)

    def select(self, kept: np.ndarray) -> Self:
        """The index of some of the documents; `kept` is bool [documents]."""
        digests = [digest for digest, keep in zip(self.digests, kept, strict=True) if keep]
        return type(self)(digests, self.characters[kept], self.bytes[kept], self.left_out)


@dataclass(frozen=True, eq=False)
class Documents:
    """Texts in a fixed order, none of them blank.

    Attributes:
        read: begins a pass over the texts; it tells the policy of all text that is bad.
        name: what this is, for people.
        bad_text: what happens to bad text, as `data.bad_text`.
        shared: index of the documents where it is known without a pass.
        is_part: the text is that of other documents, of which blank ones were left out; what is cut
            off may be blank.
    """

    read: Callable[[BadTextPolicy], Iterator[Piece]]
    name: str
    bad_text: str = "error"
    known_index: DocumentIndex | None = field(default=None, repr=False)
    is_part: bool = False

    @classmethod
    def of(cls, texts: Sequence[str], name: str) -> Self:
        """Documents that are in memory already."""
        return cls(lambda policy: (Piece(True, text) for text in texts), name)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Several of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            lambda policy: (piece for part in parts for piece in part._pass(policy)),
            " and ".join(part.name for part in parts),
            parts[0].bad_text,
            is_part=True,
        )

    def pieces(self) -> Iterator[Piece]:
        """One pass over the texts: each document in one or more pieces, cut where no token spans
        the cut.
        """
        return self._pass(BadTextPolicy(self.bad_text))

    def _pass(self, policy: BadTextPolicy) -> Iterator[Piece]:
        return self.read(policy) if self.is_part else _without_blank(self.read(policy))

    @cached_property
    def index(self) -> DocumentIndex:
        """Digests and sizes; takes a pass over the text.

        Raises:
            ConfigError: what is read does not exist.
            DataError: bad text, or none at all.
        """
        if self.known_index is not None:
            return self.known_index
        policy = BadTextPolicy(self.bad_text)
        index = DocumentIndex.of(self._pass(policy), policy)
        if not index.digests:
            raise DataError(f'"{self.name}": the text is empty{policy.summary()}')
        return index

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over the content: the same texts in the same order, whatever files they came
        from.
        """
        return hashlib.sha256(b"".join(self.index.digests)).hexdigest()

    @property
    def count(self) -> int:
        """Number of documents."""
        return len(self.index.digests)

    @property
    def characters(self) -> int:
        """Number of characters in all documents."""
        return int(self.index.characters.sum())

    @property
    def bytes(self) -> int:
        """Number of UTF-8 bytes in all documents."""
        return int(self.index.bytes.sum())

    @property
    def description(self) -> str:
        """One line for people: what this is, how much of it, and what was left out."""
        documents = f"{self.count:,} documents" if self.count != 1 else "1 document"
        return f"{self.name}: {documents}, {self.characters:,} characters{BadTextPolicy.describe_counts(self.index.left_out)}"

    def split(self, fraction: float) -> tuple["Documents", "Documents"]:
        """Divides documents into (training, validation), by their content alone.

        With 20 documents or more, validation takes whole documents in the order of the sha256 of
        their text, passing over one that would take it further from the wanted size than it already
        is; equal documents stay together. With fewer documents, or when none is small enough, the
        last `fraction` of the characters is cut off the end of the text, as nanoGPT does for tiny
        Shakespeare.

        Args:
            fraction: part of the characters that validation gets, between 0 and 1 (both excluded).

        Raises:
            ConfigError: a fraction outside that range.
            DataError: one side would be empty.
        """
        if not 0 < fraction < 1:
            raise ConfigError(f"data.validation_fraction: must lie between 0 and 1, both excluded; got {fraction}")
        chosen = self._chosen(fraction) if self.count >= _WHOLE_DOCUMENTS_FROM else None
        if chosen is not None:
            return self._documents("training", ~chosen), self._documents("validation", chosen)
        border = self.characters - math.ceil(self.characters * fraction)
        if not 0 < border < self.characters:
            raise DataError(
                f"data.validation_fraction: {fraction} of {self.description} leaves the "
                f"{'training' if border <= 0 else 'validation'} part empty; take a longer text or another fraction"
            )
        return self._characters("training", 0, border), self._characters("validation", border, self.characters)

    def subset(self, fraction: float) -> "Documents":
        """About this share of the text, chosen as `split` does; a smaller share is, but for one
        document, a part of a larger one.

        Raises:
            DataError: nothing would be left.
        """
        if fraction == 1:
            return self
        try:
            return self.split(1 - fraction)[0]
        except DataError as error:
            raise DataError(
                f"data.training_fraction: {fraction} of {self.description} leaves nothing; take a larger share"
            ) from error

    def _chosen(self, fraction: float) -> np.ndarray | None:
        sizes: dict[bytes, int] = {}
        for digest, size in zip(self.index.digests, self.index.characters.tolist(), strict=True):
            sizes[digest] = sizes.get(digest, 0) + size
        wanted, taken, chosen = fraction * self.characters, 0, set()
        for digest in sorted(sizes):
            if abs(taken + sizes[digest] - wanted) < abs(taken - wanted):
                chosen.add(digest)
                taken += sizes[digest]
        return np.array([digest in chosen for digest in self.index.digests]) if 0 < len(chosen) < len(sizes) else None

    def _documents(self, part: str, kept: np.ndarray) -> "Documents":
        def read(policy: BadTextPolicy) -> Iterator[Piece]:
            number = -1
            for piece in self._pass(policy):
                number += piece.opens
                if kept[number]:
                    yield piece

        return Documents(read, f"{part} part of {self.name}", self.bad_text, self.index.select(kept), is_part=True)

    def _characters(self, part: str, start: int, stop: int) -> "Documents":
        def read(policy: BadTextPolicy) -> Iterator[Piece]:
            place, begun = 0, False
            for opens, text in self._pass(policy):
                inside = text[max(start - place, 0) : max(stop - place, 0)]
                place += len(text)
                begun = begun and not opens
                if inside:
                    yield Piece(not begun, inside)
                    begun = True

        return Documents(read, f"{part} part of {self.name}", self.bad_text, is_part=True)


def _without_blank(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Leaves out documents that are white space from end to end, and empty pieces."""
    waiting: list[Piece] = []
    for piece in pieces:
        if piece.opens:
            waiting = [piece]
        elif waiting:
            waiting.append(piece)
        elif piece.text:
            yield piece
        if waiting and piece.text and not piece.text.isspace():
            first, *further = (one.text for one in waiting)
            yield Piece(True, first)
            yield from (Piece(False, text) for text in further)
            waiting = []
