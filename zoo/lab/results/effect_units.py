"""Differences in units that mean the same in other experiments: times the tokens, shares of a gap.

A difference of 0.05 nats is large where a doubling of the data gains 0.06, and small where it gains
0.3. The *token factor* of an arm is the number of tokens that the baseline would need for the loss
of the arm, divided by the tokens that the arm was trained with: above 1 the arm is worth more data,
and below 1 it wastes the rest. Wen et al. 2025 (arXiv:2509.02046)
state what optimizers gain in this way, as a speed-up over AdamW at equal loss; Davidson et al. 2023
(arXiv:2312.07413) call the same ratio of training compute the compute-equivalent gain.

**Estimate.** With D0 the tokens of the baseline's runs, its loss after D tokens is fitted, as by
Hoffmann et al. 2022 (arXiv:2203.15556), by

    L(D) = E + A (D / D0)^-b        E >= 0, A > 0, 0.02 <= b <= 3,

least squares on the mean over seeds: for each b, E and A are linear; b is searched. With two points,
E is 0. An arm that ends d above the baseline has the loss L(D0) + d, so

    k(d) = (1 + d / A)^(-1 / b),    ln k = -d / (A b) + O(d^2),

and infinitely many tokens do not suffice where d <= -A. If the arm had D tokens itself, its factor
is k(d) D0 / D. Only the differences of the curve enter, so an arm that ends with the baseline has
exactly 1.

**Which curve.** L(D) should be the final loss of runs that were planned for D tokens each. Runs at
several budgets give it (`BUDGETS`). So does one run whose rate does not depend on the number of its
steps (`HORIZON_FREE`, such as a constant one), because a shorter run is its beginning. Within a run
whose rate decays (`DECAYING`) the curve is another one: in the middle of the run the rate is higher
than at the end of a shorter run (Hoffmann et al. 2022, section 3.1), and the small rates at the end
flatten the curve, which a fit takes for an asymptote. There the last tenfold of the tokens is
fitted, which has both parts, with E = 0. What remains is `SCHEDULE_ERROR`.

**Interval.** k falls with d, so an interval [low, high] of d becomes [k(high), k(low)]. With s(d) the
standard error of ln k(d) over seeds, by the jackknife (Efron & Stein 1981) with the curve fitted again
without each seed, t its quantile of Student's t with seeds - 1 degrees of freedom, and e the
`SCHEDULE_ERROR` of a decaying rate, else 0, the bound at x = low or high is

    ln k(m) ± sqrt((ln k(x) - ln k(m))^2 + (t s(x))^2 + (e ln k(x))^2),    m the mean difference.

The three errors are added as if they were independent. The factor is exact to first order in d for
a curve that is a power law; that the curve is one is assumed, and ever more so the further k is
from the tokens that were fitted. A factor is therefore *extrapolated* beyond them. Only a bound is
stated beyond four times the largest, or below the smallest; of several budgets, below a quarter of
the smallest.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from zoo.lab.statistics.paired import ALPHA, spread
from zoo.lab.statistics.power_law import PowerLaw, fit_power_law

BUDGETS, HORIZON_FREE, DECAYING = "budgets", "horizon-free rate", "decaying rate"
ON_CURVE, EXTRAPOLATED, NOT_REACHED = "on the curve", "extrapolated", "not reached on this curve"

# The last tenfold of the tokens of a run, after any warm-up.
FIRST_SHARE = 0.1
MINIMUM_EVALUATIONS, MINIMUM_BUDGETS = 4, 2
LARGEST_EXTRAPOLATION = 4.0
# Relative error of ln k where the curve is that of runs with a decaying rate. The decoder of size tiny
# (`zoo.lab.sizes`), trained at one rate for 125, 250, 500 and 1,000 steps, gave ln k of 1.03 to 1.14
# times its true value, from 0.125 to 4 times the tokens; with a fitted E it was up to 2.4 times. On
# L = 1.7 + 1.3 (D / D0)^-0.28, as of large models, E = 0 gives 0.8 times the true value.
SCHEDULE_ERROR = 0.3
# The gap to a floor needs to be this many standard errors of the baseline wide.
GAP_IN_ERRORS = 3.0


@dataclass(frozen=True)
class LearningCurve:
    """Losses of a baseline by tokens.

    Attributes:
        tokens: [P], ascending and above 0.
        losses: [seeds, P].
        budget: D0, the tokens of the runs whose final losses are compared.
        basis: `BUDGETS`, `HORIZON_FREE` or `DECAYING`.
    """

    tokens: np.ndarray
    losses: np.ndarray
    budget: float
    basis: str

    @functools.cached_property
    def fit(self) -> PowerLaw | None:
        """The fit to the mean over seeds; None if that does not fall."""
        return self._fit(self.losses)

    @functools.cached_property
    def fits_without_a_seed(self) -> list[PowerLaw | None]:
        """The fits to the mean over all seeds but one; none for a single seed."""
        several = range(len(self.losses)) if len(self.losses) > 1 else ()
        return [self._fit(np.delete(self.losses, seed, axis=0)) for seed in several]

    def _fit(self, losses: np.ndarray) -> PowerLaw | None:
        return fit_power_law(self.tokens / self.budget, losses.mean(axis=0), None if self.basis != DECAYING else 0.0)


@dataclass(frozen=True)
class TokenFactor:
    """Times the tokens that the baseline would need for the loss of an arm.

    Attributes:
        value, low, high: the factor and its interval, within `least` and `most`; a bound that is not
            known is NaN.
        reached: `ON_CURVE`, also if the baseline had the loss before the tokens that were fitted,
            `EXTRAPOLATED` or `NOT_REACHED`.
        basis: of the curve.
        least, most: the smallest and largest factor that the curve can tell; a value or bound equal to
            one of them lies there or beyond.
        seeds: of the curve; with one its own error is not in the interval.
    """

    value: float
    low: float
    high: float
    reached: str
    basis: str
    least: float
    most: float
    seeds: int

    def shown(self, value: float) -> str:
        """Returns a factor with two decimals, or e.g. `< 0.25` or `> 4` at the ends of the curve."""
        if math.isnan(value):
            return "–"
        if value <= self.least:
            return f"< {_rounded(self.least)}"
        return f"> {_rounded(self.most)}" if value >= self.most else f"{value:.2f}"

    @property
    def text(self) -> str:
        """E.g. `1.34 (1.12 to 1.61), extrapolated`."""
        between = f" ({self.shown(self.low)} to {self.shown(self.high)})"
        if math.isnan(self.low) or (self.low == self.high and self.low in (self.least, self.most)):
            between = ""
        return self.shown(self.value) + between + ("" if self.reached == ON_CURVE else f", {self.reached}")


def _rounded(value: float) -> str:
    return f"{value:.2g}"


def token_factor(
    curve: LearningCurve, difference: tuple[float, float, float], alpha: float = ALPHA, arm_tokens: float | None = None
) -> TokenFactor | None:
    """Returns the token factor of an arm; None if the curve does not fall.

    Args:
        curve: of the baseline.
        difference: mean, lower and upper bound of the arm's loss minus the baseline's; the bounds may
            be NaN.
        alpha: level of that interval, e.g. 0.05.
        arm_tokens: tokens of the arm's runs; None for those of the baseline.
    """
    law, without = curve.fit, curve.fits_without_a_seed
    if law is None:
        return None
    mean, low, high = difference
    share = curve.budget / (arm_tokens or curve.budget)
    first, last = curve.tokens[0] / curve.budget, curve.tokens[-1] / curve.budget
    # Within one run the first steps follow another curve; a smaller budget does not.
    lowest = first / LARGEST_EXTRAPOLATION if curve.basis == BUDGETS else first
    least, most = share * lowest, share * last * LARGEST_EXTRAPOLATION

    def bound(at: float, side: int) -> float:
        """Returns the lower (side -1, from the upper bound of the difference) or upper bound."""
        there, middle = law.ratio(at), law.ratio(mean)
        if math.isinf(there):
            return there
        error = _jackknife_error([found.ratio(at) if found else math.inf for found in without])
        quantile = -float(special.stdtrit(len(without) - 1, alpha / 2)) if len(without) > 1 else 0.0
        schedule = SCHEDULE_ERROR if curve.basis == DECAYING else 0.0
        start = there if math.isinf(middle) else middle
        width = math.hypot(math.log(there / start), quantile * error, schedule * math.log(there))
        return start * math.exp(side * min(width, 700.0))

    value = law.ratio(mean)
    known = math.isfinite(low) and math.isfinite(high)
    bounds = (bound(high, -1), bound(low, 1)) if known else (math.nan, math.nan)
    inside = value <= last and (value >= first or curve.basis != BUDGETS)
    reached = ON_CURVE if inside else EXTRAPOLATED if value <= last * LARGEST_EXTRAPOLATION else NOT_REACHED
    clipped = (float(np.clip(share * each, least, most)) for each in (value, *bounds))
    return TokenFactor(*clipped, reached, curve.basis, least, most, len(curve.losses))


def _jackknife_error(ratios: Sequence[float]) -> float:
    """Returns the jackknife standard error of ln ratio, from its values without each seed.

    It is sqrt((n - 1) / n * sum of squared deviations from their mean); 0 for a single seed, and
    infinite if a value is.
    """
    if not ratios:
        return 0.0
    if not all(0 < ratio < math.inf for ratio in ratios):
        return math.inf
    logarithms = np.log(ratios)
    return float(np.sqrt((len(ratios) - 1) * np.mean((logarithms - logarithms.mean()) ** 2)))


@dataclass(frozen=True)
class GapShare:
    """The gain of an arm over the baseline, in per cent of the distance of the baseline to a floor.

    Attributes:
        value, low, high: in per cent, positive if the arm is better than the baseline.
        floor: score of the floor.
        above_floor: whether the baseline is worse than the floor. Then 100 % is reaching it; otherwise
            it is being as far again from it.
    """

    value: float
    low: float
    high: float
    floor: float
    above_floor: bool


def gap_share(
    difference: tuple[float, float, float],
    baseline: Sequence[float],
    floor: float,
    higher_is_better: bool = False,
    alpha: float = ALPHA,
) -> GapShare | None:
    """Returns -d / |B - F| in per cent, or d / |B - F| where higher is better.

    d is the arm's score minus the baseline's, B the mean of the baseline over seeds and F the
    floor. The relative error of the gap, t sd / (sqrt(n) |B - F|), adds in quadrature to the error
    of d, as if both were independent.

    Args:
        difference: mean, lower and upper bound of d.
        baseline: final scores of the baseline by seed.
        floor: score of the floor.
        higher_is_better: false for losses.
        alpha: level of the interval of d.

    Returns:
        None if the gap is not clearly different from 0: less than 3 standard errors of B.
    """
    found = spread(baseline)
    if found is None or not math.isfinite(floor):
        return None
    gap, error = abs(found.mean - floor), found.sd / math.sqrt(found.n) if found.n > 1 else 0.0
    if gap <= GAP_IN_ERRORS * error or gap == 0:
        return None
    sign = 1 if higher_is_better else -1
    value, *bounds = (100 * sign * each / gap for each in difference)
    quantile = -float(special.stdtrit(found.n - 1, alpha / 2)) if found.n > 1 else 0.0
    low, high = (
        value + side * math.hypot(each - value, quantile * error / gap * each)
        for side, each in zip((-1, 1), sorted(bounds), strict=True)
    )
    return GapShare(value, low, high, floor, (found.mean - floor) * sign < 0)
