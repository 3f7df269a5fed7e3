"""Times the compute: how much of the baseline's compute gives the loss of an arm.

At a target compute C0 the arm ends d above the baseline, whose law is L(C) = E + A (C / C0)^-a. The
baseline has the arm's loss at k C0 with

    k = (1 + d / A)^(-1 / a),    ln k = -d / (A a) + O(d^2),

above 1 if the arm is better: Davidson et al. 2023 (arXiv:2312.07413) call k the compute-equivalent
gain. An arm that spends the compute C_a where the baseline spends C_b is worth k C_b / C_a.

**d** is the mean difference, paired by seed, at the size that has the target's compute, or else the
value of the line through the differences of all sizes (`zoo.lab.statistics.effect_slope`).

**L** is the fitted law from three sizes on. With two its slope at the target is not known: E is 0
then, which is a straight line of log L over log C, and e = `LOCAL_SLOPE_ERROR` is added to the
interval.

**Interval.** The profile of ln k (`zoo.lab.statistics.compute_law`) over the means of the baseline and
d, with Welch's variance of the sum of both over seeds, in which they are paired. Of two sizes, the
bound at ln k(x) is ln k(m) +- sqrt((ln k(x) - ln k(m))^2 + (e ln k(m))^2), m being the mean.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from zoo.lab.statistics.compute_law import EXPONENTS, LEAST_SIZES, ComputeLaw, least, linear_squares, profile_interval
from zoo.lab.statistics.effect_slope import difference_weights
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.power_law import fit_power_law
from zoo.lab.statistics.sized_losses import Estimate, SizedLosses, welch

# Relative error of ln k where E is 0 for want of a third size. For L = E + A C^-a with sizes 16 times
# apart, a from 0.05 to 0.2 and up to 70 % of the loss irreducible, ln k is 0.75 to 1 times the true
# one.
LOCAL_SLOPE_ERROR = 0.3
# Factors up to this, or down to its inverse, are stated however far the target lies.
ALWAYS_STATED = 4.0
FROM_LAW, FROM_TWO_SIZES = "law", "two sizes"
# Ratios beyond these are not told apart from infinite ones.
_LARGEST = math.log(1e6)


@dataclass(frozen=True)
class ComputeFactor:
    """Times the compute.

    Attributes:
        factor: k.
        basis: `FROM_LAW` or `FROM_TWO_SIZES`.
        least, most: the smallest and the largest factor that the sizes can tell; a value or bound
            equal to one of them lies there or beyond.
    """

    factor: Estimate
    basis: str
    least: float
    most: float

    def shown(self, value: float) -> str:
        """Returns a factor with two decimals, or e.g. `> 16` at the ends."""
        if math.isnan(value):
            return "–"
        if value <= self.least:
            return f"< {self.least:.2g}"
        if value >= self.most:
            return f"> {self.most:.2g}"
        return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"

    @property
    def text(self) -> str:
        """E.g. `1.34 (1.12 to 1.61)`."""
        found = self.factor
        beyond = found.low == found.high and found.low in (self.least, self.most)
        if beyond or not found.known:
            return self.shown(found.value)
        return f"{self.shown(found.value)} ({self.shown(found.low)} to {self.shown(found.high)})"


def compute_factor(
    baseline: SizedLosses,
    arm: SizedLosses,
    target: float,
    furthest: float,
    asymptote: float | None = None,
    alpha: float = ALPHA,
) -> ComputeFactor | None:
    """Returns how many times the arm's compute the baseline needs for the arm's loss.

    Args:
        baseline, arm: at the same sizes, two or more; the compute of each is its own.
        target: C0, of the baseline.
        furthest: the largest extrapolation beyond the sizes, as a ratio of compute; factors are stated
            as far as the law of the baseline may be read (`ALWAYS_STATED`), and beyond only as bounds.
        asymptote: E of the baseline's law, if it is known.
        alpha: level of the interval.

    Returns:
        None if the baseline's losses do not fall with compute.
    """
    arm_compute, paired = arm.compute, _common_seeds(baseline, arm)
    baseline, differences = paired
    from_law = asymptote is not None or len(baseline.compute) >= LEAST_SIZES
    known = asymptote if from_law else 0.0
    law = fit_power_law(baseline.compute / target, baseline.means, known, EXPONENTS)
    if law is None:
        return None
    weights = difference_weights(differences, target)
    d = float(weights @ differences.means)
    found = _log_factor(ComputeLaw(baseline, target, law, known), differences, weights, d, alpha)
    if not from_law:
        found = _widened(found)
    nearest = int(np.argmin(np.abs(np.log(baseline.compute / target))))
    share = float(baseline.compute[nearest] / arm_compute[nearest])
    lowest, highest = baseline.compute[0] / furthest / target, baseline.compute[-1] * furthest / target
    bounds = share * min(float(lowest), 1 / ALWAYS_STATED), share * max(float(highest), ALWAYS_STATED)
    clipped = (float(np.clip(share * math.exp(each), *bounds)) for each in (found.value, found.low, found.high))
    return ComputeFactor(Estimate(*clipped), FROM_LAW if from_law else FROM_TWO_SIZES, *bounds)


def _common_seeds(baseline: SizedLosses, arm: SizedLosses) -> tuple[SizedLosses, SizedLosses]:
    """Returns the baseline and the differences with the seeds that both have."""
    differences = arm.minus(baseline)
    kept = tuple(
        {seed: found[seed] for seed in pairs} for found, pairs in zip(baseline.losses, differences.losses, strict=True)
    )
    return replace(baseline, losses=kept), differences


def _log_factor(fitted: ComputeLaw, differences: SizedLosses, weights: np.ndarray, d: float, alpha: float) -> Estimate:
    """Returns ln k with its interval by the profile."""
    law, baseline = fitted.law, fitted.losses
    limits = (-_LARGEST, _LARGEST)
    value = float(np.clip(math.log(law.ratio(d)), *limits))
    # The law at the estimate, or at its largest ratio where the arm's loss is below the asymptote.
    share = math.exp(-law.exponent * value)
    at = law.reducible * (share - 1)
    by_d = -1 / (law.exponent * share * law.reducible)
    gradient = np.array([0.0, -by_d * at / law.reducible, -value / law.exponent])
    of_baseline, of_differences = fitted.influence(gradient), by_d * weights
    combined = [
        a * np.array(list(base.values())) + b * np.array(list(pairs.values()))
        for a, b, base, pairs in zip(of_baseline, of_differences, baseline.losses, differences.losses, strict=True)
    ]
    # The weight of d in the sum of squares is that of its variance against a mean of the baseline.
    noise = [np.var(list(found.values()), ddof=1) / len(found) for found in baseline.losses if len(found) > 1]
    of_d = welch([c * np.array(list(found.values())) for c, found in zip(weights, differences.losses, strict=True)])[0]
    weight = float(np.mean(noise)) / of_d if noise and of_d > 0 else 1.0

    def squares(log_factor: float) -> float:
        def of_exponents(exponents: np.ndarray) -> np.ndarray:
            extra = (np.expm1(-exponents * log_factor), d, weight)
            return linear_squares(exponents, fitted.x, baseline.means, fitted.known_asymptote, extra)

        return least(of_exponents)

    scaled = np.append(of_baseline, by_d / math.sqrt(weight))
    return profile_interval(value, scaled, welch(combined), squares, limits, alpha)


def _widened(found: Estimate) -> Estimate:
    """Adds the error of the slope that two sizes give."""
    added = LOCAL_SLOPE_ERROR * found.value
    return Estimate(
        found.value,
        found.value - math.hypot(found.value - found.low, added),
        found.value + math.hypot(found.high - found.value, added),
    )
