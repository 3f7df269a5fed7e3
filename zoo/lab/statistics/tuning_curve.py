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

The regrets of an arm with several tuned numbers add up, and are independent, so with q_i = c_i v_i

    E[(R_1 + R_2 + ...)^2] = 2 sum q_i^2 + (sum q_i)^2.

Regrets of two arms are independent too, so the difference of two tuned arms has an additional mean
square error of at most the sum of both (`zoo.lab.statistics.paired` adds it to that of the seeds). It
is estimated from the variance s^2 of the runs around the curve, q ~ s^2, so that it grows as s^4. With
f degrees of freedom s^2 has the relative variance 2 / f and s^4 about 8 / f: that of a variance with
f / 4 degrees of freedom, which are what Satterthwaite's formula needs.

The runs around the curve do not show by how much the effect of a seed differs between arms, which the
pairs of a comparison contain. The estimates of the effects a_s do, each with an error of its own.
With U = s^2 W their covariance, m seeds and the mean removed, the variance of the estimates over the
seeds exceeds that of the effects by

    s^2 k,        k = tr((I - 1/m) W) / (m - 1)

(`zoo.lab.results.noise` uses both).

All this holds if the losses follow a parabola. `misfit_p` tests it: the alternative has a mean m_x of
its own for each value, y = a_s + m_x + noise, and with the residual sums of squares S_0 of the
parabola and S_1 of the means, on f_0 and f_1 degrees of freedom,

    F = ((S_0 - S_1) / (f_0 - f_1)) / (S_1 / f_1)

has the F distribution with f_0 - f_1 and f_1 degrees of freedom under the parabola.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from scipy import special

from zoo.lab.statistics.noise import Regret

# A curve needs four values: with three a parabola passes through all of them.
MIN_VALUES = 4
# The curvature has to be this many standard errors above 0; below, its minimum could be anywhere.
MIN_CURVATURE = 2.0
# Runs whose F test has a smaller p reject the parabola. With two arms, a sweep whose losses follow
# parabolas has one that is rejected in 2 % of cases.
MISFIT_LEVEL = 0.01
LOWER, HIGHER, BOTH = "lower", "higher", "both"


# Of the degrees of freedom of a variance, those of its square.
_DF_OF_SQUARE = 1 / 4


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
        effects: estimates of the effects of the seeds, {seed: a_s}; empty without degrees of freedom.
        effects_error: k, the part of the variance of `effects` that is noise of runs, in units of
            sd^2; NaN with fewer than two seeds.
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
    effects: Mapping[int, float] = field(default_factory=dict)
    effects_error: float = math.nan


def total_regret(curves: Sequence[TuningCurve], weights: Sequence[float] | None = None) -> Regret:
    """Returns the regret of an arm, that of all its tuned numbers, or of a sum of arms.

    Args:
        curves: at least one.
        weights: of their arms in the sum, above 0; None for 1.
    """
    regrets = [curve.mean_regret * weight for curve, weight in zip(curves, weights or [1] * len(curves), strict=True)]
    mean_square = 2 * sum(regret**2 for regret in regrets) + sum(regrets) ** 2
    return Regret(mean_square, _DF_OF_SQUARE * min(curve.df for curve in curves))


