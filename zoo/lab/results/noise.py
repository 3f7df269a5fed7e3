"""The noise of the paired differences of a contrast, as runs other than its own pairs tell it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import ConfigError
from zoo.lab.declarations import Contrast
from zoo.lab.results.schema import OF_SWEEPS
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.tuning_grid import tuning_curves
from zoo.lab.statistics.noise import Noise, Regret
from zoo.lab.statistics.tuning_curve import TuningCurve, total_regret

# Fewer other arms than this do not tell the noise of the two that are compared.
MINIMUM_OTHER_ARMS = 2


def known_noise(sweep: SweepResults, contrast: Contrast) -> Noise | None:
    """Returns the noise of a difference as other runs tell it, or None if none do.

    In this order: the tuning runs of both arms (`tuning_noise`), if they show what a seed does to one
    arm alone; earlier sweeps that were named or recorded before this one began; the other arms of the
    sweep; tuning runs that show less.
    """
    metric = contrast.a.metric
    sides = {contrast.a.arm, contrast.b.arm}
    if metric != contrast.b.metric:
        return None
    tuned = None
    if metric == sweep.metric and len(sides) == 2:
        weights = {contrast.a.arm: 1.0, contrast.b.arm: -1.0}
        tuned = tuning_noise(sweep, weights)
        if tuned is not None and shows_seeds(sweep, weights):
            return tuned
    return noise_of_others(sweep, metric, sides) or tuned


def noise_of_others(sweep: SweepResults, metric: str, without: set[str]) -> Noise | None:
    """Returns the noise of a difference as earlier sweeps tell it, or else the arms but `without`."""
    return sweep.noise[metric] if metric in sweep.noise else pooled_noise(sweep, metric, without)


def shows_seeds(sweep: SweepResults, arms: Iterable[str]) -> bool:
    """Returns whether the tuning runs of arms, which all have curves, show what a seed does to one of
    them alone.
    """
    return len(common_seeds(_last_curves(sweep, arms))) > 1


def _last_curves(sweep: SweepResults, arms: Iterable[str]) -> list[TuningCurve]:
    """Returns the curve of the last tuned number of each arm that has one."""
    return [curve for arm in arms for curve in tuning_curves(sweep.tuning, arm)[-1:]]


def common_seeds(curves: Sequence[TuningCurve]) -> list[int]:
    """Returns the seeds of whose effects all curves have an estimate."""
    return sorted(set.intersection(*(set(curve.effects) for curve in curves)))


def tuning_noise(sweep: SweepResults, weights: Mapping[str, float]) -> Noise | None:
    """Returns the noise of a sum of arms, {arm: weight}, at one seed, by their tuning runs.

    With the curves' s^2, k and effects a_s of m common seeds (`zoo.lab.statistics.tuning_curve`), the
    variance of the sum is that of its effects and that of runs around the curves:

        s_0^2 = Var_s(sum w a_s) + sum w^2 (1 - k) s^2

    The estimated effects contain sum w^2 k s^2 of the second already. Degrees of freedom follow
    Satterthwaite (1946); those of the first are m - 1. Where the arms' curves have fewer than two
    common seeds, the effects are taken to be equal in all arms, so that they cancel in a difference:
    s_0^2 = sum w^2 s^2.

    Returns:
        None if an arm has no curve, or if its runs do not vary around it.
    """
    found = _last_curves(sweep, weights)
    if len(found) < len(weights) or not all(curve.sd > 0 and curve.df > 0 for curve in found):
        return None
    return noise_of_curves(list(zip(weights.values(), found, strict=True)))


def noise_of_curves(curves: Sequence[tuple[float, TuningCurve]]) -> Noise:
    """Returns the noise of a sum of arms from their weights and curves, as `tuning_noise` does."""
    seeds = common_seeds([curve for _, curve in curves])
    if len(seeds) > 1:
        sums = [sum(weight * curve.effects[seed] for weight, curve in curves) for seed in seeds]
        parts = [(float(np.var(sums, ddof=1)), len(seeds) - 1)]
        parts += [(weight**2 * max(1 - curve.effects_error, 0) * curve.sd**2, curve.df) for weight, curve in curves]
    else:
        parts = [((weight * curve.sd) ** 2, curve.df) for weight, curve in curves]
    total = sum(part for part, _ in parts)
    df = total**2 / sum(part**2 / freedom for part, freedom in parts)
    return Noise(math.sqrt(total), df, "the tuning runs of both arms" if len(curves) == 2 else "the tuning runs")


def regrets(sweep: SweepResults, contrast: Contrast) -> list[Regret]:
    """Returns what tuning adds to the uncertainty of a difference; empty for arms without a curve.

    A rate is chosen by the sweep's metric, so the regret is known for that one alone.
    """
    if contrast.a.metric != sweep.metric or contrast.b.metric != sweep.metric or contrast.a.arm == contrast.b.arm:
        return []
    return regrets_of_sum(sweep, {contrast.a.arm: 1.0, contrast.b.arm: -1.0})


def regrets_of_sum(sweep: SweepResults, weights: Mapping[str, float]) -> list[Regret]:
    """Returns the regrets of a sum of arms, {arm: weight}: that of those that are added, and that of
    those that are subtracted. Regrets are positive, so that those of one sign add up.
    """
    found = []
    for sign in (1, -1):
        curves = {
            (arm, place): curve
            for arm, weight in weights.items()
            if sign * weight > 0
            for place, curve in enumerate(tuning_curves(sweep.tuning, arm))
            if not curve.problem
        }
        if curves:
            found.append(total_regret(list(curves.values()), [abs(weights[arm]) for arm, _ in curves]))
    return found


def pooled_noise(sweep: SweepResults, metric: str, without: set[str] = frozenset()) -> Noise | None:
    """Returns the noise of the finite final values of a sweep's arms; None if there are too few, or if
    they do not vary. Losses at which a contrast counts a run as diverged are left out.

    Args:
        sweep: its finished runs are used.
        metric: what they end with.
        without: arms that do not count; then at least two others have to be left.
    """
    by_arm: dict[str, Mapping[int, float]] = {}
    limits = [one.diverged_above for one in sweep.contrasts if metric in (one.a.metric, one.b.metric)]
    highest = min((limit for limit in limits if limit is not None), default=math.inf)
    for arm in sweep.arms:
        values = {run.seed: run.final(metric) for run in sweep.runs_of(arm.name) if run.finished}
        finite = {seed: value for seed, value in values.items() if value is not None and math.isfinite(value)}
        finite = {seed: value for seed, value in finite.items() if value <= highest}
        if arm.name not in without and len(finite) > 1:
            by_arm[arm.name] = finite
    seeds = sorted(set.intersection(*map(set, by_arm.values()))) if by_arm else []
    if len(by_arm) < MINIMUM_OTHER_ARMS or len(seeds) < 2:
        return None
    sd, df = residual_noise(np.array([[values[seed] for seed in seeds] for values in by_arm.values()]))
    if sd == 0:  # The arms do not differ, or not in the seed; that tells nothing of others.
        return None
    return Noise(sd, df, f"the {len(by_arm)} other arms of the sweep" if without else "the arms of the sweep")


def noise_of_sweeps(folders: Sequence[Path], metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns {metric: {sd, df, source}} of earlier sweeps, pooled over them.

    Raises:
        ConfigError: a folder is no sweep, or its arms have fewer than two common seeds.
    """
    try:
        sweeps = [load_sweep(folder) for folder in folders]
    except ConfigError as error:
        raise ConfigError([f"--noise-from {line}" for line in error.problems]) from error
    found = {}
    for metric in metrics:
        noise = [(folder, pooled_noise(sweep, metric)) for folder, sweep in zip(folders, sweeps, strict=True)]
        if missing := [str(folder) for folder, one in noise if one is None]:
            raise ConfigError(
                f"--noise-from {', '.join(missing)}: no two arms with two common seeds and a finite {metric}"
            )
        df = sum(one.df for _, one in noise)
        variance = sum(one.df * one.sd**2 for _, one in noise) / df
        names = ", ".join(folder.name for folder in folders)
        found[metric] = {"sd": variance**0.5, "df": df, "source": f"{OF_SWEEPS} {names}"}
    return found


def residual_noise(values: np.ndarray) -> tuple[float, int]:
    """Returns the SD of the paired difference of two arms and its degrees of freedom.

    A value is modelled as arm + seed + noise; the noise variance is the residual sum of squares over
    (a - 1) (n - 1) degrees of freedom, and a difference has twice that variance.

    Args:
        values: [arms, seeds], two of each at least.
    """
    arms, seeds = values.shape
    residual = values - values.mean(axis=1, keepdims=True) - values.mean(axis=0, keepdims=True) + values.mean()
    df = (arms - 1) * (seeds - 1)
    return math.sqrt(2 * float((residual**2).sum()) / df), df
