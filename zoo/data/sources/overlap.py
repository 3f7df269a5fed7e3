"""Counts how much of a held-out text occurs verbatim in the training text."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from zoo.data.sources.documents import Documents
from zoo.data.sources.shingles import document_hashes

WIDTH = 64
SHORTEST_LINE = 20
# Held-out windows that are looked up at most: beyond, those with the smallest hashes.
_MOST_WINDOWS = 1 << 22
_FILTER_BITS = 22


@dataclass(frozen=True)
class VerbatimOverlap:
    """Shares of a held-out text that also occur in the training text.

    Attributes:
        windows: share of all windows of 64 bytes within a document.
        lines: share of the lines of at least 20 characters, without white space around them.
    """

    windows: float
    lines: float


def shared_lines(held_out: Sequence[Hashable], training: Collection[Hashable], what: str) -> list[str]:
    """Returns a warning about what is held out and trained on as well; empty if nothing is.

    Two sources of a mixture that hold the same document, each split by itself, and a file of
    `data.held_out` that repeats some of `data.source`, are the ways to such a split.
    """
    known = set(training)
    shared = sum(one in known for one in held_out)
    line = f"{shared:,} of {len(held_out):,} held-out {what} are also training {what}, and are scored from memory"
    return [line] if shared else []


def verbatim_overlap(training: Documents, held_out: Documents) -> VerbatimOverlap:
    """Measures the overlap of two texts, in one pass over the training text and two over the other."""
    limit = np.uint64(((1 << 64) - 1) // (1 + held_out.bytes // _MOST_WINDOWS))
    parts = [hashes[hashes <= limit] for hashes, _ in document_hashes(held_out.pieces(), WIDTH)]
    windows, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]), return_counts=True)
    return VerbatimOverlap(
        _share(counts, _found(windows, training)) if len(windows) else 0.0, _share_of_lines(training, held_out)
    )


def _found(windows: np.ndarray, training: Documents) -> np.ndarray:
    """Returns which of the sorted hashes are those of windows of the training text."""
    shift = np.uint64(64 - _FILTER_BITS)
    possible = np.zeros(1 << _FILTER_BITS, bool)
    possible[windows >> shift] = True
    found = np.zeros(len(windows), bool)
    for hashes, _ in document_hashes(training.pieces(), WIDTH):
        candidates = hashes[possible[hashes >> shift]]
        places = np.minimum(np.searchsorted(windows, candidates), len(windows) - 1)
        found[places[windows[places] == candidates]] = True
    return found


def _share(counts: np.ndarray, found: np.ndarray) -> float:
    return float(counts[found].sum() / counts.sum())


def _share_of_lines(training: Documents, held_out: Documents) -> float:
    lines: dict[str, int] = {}
    for _, text in held_out.pieces():
        for line in map(str.strip, text.split("\n")):
            if len(line) >= SHORTEST_LINE:
                lines[line] = lines.get(line, 0) + 1
    missing = set(lines)
    for _, text in training.pieces():
        missing.difference_update(map(str.strip, text.split("\n")))
    total = sum(lines.values())
    return 1 - sum(lines[line] for line in missing) / total if total else 0.0
