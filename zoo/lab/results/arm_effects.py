"""The effect of each arm in other units than the metric's: tokens, steps, and shares of a gap.

`zoo.lab.results.effect_units` derives the numbers. This module finds the baseline's learning curve in
the runs of a sweep: final losses at several token budgets if the sweep has them, otherwise the losses
within the baseline's own runs.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zoo.config import NOT_RESULT_RELEVANT
from zoo.config.kinds.schedule_kinds import KIND, SCHEDULE_KINDS
from zoo.lab.declarations import Contrast
from zoo.lab.metrics import base_name, higher_is_better
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.curves import final_values
from zoo.lab.results.effect_units import (
    BUDGETS,
    DECAYING,
    FIRST_SHARE,
    HORIZON_FREE,
    MINIMUM_BUDGETS,
    MINIMUM_EVALUATIONS,
    GapShare,
    LearningCurve,
    TokenFactor,
    gap_share,
    token_factor,
)
from zoo.lab.results.run_records import RunRecord, differing_keys
from zoo.lab.results.steps_to_loss import first_step
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import tuning_entries
from zoo.lab.statistics.paired import PairedDifference
from zoo.nested import flatten

# Metrics whose curves are power laws.
LOSSES = ("loss", "bits_per_byte")
# A run with other tokens may differ in these and is still the baseline, trained for longer or shorter.
BUDGET_FIELDS = ("training.steps", "schedule.warmup_steps", *NOT_RESULT_RELEVANT)


@dataclass(frozen=True)
class StepsToLoss:
    """Updates until an arm reaches the loss at which the baseline ends, paired by seed.

    Attributes:
        steps: of the seeds that reach it.
        pairs: number of seeds of both arms.
        baseline: updates of the baseline's runs.
    """

    steps: tuple[float, ...]
    pairs: int
    baseline: int

    @property
    def mean(self) -> float | None:
        """The mean over seeds; None unless all of them reach the loss."""
        return statistics.fmean(self.steps) if len(self.steps) == self.pairs else None

    @property
    def text(self) -> str:
        """E.g. `410 of 500`, or `not reached` with the number of seeds where it is not all."""
        if self.mean is not None:
            return f"{self.mean:,.0f} of {self.baseline:,}"
        missing = self.pairs - len(self.steps)
        return "not reached" if missing == self.pairs else f"not reached in {missing} of {self.pairs}"


@dataclass(frozen=True)
class ArmEffect:
    """The difference of an arm from a baseline in other units.

    Attributes:
        tokens: None if the metric or the baseline has no curve.
        steps: None without a pair that has the metric's curve.
        gaps: {name of a floor of the baseline: share of the gap}.
    """

    tokens: TokenFactor | None
    steps: StepsToLoss | None
    gaps: dict[str, GapShare]


def tokens_per_parameter(sweep: SweepResults, arm: str) -> float | None:
    """Returns the training tokens of an arm's finished runs by its parameters, embedding included.

    None if either is unknown, or if the runs differ in their tokens.
    """
    total, tokens = total_parameters(sweep, arm), trained_tokens(sweep.runs_of(arm))
    return tokens / total if tokens and total else None


def total_parameters(sweep: SweepResults, arm: str, name: str = "total") -> int | float | None:
    """Returns the number of parameters of an arm, as planned or as its runs have written it.

    Args:
        sweep: the sweep.
        arm: name of the arm.
        name: which parameters: "total", or "active" in a model with experts.
    """
    known = [sweep.arm(arm).parameters, *(run.meta.get("parameters") for run in sweep.runs_of(arm))]
    totals = (found.get(name) for found in known if isinstance(found, dict))
    return next((total for total in totals if isinstance(total, int | float)), None)


def trained_tokens(runs: Sequence[RunRecord]) -> float | None:
    """Returns the training tokens of the finished runs of an arm; None unless all have the same."""
    found = {
        next((row["tokens"] for row in reversed(run.rows) if row.get("tokens", 0) > 0), None)
        for run in runs
        if run.state == "done"
    }
    return found.pop() if len(found) == 1 else None


def baseline_effects(sweep: SweepResults) -> dict[str, ArmEffect]:
    """Returns the effect of every arm but the baseline."""
    baseline = sweep.baseline_arm.name
    curve = baseline_curve(sweep, baseline, sweep.metric)
    return {
        arm: arm_effect(sweep, arm, baseline, sweep.metric, difference, curve)
        for arm, difference in baseline_differences(sweep).items()
    }


def contrast_effect(sweep: SweepResults, contrast: Contrast, difference: PairedDifference) -> ArmEffect | None:
    """Returns the effect of side a of a contrast on side b; None unless both have one metric."""
    a, b = contrast.a, contrast.b
    if a.metric != b.metric or a.arm == b.arm:
        return None
    return arm_effect(sweep, a.arm, b.arm, a.metric, difference, baseline_curve(sweep, b.arm, b.metric))


def arm_effect(
    sweep: SweepResults, arm: str, baseline: str, metric: str, difference: PairedDifference, curve: LearningCurve | None
) -> ArmEffect:
    """Returns the effect of one arm on a baseline.

    Args:
        sweep: with both arms.
        arm: whose difference from the baseline it is.
        baseline: side b of a contrast, or the sweep's baseline.
        metric: of both.
        difference: arm minus baseline.
        curve: `baseline_curve` of the baseline.
    """
    if not difference.n:
        return ArmEffect(None, None, {})
    bounds = (difference.mean, difference.low, difference.high)
    finals = list(final_values(sweep, baseline, metric).values())
    shares = {
        name: gap_share(bounds, finals, floor, higher_is_better(metric), difference.alpha)
        for name, floor in sweep.floor_scores(baseline, metric).items()
    }
    return ArmEffect(
        token_factor(curve, bounds, difference.alpha, trained_tokens(sweep.runs_of(arm))) if curve else None,
        steps_to_loss(sweep, arm, baseline, metric) if curve else None,
        {name: share for name, share in shares.items() if share},
    )


def hardest_gap(gaps: Mapping[str, GapShare], metric: str) -> tuple[str, GapShare] | None:
    """Returns the name and the share of the floor with the best score; None without floors."""
    best = max if higher_is_better(metric) else min
    return best(gaps.items(), key=lambda item: item[1].floor, default=None)


def steps_to_loss(sweep: SweepResults, arm: str, baseline: str, metric: str) -> StepsToLoss | None:
    """Returns the updates after which the runs of an arm reach the final loss of the baseline."""
    targets = final_values(sweep, baseline, metric)
    runs = [run for run in sweep.runs_of(arm) if run.state == "done" and run.seed in targets]
    found = [(run, series) for run in runs if len((series := run.series(metric)).step) >= MINIMUM_EVALUATIONS]
    if not found:
        return None
    reached = [first_step(series, targets[run.seed]) for run, series in found]
    longest = max(run.step for run in sweep.runs_of(baseline) if run.seed in targets)
    return StepsToLoss(tuple(step for step in reached if step is not None), len(reached), longest)


def baseline_curve(sweep: SweepResults, arm: str, metric: str) -> LearningCurve | None:
    """Returns the learning curve of an arm in a loss; None if its runs have none.

    Finished runs of the same arm with other numbers of updates are preferred: other arms of the sweep
    whose configs differ in nothing else.
    """
    if not metric.startswith("eval/") or base_name(metric) not in LOSSES:
        return None
    runs = [run for run in sweep.runs_of(arm) if run.state == "done"]
    budget = trained_tokens(runs)
    if not budget:
        return None
    return _curve_of_budgets(sweep, runs, metric, budget) or _curve_within(runs, metric, budget)


def _curve_of_budgets(sweep: SweepResults, runs: list[RunRecord], metric: str, budget: float) -> LearningCurve | None:
    """Returns the final losses of the baseline at each budget, for the seeds that all of them have."""
    finals: dict[float, dict[int, float]] = {}
    # A baseline that is tuned at each budget is still the baseline.
    allowed = {*BUDGET_FIELDS, *(entry.get("field") for entry in tuning_entries(sweep.tuning))}
    for arm in sweep.arms:
        others = [run for run in sweep.runs_of(arm.name) if run.state == "done" and run.config]
        keys = differing_keys([*runs, *others]) if others and runs[0].config else ["unknown"]
        tokens = trained_tokens(others)
        if tokens and not set(keys) - allowed:
            finals.setdefault(tokens, final_values(sweep, arm.name, metric))
    finals[budget] = {run.seed: value for run in runs if (value := run.final(metric)) is not None}
    seeds = set.intersection(*(set(found) for found in finals.values()))
    if len(finals) < MINIMUM_BUDGETS or not seeds:
        return None
    tokens = sorted(finals)
    losses = np.array([[finals[each][seed] for each in tokens] for seed in sorted(seeds)])
    return LearningCurve(np.array(tokens), losses, budget, BUDGETS)


def _curve_within(runs: list[RunRecord], metric: str, budget: float) -> LearningCurve | None:
    """Returns the losses within the runs, over their last tenfold of tokens."""
    tables = []
    for run in runs:
        series = run.series(metric)
        kept = np.isfinite(series.value) & (series.tokens >= FIRST_SHARE * budget * (1 - 1e-9))
        tables.append(dict(zip(series.tokens[kept], series.value[kept], strict=True)))
    tokens = sorted(set.intersection(*map(set, tables)))
    if len(tokens) < MINIMUM_EVALUATIONS or tokens[-1] < budget * (1 - 1e-9):
        return None
    kinds = {flatten(run.config).get(KIND) for run in runs}
    free = kinds <= set(SCHEDULE_KINDS.having("horizon_free"))
    losses = np.array([[table[each] for each in tokens] for table in tables])
    return LearningCurve(np.array(tokens), losses, budget, HORIZON_FREE if free else DECAYING)