def curve_record(curve: TuningCurve) -> dict[str, Any]:
    """Returns a curve as experiment.json holds it: None in place of numbers that are not finite."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(curve).items()
    }


def parse_curve(entry: Any) -> TuningCurve | None:
    """Returns a curve as experiment.json holds it; None if the entry is none."""
    names = [one.name for one in fields(TuningCurve)]
    # Curves of sweeps from before effects were kept have none.
    entry = {"effects": {}, "effects_error": None} | entry if isinstance(entry, dict) else {}
    if not set(names) <= set(entry) or not isinstance(entry["effects"], dict):
        return None
    found = {name: math.nan if entry[name] is None else entry[name] for name in names}
    effects = {int(seed): effect for seed, effect in found["effects"].items()}
    return TuningCurve(**found | {"values": tuple(found["values"]), "effects": effects})


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
    values, seeds, of_seeds, y = _table(losses, finite)
    coordinate = coordinate_of(distance_to_one)
    centre = float(np.mean([coordinate(value) for value in finite]))
    x = np.array([coordinate(value) - centre for value in values])
    design = np.column_stack([of_seeds, x, x**2])
    df = len(y) - design.shape[1]
    if df < 1:
        return _unfitted(finite, f"{len(y)} runs do not suffice for a curve with {of_seeds.shape[1]} seeds", BOTH)
    solution, *_ = np.linalg.lstsq(design, y, rcond=None)
    residuals = y - design @ solution
    variance = float(residuals @ residuals) / df
    inverse = np.linalg.pinv(design.T @ design)
    covariance = variance * inverse[-2:, -2:]
    effects, of_effects = dict(zip(seeds, map(float, solution[:-2]), strict=True)), inverse[:-2, :-2]
    error = math.nan
    if len(seeds) > 1:
        error = float(np.trace(of_effects) - of_effects.mean() * len(seeds)) / (len(seeds) - 1)
    b, c = map(float, solution[-2:])
    sd = math.sqrt(variance)
    if c <= MIN_CURVATURE * math.sqrt(covariance[1, 1]) or c <= 0:
        # The side to which a straight line falls, if it falls at all.
        slope = float(np.polyfit(x, y, 1)[0])
        steep = abs(slope) * np.ptp(x) > 2 * sd and abs(b) > abs(c) * np.ptp(x)
        side = (HIGHER if slope < 0 else LOWER) if steep else BOTH
        problem = "the losses do not bend over these values"
        return replace(_unfitted(finite, problem, side, c, sd, df), effects=effects, effects_error=error)
    minimum = -b / (2 * c)
    loss = float(np.mean(solution[:-2])) + b * minimum + c * minimum**2
    v = float(covariance[0, 0] + 4 * minimum * covariance[0, 1] + 4 * minimum**2 * covariance[1, 1]) / (4 * c**2)
    value = value_at(minimum + centre, distance_to_one)
    if not finite[0] <= value <= finite[-1]:
        below = value < finite[0]
        problem = f"the minimum lies {'below' if below else 'above'} the values"
        side = LOWER if below else HIGHER
        return TuningCurve(value, loss, c, c * v, sd, df, tuple(finite), problem, side, effects, error)
    return TuningCurve(value, loss, c, c * v, sd, df, tuple(finite), "", "", effects, error)


def misfit_p(losses: Mapping[float, Mapping[int, float]], distance_to_one: bool = False) -> float:
    """Returns the p value of the parabola against means of the values, by the F test.

    Args:
        losses: {value: {seed: loss}} of the values that were fitted, all finite.
        distance_to_one: as in `fit_tuning_curve`.

    Returns:
        NaN without degrees of freedom for both, or without noise.
    """
    distinct = sorted(losses)
    values, _, of_seeds, y = _table(losses, distinct)
    coordinate = coordinate_of(distance_to_one)
    x = np.array([coordinate(value) for value in values])
    x = x - x.mean()
    of_values = np.array([[value == other for other in distinct] for value in values], float)
    (of_curve, curve_df), (of_means, means_df) = (
        _residual(np.column_stack([of_seeds, *columns]), y) for columns in ((x, x**2), (of_values,))
    )
    if means_df < 1 or curve_df <= means_df or of_means <= 1e-20 * float(y @ y):
        return math.nan
    ratio = (of_curve - of_means) / (curve_df - means_df) / (of_means / means_df)
    return float(special.fdtrc(curve_df - means_df, means_df, max(ratio, 0.0)))


def _table(
    losses: Mapping[float, Mapping[int, float]], chosen: Sequence[float]
) -> tuple[list[float], list[int], np.ndarray, np.ndarray]:
    """Returns value [R], the seeds, their indicators [R, seeds] and loss [R] of the runs."""
    rows = [(value, seed, loss) for value in chosen for seed, loss in losses[value].items()]
    seeds = sorted({seed for _, seed, _ in rows})
    indicators = np.array([[seed == other for other in seeds] for _, seed, _ in rows], float)
    return [value for value, _, _ in rows], seeds, indicators, np.array([loss for _, _, loss in rows])


def coordinate_of(distance_to_one: bool) -> Callable[[float], float]:
    """Returns the function from a value to x: ln(value), or -ln(1 - value)."""
    return (lambda value: -math.log1p(-value)) if distance_to_one else math.log


def value_at(x: float, distance_to_one: bool) -> float:
    """Returns the value with the coordinate x."""
    return -math.expm1(-x) if distance_to_one else math.exp(x)


def _residual(design: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Returns the residual sum of squares of a linear fit and its degrees of freedom."""
    solution, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    residuals = y - design @ solution
    return float(residuals @ residuals), len(y) - int(rank)


def _unfitted(
    values: list[float], problem: str, side: str, c: float = math.nan, sd: float = math.nan, df: int = 0
) -> TuningCurve:
    return TuningCurve(math.nan, math.nan, c, math.nan, sd, df, tuple(values), problem, side)
