"""The loss of an arm as a law of its training compute, with intervals from the seeds.

    L(C) = E + A (C / C0)^-a        (`zoo.lab.statistics.power_law`)

Along a ladder of sizes with a constant number of tokens for each parameter, tokens D and parameters N
grow together, so that E + A N^-a + B D^-b of Hoffmann et al. 2022 has terms that nothing tells apart;
such a ladder has a law of the compute C ~ N D. The means over seeds at K sizes are fitted by least
squares. Three parameters need three sizes; with three the curve passes through the means, so that
nothing tests its form. If E is known, two suffice.

**Intervals.** Resampling a few seeds gives intervals that are too narrow. The bounds of a quantity g,
such as L at a target, are therefore those of a profile (Bates & Watts 1988, chapter 6): the values g
for which the sum of squares S, minimised over all laws that have this g, exceeds its minimum by

    S(g) - S_min = t^2 V / (c'c)

where c_k = dg / dy_k is the influence of the mean of size k, V the variance of sum_k c_k y_k by Welch
and t the quantile of Student's t with Welch's degrees of freedom (`zoo.lab.statistics.sized_losses`).
For a quantity that is linear in the means these are g -+ t sqrt(V). For others S follows the bend of
the law, and the limits E >= 0 and A > 0. The intervals hold if the loss follows the law.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.power_law import PowerLaw, fit_power_law
from zoo.lab.statistics.sized_losses import Estimate, SizedLosses, quantile, weighted, welch

# Compute grows as the product of parameters and tokens, so that its exponents are small.
EXPONENTS = (0.002, 3.0)
LEAST_SIZES, LEAST_SIZES_OF_KNOWN_ASYMPTOTE = 3, 2
_GRID = np.geomspace(*EXPONENTS, 60)
_ENDS = 1e-6


@dataclass(frozen=True)
class ComputeLaw:
    """A fitted law.

    Attributes:
        losses: what was fitted.
        target: C0, operations.
        law: of C / C0, so that its loss at 1 is the one predicted for the target.
        known_asymptote: E if it was given, else None.
    """

    losses: SizedLosses
    target: float
    law: PowerLaw
    known_asymptote: float | None = None

    @property
    def x(self) -> np.ndarray:
        """ln (C / C0) of the sizes, [K]."""
        return np.log(self.losses.compute / self.target)

    @property
    def asymptote_is_free(self) -> bool:
        """Whether E was fitted and is not held at its limit 0."""
        return self.known_asymptote is None and self.law.asymptote > 0

    def influence(self, gradient: np.ndarray) -> np.ndarray:
        """Returns dg / dy_k of a quantity with the given gradient by (E, A, a), [K]."""
        u, free = np.exp(-self.law.exponent * self.x), [self.asymptote_is_free, True, self._exponent_is_free]
        jacobian = np.column_stack([np.ones_like(u), u, -self.law.reducible * self.x * u])[:, free]
        return np.linalg.pinv(jacobian).T @ gradient[free]

    @property
    def _exponent_is_free(self) -> bool:
        low, high = EXPONENTS
        return low * (1 + _ENDS) < self.law.exponent < high * (1 - _ENDS)

    def loss(self, alpha: float = ALPHA) -> Estimate:
        """Returns the loss at the target."""
        return self._interval(
            self.law.loss(1), np.array([1.0, 1.0, 0.0]), self._squares_of_loss, (0.0, math.inf), alpha
        )

    def loss_at(self, compute: float, alpha: float = ALPHA) -> Estimate:
        """Returns the loss at another compute."""
        ratio = compute / self.target
        moved = PowerLaw(self.law.asymptote, self.law.reducible * ratio**-self.law.exponent, self.law.exponent)
        return ComputeLaw(self.losses, compute, moved, self.known_asymptote).loss(alpha)

    def exponent(self, alpha: float = ALPHA) -> Estimate:
        """Returns a; a bound at the ends of `EXPONENTS` says that it lies there or beyond."""
        gradient = np.array([0.0, 0.0, 1.0])
        return self._interval(self.law.exponent, gradient, self._squares_of_exponent, EXPONENTS, alpha)

    def asymptote(self, alpha: float = ALPHA) -> Estimate:
        """Returns E, between 0 and the lowest loss."""
        if self.known_asymptote is not None:
            return Estimate(self.known_asymptote)
        limits, gradient = (0.0, float(self.losses.means.min())), np.array([1.0, 0.0, 0.0])
        if not self.asymptote_is_free:
            # At its limit no mean moves E; what moves it without the limit tells how large noise is.
            free = ComputeLaw(self.losses, self.target, PowerLaw(_ENDS, self.law.reducible, self.law.exponent))
            return free._interval(0.0, gradient, self._squares_of_asymptote, limits, alpha)
        return self._interval(self.law.asymptote, gradient, self._squares_of_asymptote, limits, alpha)

    def misfit_p(self) -> float:
        """Returns the p value of the form of the law, by the F test of its misfit against the noise of
        runs, the same at all sizes; NaN without more sizes than parameters.
        """
        spread, means, sizes = self.losses.losses, self.losses.means, len(self.x)
        parameters = 2 if self.known_asymptote is not None else 3
        df = sum(len(found) - 1 for found in spread)
        if sizes <= parameters or df < 1:
            return math.nan
        # The test needs the least squares of all runs, where a mean counts once for each of its seeds.
        counts = np.array([len(found) for found in spread], float)
        misfit = least(
            lambda exponents: linear_squares(exponents, self.x, means, self.known_asymptote, weights=counts)
        ) / (sizes - parameters)
        noise = sum(np.var(list(found.values()), ddof=1) * (len(found) - 1) for found in spread if len(found) > 1) / df
        return float(special.fdtrc(sizes - parameters, df, misfit / noise)) if noise > 0 else math.nan

    def _interval(
        self,
        value: float,
        gradient: np.ndarray,
        squares: Callable[[float], float],
        limits: tuple[float, float],
        alpha: float,
    ) -> Estimate:
        weights = self.influence(gradient)
        return profile_interval(value, weights, welch(weighted(self.losses, weights)), squares, limits, alpha)

    def _squares_of_loss(self, loss: float) -> float:
        """S of the laws that have this loss at the target."""

        def squares(exponents: np.ndarray) -> np.ndarray:
            moved = np.exp(-np.multiply.outer(exponents, self.x)) - 1
            if self.known_asymptote is not None:
                reducible = np.full(len(exponents), max(loss - self.known_asymptote, 0.0))
            else:
                reducible = np.clip(moved @ (self.losses.means - loss) / (moved**2).sum(axis=1), 0, loss)
            return ((self.losses.means - loss - reducible[:, None] * moved) ** 2).sum(axis=1)

        return least(squares)

    def _squares_of_exponent(self, exponent: float) -> float:
        return float(linear_squares(np.array([exponent]), self.x, self.losses.means, self.known_asymptote)[0])

    def _squares_of_asymptote(self, asymptote: float) -> float:
        return least(lambda exponents: linear_squares(exponents, self.x, self.losses.means, asymptote))


def fit_compute_law(losses: SizedLosses, target: float, asymptote: float | None = None) -> ComputeLaw | None:
    """Fits the law; None if the losses do not fall with compute.

    Args:
        losses: of one arm.
        target: C0, for which a loss is predicted.
        asymptote: E, if it is known; None fits it.

    Raises:
        ValueError: too few sizes.
    """
    least_sizes = LEAST_SIZES if asymptote is None else LEAST_SIZES_OF_KNOWN_ASYMPTOTE
    if len(losses.compute) < least_sizes:
        raise ValueError(f"a law of {least_sizes} parameters needs {least_sizes} sizes, not {len(losses.compute)}")
    law = fit_power_law(losses.compute / target, losses.means, asymptote, EXPONENTS)
    return None if law is None else ComputeLaw(losses, target, law, asymptote)


def linear_squares(
    exponents: np.ndarray,
    x: np.ndarray,
    means: np.ndarray,
    asymptote: float | None,
    extra: tuple[np.ndarray, float, float] = (np.zeros(1), 0.0, 0.0),
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the least sum of squares over E >= 0 and A >= 0 for each of N exponents.

    Args:
        exponents: [N].
        x: ln of the ratio of each size, [K].
        means: [K].
        asymptote: E, if it is known.
        extra: one more observation A m = d with its weight w, as (m [N], d, w).
        weights: of the means, [K]; None for 1.
    """
    m, d, w = extra
    weights = np.ones(len(x)) if weights is None else weights
    total, of_means = weights.sum(), weights @ means
    u = np.exp(-np.multiply.outer(exponents, x))
    of_u, of_squares = u @ weights, u**2 @ weights + w * m**2
    of_products = u @ (weights * means) + w * m * d
    known = asymptote or 0.0
    alone = np.maximum(of_products - known * of_u, 0) / of_squares
    lowest, reducible = np.full(len(u), known), alone
    if asymptote is None:
        determinant = total * of_squares - of_u**2
        both = (total * of_products - of_u * of_means) / np.where(determinant > 0, determinant, 1)
        rest = (of_means - of_u * both) / total
        inside = (determinant > 0) & (rest >= 0) & (both >= 0)
        flat = (determinant > 0) & (both < 0)
        lowest = np.where(inside, rest, np.where(flat, of_means / total, 0.0))
        reducible = np.where(inside, both, np.where(flat, 0.0, alone))
    residuals = means - lowest[:, None] - reducible[:, None] * u
    return residuals**2 @ weights + w * (d - reducible * m) ** 2


