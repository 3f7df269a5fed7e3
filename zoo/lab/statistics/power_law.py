"""A loss that falls to an asymptote as a power of a size, be it tokens or compute.

    L(x) = E + A (x / x0)^-b        E >= 0, A > 0

This is the form of Hoffmann et al. 2022 (arXiv:2203.15556), equation 10, for one size. For each b, E
and A are linear, so least squares is a search over b alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize

EXPONENTS = (0.02, 3.0)
# With fewer points the asymptote is not fitted: it is 0.
POINTS_FOR_ASYMPTOTE = 3


@dataclass(frozen=True)
class PowerLaw:
    """L = asymptote + reducible r^-exponent, where r is a size divided by that of reference."""

    asymptote: float
    reducible: float
    exponent: float

    def loss(self, ratio: float) -> float:
        """Returns L at `ratio` times the size of reference."""
        return self.asymptote + self.reducible * ratio**-self.exponent

    def ratio(self, difference: float) -> float:
        """Returns the ratio at which the loss is L(1) + `difference`; infinite if it never is."""
        share = 1 + difference / self.reducible
        if share <= 0:
            return math.inf
        return math.exp(min(-math.log(share) / self.exponent, 700.0))


def fit_power_law(
    ratios: np.ndarray, losses: np.ndarray, asymptote: float | None = None, exponents: tuple[float, float] = EXPONENTS
) -> PowerLaw | None:
    """Fits losses [P] at P ratios by least squares; None unless they fall with the ratio.

    Args:
        ratios: sizes divided by that of reference, above 0.
        losses: at least two.
        asymptote: E, if it is known; None fits it, but takes 0 with two points.
        exponents: the smallest and the largest b.
    """
    x, y = np.log(np.asarray(ratios, float)), np.asarray(losses, float)
    if len(x) < 2 or not np.isfinite(y).all() or not y[np.argmax(x)] < y[np.argmin(x)]:
        return None

    fitted, known = asymptote is None and len(x) >= POINTS_FOR_ASYMPTOTE, asymptote or 0.0

    def solve(trials: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the sums of squares, E and A, each [N], at N values of b."""
        u = np.exp(-np.multiply.outer(trials, x))
        deviations = u - u.mean(axis=1, keepdims=True)
        reducible = deviations @ y / (deviations**2).sum(axis=1)
        lowest = y.mean() - reducible * u.mean(axis=1)
        held = lowest < 0 if fitted else np.ones(len(u), bool)
        lowest = np.where(held, known, lowest)
        reducible = np.where(held, u @ (y - known) / (u**2).sum(axis=1), reducible)
        residuals = y - lowest[:, None] - reducible[:, None] * u
        return (residuals**2).sum(axis=1), lowest, reducible

    grid = np.geomspace(*exponents, 60)
    best = int(np.argmin(solve(grid)[0]))
    around = np.log([grid[max(0, best - 1)], grid[min(len(grid) - 1, best + 1)]])
    found = optimize.minimize_scalar(
        lambda logarithm: float(solve(np.exp([logarithm]))[0][0]), bounds=tuple(around), method="bounded"
    )
    exponent = math.exp(float(found.x))
    _, (lowest,), (reducible,) = solve(np.array([exponent]))
    return PowerLaw(float(lowest), float(reducible), exponent) if reducible > 0 else None
