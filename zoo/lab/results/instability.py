"""Runs that diverged, and runs that end far from what the other runs of a sweep predict.

An arm that trains well in most seeds and badly in some has a mean that describes none of its runs, and
a standard deviation that no t interval fits. Its share of such seeds is a result of its own.

A finished run *diverged* if its training did, if its final value is not finite, or if that exceeds the
`diverged_above` of a contrast that judges its arm. A finite one *ends far off* by this rule. Let
x[a, s] be the final values of arm a and seed s, and

    r[a, s] = x[a, s] - median over s of x[a, s]
    r[a, s] = r[a, s] - median over a of r[a, s]     (from three arms on)
    scale   = median of |r| over all arms and seeds whose r is not exactly 0, divided by c

the first step of Tukey's median polish (Tukey 1977, Exploratory Data Analysis), in which one run far
off moves no other. With two arms the second line would give both runs of a pair the same residual, so
it is left out. c is the mean of the numerator for independent normal values with a standard deviation
of 1 in the same arms and seeds; for many runs it approaches 0.6745, the usual 1 / 1.4826. A run is far
off, on either side, if |r| > 6 scale. Fewer than 12 runs, or arms of fewer than three seeds, are not
judged: their scale is too uncertain. Under normal noise at most 4 % of sweeps then have a run that is
called far off by chance, and at most 1.5 % with five seeds or more; one that ends 12 standard
deviations off is found in 65 to 100 % of sweeps.
"""

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from zoo.lab.results.sweep_results import SweepResults

# In standard deviations of the noise.
FAR_OFF = 6.0
MINIMUM_RUNS, MINIMUM_SEEDS = 12, 3
ARMS_WITH_SEED_EFFECTS = 3
DRAWS = 500


@dataclass(frozen=True)
class Instability:
    """The seeds of one arm that went wrong.

    Attributes:
        finished: number of runs that say something final about the metric.
        diverged: seeds that diverged.
        far_off: seeds that end far off; None where too few runs are finished to judge it.
    """

    finished: int
    diverged: tuple[int, ...]
    far_off: tuple[int, ...] | None

    @property
    def seeds(self) -> int:
        """Number of seeds that diverged or end far off."""
        return len(self.diverged) + len(self.far_off or ())

    @property
    def reasons(self) -> str:
        """E.g. `seed 1 diverged, seed 4 far off`; empty for a stable arm."""
        found = [f"seed {seed} diverged" for seed in self.diverged]
        return ", ".join(found + [f"seed {seed} far off" for seed in self.far_off or ()])

    @property
    def text(self) -> str:
        """E.g. `2 of 6 (seed 1 diverged, seed 4 far off)`, `0 of 6`, or `–` without a finished run."""
        if not self.finished:
            return "–"
        return f"{self.seeds} of {self.finished}" + (f" ({self.reasons})" if self.seeds else "")


def instability(sweep: SweepResults, metric: str | None = None) -> dict[str, Instability]:
    """Returns the seeds that diverged or end far off, by arm.

    Args:
        sweep: whose finished runs are judged.
        metric: None for that of the sweep.
    """
    metric = metric or sweep.metric
    finite: dict[str, dict[int, float]] = {}
    diverged: dict[str, list[int]] = {}
    for arm in sweep.arms:
        limit = min(_limits(sweep, arm.name, metric), default=math.inf)
        finite[arm.name], diverged[arm.name] = {}, []
        for run in sweep.runs_of(arm.name):
            value = run.final(metric)
            if run.state == "diverged" or (value is not None and not (math.isfinite(value) and value <= limit)):
                diverged[arm.name].append(run.seed)
            elif value is not None:
                finite[arm.name][run.seed] = value
    distances = robust_distances(finite)
    return {
        arm.name: Instability(
            len(finite[arm.name]) + len(diverged[arm.name]),
            tuple(sorted(diverged[arm.name])),
            None
            if arm.name not in distances
            else tuple(seed for seed, distance in sorted(distances[arm.name].items()) if abs(distance) > FAR_OFF),
        )
        for arm in sweep.arms
    }


def instability_caveats(sweep: SweepResults) -> list[str]:
    """Returns a line for each arm of which a seed ends far off."""
    return [
        f"{sweep.arm(arm).label}: {found.text}, more than {FAR_OFF:g} standard deviations of the noise from what its "
        "arm and its seed predict: it is noisier than the other arms, or fails in some seeds"
        for arm, found in instability(sweep).items()
        if found.far_off
    ]


def robust_distances(values: dict[str, dict[int, float]]) -> dict[str, dict[int, float]]:
    """Returns how far each run ends from what its arm and its seed predict.

    Args:
        values: {arm: {seed: finite value}}.

    Returns:
        {arm: {seed: signed distance in standard deviations of the noise}}; without arms that have too
        few seeds, and empty if too few runs remain or if they do not vary.
    """
    kept = {arm: found for arm, found in values.items() if len(found) >= MINIMUM_SEEDS}
    if sum(map(len, kept.values())) < MINIMUM_RUNS:
        return {}
    seeds = sorted({seed for found in kept.values() for seed in found})
    table = np.array([[found.get(seed, math.nan) for seed in seeds] for found in kept.values()])
    residuals = _residuals(table)
    size = _typical_size(residuals)
    if not size > 0:
        return {}
    present = np.isfinite(table)
    scale = float(size) / _expected_size(present.tobytes(), present.shape)
    return {
        arm: {seed: float(value / scale) for seed, value in zip(seeds, row, strict=True) if math.isfinite(value)}
        for arm, row in zip(kept, residuals, strict=True)
    }


def _limits(sweep: SweepResults, arm: str, metric: str) -> Iterable[float]:
    for contrast in sweep.contrasts:
        if contrast.diverged_above is not None and (arm, metric) in (
            (side.arm, side.metric) for side in contrast.sides
        ):
            yield contrast.diverged_above


def _residuals(table: np.ndarray) -> np.ndarray:
    """Returns values [..., arms, seeds] without the medians of the arms and, of three arms or more, of
    the seeds. NaN is a missing run.
    """
    found = table - np.nanmedian(table, axis=-1, keepdims=True)
    if table.shape[-2] >= ARMS_WITH_SEED_EFFECTS:
        found = found - np.nanmedian(found, axis=-2, keepdims=True)
    return found


def _typical_size(residuals: np.ndarray) -> np.ndarray:
    """Returns the median of |r| over [..., arms, seeds], [...].

    The residuals of 0 that a median leaves by construction are left out; 0 if there are no others.
    """
    sizes = np.abs(residuals).reshape(*residuals.shape[:-2], -1)
    # Subtracting a median twice leaves rounding errors in place of 0.
    largest = np.nanmax(sizes, axis=-1, keepdims=True)
    sizes = np.where(sizes > 1e-9 * largest, sizes, math.nan)
    return np.nanmedian(sizes, axis=-1) if np.isfinite(sizes).any() else np.zeros(sizes.shape[:-1])


@functools.lru_cache(maxsize=64)
def _expected_size(present: bytes, shape: tuple[int, int]) -> float:
    """Returns the mean of `_typical_size` over normal values in the runs that are present."""
    mask = np.frombuffer(present, dtype=bool).reshape(shape)
    draws = np.random.default_rng(0).normal(size=(DRAWS, *shape))
    return float(_typical_size(_residuals(np.where(mask, draws, math.nan))).mean())
