"""Texts that are read anew at every pass, so that a corpus need not fit into memory."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from zoo.data.sources.near_duplicates import cached_clusters, clusters, held_out_clusters, text_blocks
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, listed

# From this many documents on, validation consists of whole documents.
_WHOLE_DOCUMENTS_FROM = 20
# So many copies of each document, in the mean, make held-out documents unlike those of training.
_COPIES = 2
# Text of fewer documents is clustered by blocks of lines: a 200th of the text, within these bounds.
_BLOCKS, _SMALLEST_BLOCK, _LARGEST_BLOCK = 200, 64, 4096


class Piece(NamedTuple):
    """Consecutive text of one document; `opens` marks the document's first piece."""

    opens: bool
    text: str


@dataclass(frozen=True)
class DocumentIndex:
    """Digests and sizes of documents, found in one pass.

    Attributes:
        digests: sha256 of each document's UTF-8 text, bytes [documents].
        characters, bytes: size of each document, int64 [documents].
        left_out: how often each kind of bad text was skipped or replaced.
        undivided: files of several paragraphs that are one document each, because
            `data.document_separator` does not occur in them.
    """

    digests: Sequence[bytes]
    characters: np.ndarray
    bytes: np.ndarray
    left_out: Counter[str]
    undivided: Sequence[str] = ()

    @classmethod
    def of(cls, pieces: Iterable[Piece], policy: BadTextPolicy) -> Self:
        """Indexes all pieces."""
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
        return cls(digests, np.array(characters, np.int64), np.array(sizes, np.int64), policy.counts, policy.undivided)

    def select(self, kept: np.ndarray) -> Self:
        """Returns the index of some of the documents; `kept` is bool [documents]."""
        digests = [digest for digest, keep in zip(self.digests, kept, strict=True) if keep]
        return type(self)(digests, self.characters[kept], self.bytes[kept], self.left_out, self.undivided)


