"""Clusters of documents that share passages, so that a split can keep each cluster on one side.

Two documents are joined if at least `SHARED` of the shingles of the smaller one, windows of 32
bytes, also occur in the other (the containment of Broder 1997, On the Resemblance and Containment of
Documents); a cluster is a connected component. Shingles are sampled by their hash, so equal passages
have equal samples wherever they stand.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from zoo.data.sources.shingles import document_hashes
from zoo.errors import not_writable
from zoo.files import cache_directory, read_json, write_json

WIDTH = 32
SHARED = 0.1
# Fewer shared samples may be chance: an idiom, a heading.
_LEAST_SHARED = 3
# A shingle of more documents than this pairs each of them with so many of the others: near-duplicates
# that share all of it are joined through each other.
_NEIGHBOURS = 16
# All windows of a small text are shingles; of a larger one every 16th, and at most about this many.
_ALL_UP_TO, _RATE, _MOST_SHINGLES = 1 << 16, 16, 1 << 24
# Part of the name of cached clusters: another number where the clusters of a text would change.
_VERSION = 1


def clusters(
    pieces: Iterable[tuple[bool, str]], digests: Sequence[bytes], num_bytes: int, shared: float = SHARED
) -> np.ndarray:
    """Returns the number of the cluster of each document, int64 [documents].

    Args:
        pieces: (whether a document begins, text).
        digests: a hash of each document's text; equal documents are in one cluster.
        num_bytes: size of the text, which sets how many shingles are sampled.
        shared: share of the sampled shingles of the smaller document.
    """
    # Imported here because SciPy takes a moment, and few configs ask for clusters.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    shingles, owners = _sampled(pieces, num_bytes)
    counts = np.bincount(owners, minlength=len(digests))
    one, other = _pairs(shingles, owners, np.argsort(np.argsort(np.array(digests))), counts, shared)
    first: dict[bytes, int] = {}
    equal = np.array([first.setdefault(digest, place) for place, digest in enumerate(digests)])
    one, other = np.concatenate([one, equal]), np.concatenate([other, np.arange(len(digests))])
    graph = coo_array((np.ones(len(one), bool), (one, other)), shape=(len(digests), len(digests)))
    return connected_components(graph, directed=False)[1].astype(np.int64)


def _sampled(pieces: Iterable[tuple[bool, str]], num_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns each document's distinct sampled shingles, and the documents."""
    rate = max(num_bytes // _MOST_SHINGLES, min(_RATE, num_bytes // _ALL_UP_TO), 1)
    limit = np.uint64(((1 << 64) - 1) // rate)
    hashes, owners = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    for found, numbers in document_hashes(pieces, WIDTH):
        kept = found <= limit
        hashes.append(found[kept])
        owners.append(numbers[kept])
    hashes, owners = np.concatenate(hashes), np.concatenate(owners)
    order = np.lexsort((owners, hashes))
    hashes, owners = hashes[order], owners[order]
    new = np.ones(len(hashes), bool)
    new[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    return hashes[new], owners[new]


def _pairs(
    shingles: np.ndarray, owners: np.ndarray, ranks: np.ndarray, counts: np.ndarray, shared: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns both documents of each pair that shares enough.

    `ranks` orders the documents by content, so that the order of files does not matter.
    """
    # Only shingles of several documents make pairs, and most are of one.
    several = np.zeros(len(shingles), bool)
    same = shingles[1:] == shingles[:-1]
    several[1:] |= same
    several[:-1] |= same
    shingles, ranked = shingles[several], ranks[owners[several]]
    order = np.lexsort((ranked, shingles))
    shingles, ranked = shingles[order], ranked[order].astype(np.int64)
    codes = [np.zeros(0, np.int64)]
    for distance in range(1, min(_NEIGHBOURS + 1, len(shingles))):
        same = shingles[distance:] == shingles[:-distance]
        codes.append(ranked[:-distance][same] * len(ranks) + ranked[distance:][same])
    pairs, found = np.unique(np.concatenate(codes), return_counts=True)
    by_rank = np.argsort(ranks)
    one, other = by_rank[pairs // len(ranks)], by_rank[pairs % len(ranks)]
    enough = (found >= shared * np.minimum(counts[one], counts[other])) & (found >= _LEAST_SHARED)
    return one[enough], other[enough]


def cached_clusters(fingerprint: str, count: int, make: Callable[[], np.ndarray]) -> np.ndarray:
    """Returns the clusters of a text with this fingerprint, from the cache if they are there.

    Args:
        fingerprint: of the text, and of how it is divided.
        count: number of documents, or of other parts of the text.
        make: computes the clusters.

    Raises:
        ConfigError: the cache folder cannot be written.
        ZooError: its disk is full.
    """
    key = hashlib.sha256(f"{_VERSION} {WIDTH} {SHARED} {fingerprint}".encode()).hexdigest()[:32]
    path = cache_directory() / "clusters" / f"{key}.json"
    try:
        found = np.array(read_json(path), np.int64)
        if found.shape == (count,):
            return found
    except (OSError, ValueError, TypeError):
        pass  # There is none, or a damaged one.
    found = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, found.tolist())
    except OSError as error:
        raise not_writable(path.parent, error, "the cache", "; set ZOO_CACHE to another folder") from error
    return found


def text_blocks(pieces: Iterable[tuple[bool, str]], size: int) -> Iterator[str]:
    """Yields consecutive blocks of whole lines, of `size` characters or a little more.

    A line of twice that length is cut at a space, or anywhere. No block spans two documents, and a
    document's last block may be shorter.
    """
    rest, start = "", 0
    for opens, text in pieces:
        if opens and start < len(rest):
            yield rest[start:]
        rest, start = text if opens else rest[start:] + text, 0
        while len(rest) - start >= 2 * size:
            low, high = start + size, start + 2 * size
            end = rest.find("\n", low - 1, high) + 1 or rest.find(" ", low - 1, high) + 1 or high
            yield rest[start:end]
            start = end
    if start < len(rest):
        yield rest[start:]


def held_out_clusters(sizes: Sequence[int], wanted: float) -> set[int]:
    """Returns the clusters to hold out: in order, each that brings their size nearer to `wanted`.

    A cluster of more than a tenth of what is wanted is left to training, so that no family of
    near-duplicates makes up the held-out text. The bound is doubled until the clusters below it have
    twice what is wanted.
    """
    limit, total = wanted / 10, sum(sizes)
    while sum(size for size in sizes if size <= limit) < min(2 * wanted, total):
        limit *= 2
    taken, chosen = 0, set()
    for cluster, size in enumerate(sizes):
        if size <= limit and abs(taken + size - wanted) < abs(taken - wanted):
            chosen.add(cluster)
            taken += size
    return chosen
