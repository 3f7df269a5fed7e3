"""Two sources of uncertainty that the pairs of a comparison do not show."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """The standard deviation of the paired difference of two arms, as other runs tell it.

    Attributes:
        sd: in the metric's unit.
        df: degrees of freedom of `sd`.
        source: in words.
    """

    sd: float
    df: float
    source: str


@dataclass(frozen=True)
class Regret:
    """The square of the loss that an arm loses by training at an estimated optimum.

    Attributes:
        mean_square: q = E[R^2], in the squared unit of the metric.
        df: degrees of freedom of its estimate, a quarter of those of the variance that it comes from.
    """

    mean_square: float
    df: float
