"""The hashes of a run's tokens in its record, which tell equal text by equal tokenizers from equal
tokens.
"""

from collections.abc import Iterator
from typing import Any

_SUFFIX = "_tokens_sha256"


def recorded_tokens(record: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yields (part, hash) of the tokens in a data set's record, those of mixtures and of held-out
    texts included; none for a run of a version that did not record them.

    Args:
        record: the "data" of meta.json.
        where: begins the names of the parts.
    """
    for name, value in record.items() if isinstance(record, dict) else ():
        if name.endswith(_SUFFIX):
            yield where + name.removesuffix(_SUFFIX), str(value)
        elif name == "held_out":
            yield from recorded_tokens(value, "held_out ")
        elif name == "parts" and isinstance(value, list):
            for number, part in enumerate(value):
                yield from recorded_tokens(part, f"source {number} ")


def differing_tokens(record: Any, other: Any) -> Iterator[tuple[str, str, str]]:
    """Yields (part, hash, other hash) of parts that both records have and whose tokens differ."""
    others = dict(recorded_tokens(other))
    for part, digest in recorded_tokens(record):
        if others.get(part, digest) != digest:
            yield part, digest, others[part]
