"""The sweeps of one experiment at several sizes, as losses of each arm by compute."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.errors import ConfigError, listed
from zoo.lab.metrics import base_name
from zoo.lab.results.arm_effects import LOSSES, total_parameters, trained_tokens
from zoo.lab.results.corpora import source_of
from zoo.lab.results.curves import final_values
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import tuning_entries
from zoo.lab.statistics.size_token_law import SizeTokenLosses
from zoo.lab.statistics.sized_losses import SizedLosses

# Sizes whose compute and parameters differ by less are one.
LEAST_STEP = 1.5


@dataclass(frozen=True)
class SizedArm:
    """An arm at one size.

    Attributes:
        compute: training operations of a run.
        parameters, tokens: N and D of a run.
        losses: finite final losses of finished runs, {seed: loss}.
        seeds: number of seeds that were planned.
    """

    compute: float
    parameters: float
    tokens: float
    losses: dict[int, float]
    seeds: int


@dataclass(frozen=True)
class Ladder:
    """Arms at several sizes.

    Attributes:
        metric: a loss that all sweeps judge.
        unit: of the metric, with a leading space.
        sizes: folders of the sweeps, from the smallest compute of the baseline on.
        baseline: name of the arm that the others are compared with.
        arms: {name: at each of `sizes`, None where the arm has no finished run}, the baseline first.
        labels: {name: what the arm is called}.
        caveats: what else differs between the sizes, in sentences.
    """

    metric: str
    unit: str
    sizes: tuple[str, ...]
    baseline: str
    arms: dict[str, tuple[SizedArm | None, ...]]
    labels: dict[str, str]
    caveats: tuple[str, ...]

    def shared(self, arm: str) -> list[tuple[SizedArm, SizedArm]]:
        """Returns the arm and the baseline at the sizes where both have a seed in common."""
        pairs = zip(self.arms[arm], self.arms[self.baseline], strict=True)
        return [(a, b) for a, b in pairs if a and b and a.losses.keys() & b.losses.keys()]

    def of(self, arm: str) -> list[SizedArm]:
        """Returns the arm at the sizes that it has."""
        return [each for each in self.arms[arm] if each]


def sized_losses(arms: Sequence[SizedArm]) -> SizedLosses:
    """Returns the losses of an arm by compute."""
    ordered = sorted(arms, key=lambda each: each.compute)
    return SizedLosses(np.array([each.compute for each in ordered]), tuple(each.losses for each in ordered))


def size_token_losses(arms: Sequence[SizedArm]) -> SizeTokenLosses:
    """Returns the losses of an arm by parameters and tokens."""
    sizes = (np.array([getattr(each, name) for each in arms], float) for name in ("parameters", "tokens"))
    return SizeTokenLosses(*sizes, tuple(each.losses for each in arms))


def read_ladder(sweeps: Sequence[SweepResults], baseline: str | None = None) -> Ladder:
    """Collects the arms of sweeps at several sizes.

    Args:
        sweeps: of one experiment.
        baseline: what its arm is called in the first sweep; None for the first sweep's own.

    Raises:
        ConfigError: a single size, or sweeps that do not belong together.
    """
    if len(sweeps) < 2:
        raise ConfigError(
            f"{sweeps[0].folder}: one size tells nothing about others; name the folders of two sizes or more"
        )
    first = sweeps[0] if baseline is None else sweeps[0].with_baseline(baseline)
    _check_alike(sweeps)
    arms = [arm for arm in first.arms if arm.name != first.baseline_arm.name]
    names = [first.baseline_arm.name, *(arm.name for arm in arms)]
    found = [{name: _sized_arm(sweep, name) for name in names} for sweep in sweeps]
    for sweep, at_size in zip(sweeps, found, strict=True):
        if at_size[names[0]] is None:
            raise ConfigError(f"{sweep.folder}: no finished run of the baseline {first.baseline_arm.label}")
    order = sorted(range(len(sweeps)), key=lambda place: found[place][names[0]].compute)
    _check_sizes(sweeps, [at_size[names[0]] for at_size in found])
    return Ladder(
        first.metric,
        first.unit(first.metric),
        tuple(str(sweeps[place].folder) for place in order),
        names[0],
        {name: tuple(found[place][name] for place in order) for name in names},
        {arm.name: arm.label for arm in first.arms},
        tuple(_caveats(sweeps, names, found)),
    )


def _check_sizes(sweeps: Sequence[SweepResults], baselines: Sequence[SizedArm]) -> None:
    for (sweep, one), (another, other) in itertools.combinations(zip(sweeps, baselines, strict=True), 2):
        steps = one.compute / other.compute, one.parameters / other.parameters
        if all(1 / LEAST_STEP < step < LEAST_STEP for step in steps):
            raise ConfigError(
                f"{sweep.folder} and {another.folder}: the baseline has the same compute and parameters in both, "
                f"within a factor of {LEAST_STEP:g}; name one folder for each size"
            )


def _check_alike(sweeps: Sequence[SweepResults]) -> None:
    first = sweeps[0]
    if not first.metric.startswith("eval/") or base_name(first.metric) not in LOSSES:
        raise ConfigError(f"{first.folder}: {first.metric} is no loss of evaluation, and a law is one of a loss")
    for sweep in sweeps[1:]:
        if sweep.metric != first.metric:
            raise ConfigError(f"{sweep.folder} judges {sweep.metric}, and {first.folder} {first.metric}")
        if source_of(sweep) != source_of(first):
            raise ConfigError(
                f"{sweep.folder} was trained on {source_of(sweep) or 'an unknown text'}, and {first.folder} on "
                f"{source_of(first) or 'an unknown text'}"
            )
        if not {arm.name for arm in sweep.arms} & {arm.name for arm in first.arms}:
            raise ConfigError(f"{sweep.folder} has none of the arms of {first.folder}")


def _sized_arm(sweep: SweepResults, name: str) -> SizedArm | None:
    """Returns an arm of a sweep; None without a finished run."""
    if name not in {arm.name for arm in sweep.arms}:
        return None
    losses = final_values(sweep, name, sweep.metric)
    tokens, parameters = trained_tokens(sweep.runs_of(name)), total_parameters(sweep, name)
    flops = {run.meta.get("flops_per_token") for run in sweep.runs_of(name) if run.state == "done"}
    known = [each for each in flops if isinstance(each, int | float) and math.isfinite(each) and each > 0]
    if not losses:
        return None
    if not tokens or not parameters or len(flops) != 1 or not known:
        raise ConfigError(
            f"{sweep.folder}: the runs of {sweep.arm(name).label} do not agree in tokens, parameters and operations "
            "for each token, or do not record them"
        )
    return SizedArm(known[0] * tokens, parameters, tokens, dict(sorted(losses.items())), len(sweep.seeds))


def _caveats(sweeps: Sequence[SweepResults], names: Sequence[str], found: Sequence[dict[str, SizedArm | None]]):
    lengths = {
        as_dict(run.config.get("data")).get("sequence_length") for sweep in sweeps for run in sweep.runs if run.config
    }
    if len(lengths) > 1:
        shown = listed(sorted(lengths, key=str))
        yield f"rows have {shown} tokens at different sizes, and longer rows have lower losses by themselves"
    if any(tuning_entries(sweep.tuning) for sweep in sweeps):
        yield "arms were tuned, and the intervals leave out what tuning does not settle"
    for name in names:
        label = next(arm.label for sweep in sweeps for arm in sweep.arms if arm.name == name)
        missing = [str(sweep.folder) for sweep, at in zip(sweeps, found, strict=True) if at[name] is None]
        if missing:
            yield f"{label} has no finished run in {listed(missing)}"
        for sweep, at in zip(sweeps, found, strict=True):
            if (one := at[name]) and len(one.losses) < one.seeds:
                found_seeds = f"{label} has {len(one.losses)} of {one.seeds} seeds in {sweep.folder}"
                yield f"{found_seeds}; diverged runs do not count"