@dataclass(frozen=True, eq=False)
class Documents:
    """Texts in a fixed order, none of them blank.

    Attributes:
        read: starts a pass over the texts; it passes all bad text to the policy.
        name: human-readable description.
        bad_text: what happens to bad text: `data.bad_text`.
        known_index: the index, if known without a pass.
        is_part: this is a part of another `Documents`, whose blank documents have already been
            removed; a part may itself be blank.
    """

    read: Callable[[BadTextPolicy], Iterator[Piece]]
    name: str
    bad_text: str = "error"
    known_index: DocumentIndex | None = field(default=None, repr=False)
    is_part: bool = False

    @classmethod
    def of(cls, texts: Sequence[str], name: str) -> Self:
        """Wraps texts that are in memory."""
        return cls(lambda policy: (Piece(True, text) for text in texts), name)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenates several sets of documents."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            lambda policy: (piece for part in parts for piece in part._pass(policy)),
            " and ".join(part.name for part in parts),
            parts[0].bad_text,
            is_part=True,
        )

    def pieces(self) -> Iterator[Piece]:
        """Starts a pass over the texts.

        Each document comes in one or more pieces; no token spans two of them.
        """
        return self._pass(BadTextPolicy(self.bad_text))

    def _pass(self, policy: BadTextPolicy) -> Iterator[Piece]:
        return self.read(policy) if self.is_part else _without_blank(self.read(policy))

    @cached_property
    def index(self) -> DocumentIndex:
        """Digests and sizes; the first access takes a pass over the text.

        Raises:
            ConfigError: a file that does not exist.
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
        """sha256 (hex) of the content: the same texts in the same order, whatever their files."""
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
    def left_out(self) -> Counter[str]:
        """Number of times that each kind of bad text was skipped or replaced."""
        return self.index.left_out

    @property
    def warnings(self) -> list[str]:
        """Lines about what may be a mistake in the config."""
        if not (files := self.index.undivided):
            return []
        several = len(files) > 1
        return [
            f"{self.name}: data.document_separator occurs nowhere in {listed(files, 3)}, which "
            f"{'have several paragraphs each; each is' if several else 'has several paragraphs; it is'} one document"
        ]

    @property
    def copies(self) -> list[str]:
        """A line if copies make the held-out loss another one than that on unseen documents.

        Either most documents occur several times, and equal ones stay together. Or there are so few
        that the end of the text is held out, and a copy of it may be in the training part.
        """
        different = len(set(self.index.digests))
        if different < self.count < _WHOLE_DOCUMENTS_FROM:
            return [
                f"{self.name}: {different} of the {self.count} documents are different; the end of the text is held "
                "out, and may be trained on in a copy"
            ]
        if self.count < max(_WHOLE_DOCUMENTS_FROM, _COPIES * different):
            return []
        return [
            f"{self.name}: of the {self.count:,} documents {different:,} are different, and equal ones are held out "
            "together; the loss on them is that of documents that are never trained on"
        ]

    @property
    def description(self) -> str:
        """One-line description: name, size, and how much was skipped."""
        documents = f"{self.count:,} documents" if self.count != 1 else "1 document"
        left_out = BadTextPolicy.describe_counts(self.index.left_out)
        return f"{self.name}: {documents}, {self.characters:,} characters{left_out}"

    def split(self, fraction: float, clustered: bool = False) -> tuple["Documents", "Documents"]:
        """Splits documents into (training, validation), by their content alone.

        With 20 documents or more, validation takes whole documents in the order of the sha256 of
        their text; a document that would take it further from the wanted size is passed over. Equal
        documents stay together. With fewer documents, or if none is small enough, the last
        `fraction` of the characters is cut off the end of the text, as nanoGPT does for tiny
        Shakespeare.

        Clustered, whole clusters of near-duplicates (`near_duplicates.clusters`) take the place of
        documents, in the order of the smallest sha256 in each. With fewer than 20 documents these are
        clusters of blocks of lines, from the end of the text: a block that has a near-duplicate
        further up is left to training.

        Args:
            fraction: share of the characters for validation, above 0 and below 1.
            clustered: whether near-duplicates stay together.

        Raises:
            ConfigError: a fraction out of range.
            DataError: one side would be empty.
        """
        if not 0 < fraction < 1:
            raise ConfigError(f"data.validation_fraction: must lie between 0 and 1, both excluded; got {fraction}")
        if clustered:
            return self._split_clusters(fraction)
        chosen = self._chosen(fraction) if self.count >= _WHOLE_DOCUMENTS_FROM else None
        if chosen is not None:
            return self._documents("training", ~chosen), self._documents("validation", chosen)
        border = self.characters - math.ceil(self.characters * fraction)
        if not 0 < border < self.characters:
            raise DataError(
                f"data.validation_fraction: {fraction} of {self.description} leaves the "
                f"{'training' if border <= 0 else 'validation'} part empty; take a longer text or another fraction"
            )
        return self._ranges("training", [(0, border)]), self._ranges("validation", [(border, self.characters)])

    def subset(self, fraction: float) -> "Documents":
        """Returns about this share of the text, chosen as `split` does.

        A smaller share is part of a larger one, except for one document.

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

    def _split_clusters(self, fraction: float) -> tuple["Documents", "Documents"]:
        index, wanted = self.index, fraction * self.characters
        if self.count >= _WHOLE_DOCUMENTS_FROM:
            labels = cached_clusters(
                f"documents {self.fingerprint}", self.count, lambda: clusters(self.pieces(), index.digests, self.bytes)
            )
            chosen = _chosen_parts(labels, index.characters, np.argsort(np.array(index.digests)), wanted)
            if chosen is not None:
                return self._documents("training", ~chosen), self._documents("validation", chosen)
        size = min(max(self.characters // _BLOCKS, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        hashes, lengths = [], []
        for block in text_blocks(self.pieces(), size):
            hashes.append(hashlib.sha256(block.encode()).digest())
            lengths.append(len(block))
        labels = cached_clusters(
            f"blocks of {size} {self.fingerprint}",
            len(lengths),
            lambda: clusters(((True, block) for block in text_blocks(self.pieces(), size)), hashes, self.bytes),
        )
        # From the last cluster to the first, by where each begins.
        first = np.full(labels.max() + 1, len(labels))
        np.minimum.at(first, labels, np.arange(len(labels)))
        chosen = _chosen_parts(labels, np.array(lengths), np.argsort(-first[labels], kind="stable"), wanted)
        if chosen is None:
            raise DataError(
                f"data.split: {self.description} is one cluster of near-duplicates, so that one side would be empty; "
                "take a longer text, or data.split=documents"
            )
        return tuple(
            self._ranges(part, _ranges_of(kept, lengths))
            for part, kept in (("training", ~chosen), ("validation", chosen))
        )

    def _ranges(self, part: str, ranges: Sequence[tuple[int, int]]) -> "Documents":
        """Returns the text between some places, which are numbers of characters, in order."""

        def read(policy: BadTextPolicy) -> Iterator[Piece]:
            place, current, begun = 0, 0, False
            for opens, text in self._pass(policy):
                end, begun = place + len(text), begun and not opens
                while current < len(ranges) and ranges[current][0] < end:
                    start, stop = ranges[current]
                    if inside := text[max(start - place, 0) : max(stop - place, 0)]:
                        yield Piece(not begun, inside)
                        begun = True
                    if stop > end:
                        break
                    current, begun = current + 1, False
                place = end

        return Documents(read, f"{part} part of {self.name}", self.bad_text, is_part=True)


def _chosen_parts(labels: np.ndarray, sizes: np.ndarray, order: np.ndarray, wanted: float) -> np.ndarray | None:
    """Returns which parts of a text are held out, bool [parts], or None if that leaves a side empty.

    Args:
        labels: the cluster of each part.
        sizes: characters of each part.
        order: the parts, from the one whose cluster is considered first.
        wanted: characters to hold out.
    """
    ordered = list(dict.fromkeys(labels[order].tolist()))
    totals = np.bincount(labels, sizes, minlength=len(ordered))
    held_out = [ordered[place] for place in held_out_clusters(totals[ordered].tolist(), wanted)]
    chosen = np.isin(labels, held_out)
    return chosen if chosen.any() and not chosen.all() else None


def _ranges_of(kept: np.ndarray, lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Returns where consecutive blocks that are kept begin and end."""
    ends = np.cumsum(lengths)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(int)))
    places = np.concatenate([[0], ends])[edges].tolist()
    return list(zip(places[::2], places[1::2], strict=True))


def _without_blank(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Drops empty pieces, and documents that consist of white space."""
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
