"""Lengths of both sides of an encoder-decoder, for a row of text."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from zoo.config.kinds.objective_kinds import OBJECTIVE_KINDS


class SpanLengths(NamedTuple):
    """Token and span counts of span corruption for a row of n tokens (Raffel et al. 2020, section
    3.1.4).

    round(n * density) tokens are cut out, in round(that / mean) spans, at least one of each, and at
    least one token stays before each span. Both sides end with an end token. With n = 568, density
    0.15 and mean 3 these are T5's 512 and 114.

    Attributes:
        noise: tokens that are cut out.
        spans: number of spans.
        source: tokens that the encoder reads.
        targets: tokens that the decoder writes.
    """

    noise: int
    spans: int
    source: int
    targets: int

    @classmethod
    def of(cls, tokens: int, density: float, mean: float) -> "SpanLengths":
        """Returns the numbers for a row of `tokens`, at least 2."""
        noise = min(max(round(tokens * density), 1), tokens - 1)
        spans = min(max(round(noise / mean), 1), noise, tokens - noise)
        return cls(noise, spans, tokens - noise + spans + 1, noise + spans + 1)


def side_lengths(objective: Mapping[str, Any], tokens: int) -> tuple[int, int]:
    """Returns how many tokens the encoder reads and the decoder writes of a row of `tokens`.

    Args:
        objective: the `objective` part of a resolved config, of an encoder-decoder.
        tokens: T.
    """
    kind = objective["kind"]
    if kind in OBJECTIVE_KINDS.having("spans"):
        return SpanLengths.of(tokens, objective["noise_density"], objective["mean_span_length"])[2:]
    if kind in OBJECTIVE_KINDS.having("denoising"):
        return tokens + 1, tokens + 1
    if kind in OBJECTIVE_KINDS.having("prefix"):
        return objective["prefix_length"], tokens + 1 - objective["prefix_length"]
    return tokens, tokens