def least(squares: Callable[[np.ndarray], np.ndarray]) -> float:
    """Returns the minimum over the exponents of `EXPONENTS` of sums of squares, given for an array."""
    grid = _GRID
    for _ in range(3):
        found = squares(grid)
        best = int(np.argmin(found))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
        grid = np.linspace(low, high, 24)
    return float(found[best])


def profile_interval(
    value: float,
    weights: np.ndarray,
    error: tuple[float, float],
    squares: Callable[[float], float],
    limits: tuple[float, float],
    alpha: float,
) -> Estimate:
    """Returns the interval of a quantity by its profile.

    Args:
        value: its estimate.
        weights: its influences, each divided by the root of the weight that its observation has in
            `squares`.
        error: V and df.
        squares: S(g).
        limits: beyond which it cannot lie.
        alpha: level.
    """
    variance, df = error
    norm = float(weights @ weights)
    if math.isnan(variance) or not norm > 0:
        return Estimate(value)
    half = quantile(df, alpha) * math.sqrt(variance)
    if half == 0:
        return Estimate(value, value, value)
    lowest, threshold = squares(value), half**2 / norm

    def excess(at: float) -> float:
        return (squares(at) - lowest) / threshold - 1

    return Estimate(value, *(_crossing(excess, value, half * side, limits) for side in (-1, 1)))


def _crossing(excess: Callable[[float], float], start: float, step: float, limits: tuple[float, float]) -> float:
    """Returns where the excess rises through 0, going from `start` by steps that grow; the limit if it
    does not.
    """
    inside = start
    for _ in range(60):
        outside = min(max(inside + step, limits[0]), limits[1])
        if excess(outside) >= 0:
            return float(optimize.brentq(excess, inside, outside, xtol=abs(step) * 1e-4))
        if outside in limits:
            return outside
        inside, step = outside, step * 1.6
    return math.copysign(math.inf, step)
