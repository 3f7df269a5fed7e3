"""A curve through the results of tuning, its minimum, and what the choice of the value costs.

Near its minimum x*, the loss of an arm over the logarithm x of a tuned value is close to a parabola.
With the seeds s of the tuning runs it is fitted by least squares as

    y(x, s) = a_s + b x + c x^2 + noise,        x^ = -b / (2 c)

where a_s is an effect of the seed, which all values share. The final runs are trained at x^, so they
end above the best loss of the arm by the regret

    R = c (x^ - x*)^2,       v = Var(x^) = (V_bb + 4 x^ V_bc + 4 x^2 V_cc) / (4 c^2)

with the covariance V of b and c (the delta method: dx^/db = -1 / (2 c), dx^/dc = -x^ / c). If
x^ - x* is normal with variance v, then R has the mean c v and the second moment

    E[R^2] = 3 (c v)^2.

Regrets of two arms are independent, so the difference of two tuned arms has an additional mean
square error of at most 3 (c_a v_a)^2 + 3 (c_b v_b)^2 (`zoo.lab.statistics.paired` adds it to that of
the seeds).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

# A curve needs four values: with three a parabola passes through all of them.
MIN_VALUES = 4
# The curvature has to be this many standard errors above 0; below, its minimum could be anywhere.
MIN_CURVATURE = 2.0
LOWER, HIGHER, BOTH = "lower", "higher", "both"


@dataclass(frozen=True)
class TuningCurve:
    """A parabola through the losses of an arm over a tuned value, and its minimum.

    Attributes:
        minimum: x^ as a value of the field; NaN without a curve.
        loss: the curve's value there, for a seed with the mean effect.
        curvature: c, in units of the metric for the square of the natural logarithm.
        mean_regret: c v, the expected loss above the best one that is due to the choice of x^.
        sd: standard deviation of the noise of one run around the curve.
        df: degrees of freedom of `sd`.
        values: the values that were fitted, in ascending order.
        problem: why this is not a tuned value; empty if it is one.
        extend: on which side of the values further ones are needed: "lower", "higher" or "both";
            empty without a problem.
    """

    minimum: float
    loss: float
    curvature: float
    mean_regret: float
    sd: float
    df: int
    values: tuple[float, ...]
    problem: str = ""
    extend: str = ""

    @property
    def mean_square_regret(self) -> float:
        """E[R^2] = 3 (c v)^2."""
        return 3 * self.mean_regret**2


def fit_tuning_curve(losses: Mapping[float, Mapping[int, float]], distance_to_one: bool = False) -> TuningCurve:
    """Fits the curve and finds its minimum.

    Args:
        losses: {value: {seed: loss}}, lower is better, values above 0. An infinite loss is that of a
            run that diverged; its value is left out for all seeds.
        distance_to_one: x is -ln(1 - value) in place of ln(value).
    """
    finite = sorted(value for value, by_seed in losses.items() if by_seed and np.isfinite(list(by_seed.values())).all())
    if len(finite) < MIN_VALUES:
        lost = sorted(set(losses) - set(finite))
        side = LOWER if lost and (not finite or min(lost) > min(finite)) else BOTH
        return _unfitted(finite, f"only {len(finite)} values have finite losses, and {MIN_VALUES} are needed", side)
    coordinate = (lambda value: -math.log1p(-value)) if distance_to_one else math.log
    centre = float(np.mean([coordinate(value) for value in finite]))
    seeds = sorted({seed for value in finite for seed in losses[value]})
    rows = [(coordinate(value) - centre, seed, loss) for value in finite for seed, loss in losses[value].items()]
    x, y = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
    design = np.column_stack([*(np.array([row[1] == seed for row in rows], float) for seed in seeds), x, x**2])
    df = len(rows) - design.shape[1]
    if df < 1:
        return _unfitted(finite, f"{len(rows)} runs do not suffice for a curve with {len(seeds)} seeds", BOTH)
    solution, *_ = np.linalg.lstsq(design, y, rcond=None)
    residuals = y - design @ solution
    variance = float(residuals @ residuals) / df
    covariance = variance * np.linalg.pinv(design.T @ design)[-2:, -2:]
    b, c = map(float, solution[-2:])
    sd = math.sqrt(variance)
    if c <= MIN_CURVATURE * math.sqrt(covariance[1, 1]) or c <= 0:
        # The side to which a straight line falls, if it falls at all.
        slope = float(np.polyfit(x, y, 1)[0])
        steep = abs(slope) * np.ptp(x) > 2 * sd and abs(b) > abs(c) * np.ptp(x)
        side = (HIGHER if slope < 0 else LOWER) if steep else BOTH
        return _unfitted(finite, "the losses do not bend over these values", side, c, sd, df)
    minimum = -b / (2 * c)
    loss = float(np.mean(solution[:-2])) + b * minimum + c * minimum**2
    v = float(covariance[0, 0] + 4 * minimum * covariance[0, 1] + 4 * minimum**2 * covariance[1, 1]) / (4 * c**2)
    value = -math.expm1(-minimum - centre) if distance_to_one else math.exp(minimum + centre)
    if not finite[0] <= value <= finite[-1]:
        below = value < finite[0]
        problem = f"the minimum lies {'below' if below else 'above'} the values"
        return TuningCurve(value, loss, c, c * v, sd, df, tuple(finite), problem, LOWER if below else HIGHER)
    return TuningCurve(value, loss, c, c * v, sd, df, tuple(finite))


def _unfitted(
    values: list[float], problem: str, side: str, c: float = math.nan, sd: float = math.nan, df: int = 0
) -> TuningCurve:
    return TuningCurve(math.nan, math.nan, c, math.nan, sd, df, tuple(values), problem, side)
