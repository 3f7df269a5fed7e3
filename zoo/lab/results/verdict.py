"""Judges the contrasts of an experiment, which were stated before any run.

Let d = a - b for losses (lower is better), or b - a for accuracies and other scores (higher is
better), paired by seed, and [low, high] its t interval at the level of the sweep's design (95 %
for a single look). Then

    superiority     holds if high < -margin,               refuted if low > -margin
    non_inferiority holds if high < margin,                refuted if low > margin
    equivalence     holds if -margin < low, high < margin, refuted if low > margin or high < -margin

and undecided otherwise. An experiment is supported if every contrast holds, and not supported if
one is refuted. All contrasts hold by chance less often than a single one, so this needs no
correction (an intersection-union test). The probability that one is refuted by chance grows with
their number, so refutations are corrected by Holm's procedure.

A run that diverged, that is done without a finite value of the metric, or that ends above the
contrast's `diverged_above`, counts as an infinite loss, or as a score of -infinity. An interval
cannot contain such pairs. They decide an order only if nothing contradicts them: either all pairs
are infinite on the same side, or the finite pairs decide by their interval and the infinite ones
point the same way. A run that failed or has not finished leaves its contrast undecided: leaving
it out could select the result.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from zoo.errors import did_you_mean, listed
from zoo.lab.declarations import Contrast, Side
from zoo.lab.formatting import confidence_level, count, interval, number, rounded_mean
from zoo.lab.metrics import base_name, higher_is_better, unit_suffix
from zoo.lab.planning.evaluations import why_not_ranked
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import numerics
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import PairedDifference, holm, paired_difference

MINIMUM_PAIRS = 2


@dataclass(frozen=True)
class ContrastVerdict:
    """The outcome of one contrast.

    Attributes:
        outcome: "holds", "refuted" or "undecided".
        difference: a - b over the finite pairs.
        sentence: the difference in words.
        refutation_p: two-sided p of the refutation: at any higher level the interval would refute;
            NaN if no interval decides.
        notes: reasons for the outcome other than the interval.
    """

    contrast: Contrast
    outcome: str
    difference: PairedDifference
    sentence: str
    refutation_p: float = math.nan
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """The verdict on an experiment.

    Attributes:
        overall: "supported", "not supported", "undecided", or "no claim" without contrasts.
        outcomes: one for each contrast.
        paragraph: all of it in words.
    """

    overall: str
    outcomes: list[ContrastVerdict]
    paragraph: str


def decide(rule: str, margin: float, low: float, high: float) -> str:
    """Applies a rule to the interval of d; infinite bounds are allowed, NaN decides nothing."""
    if rule == "equivalence":
        holds, refuted = -margin < low and high < margin, low > margin or high < -margin
    else:
        bound = -margin if rule == "superiority" else margin
        holds, refuted = high < bound, low > bound
    return "holds" if holds else "refuted" if refuted else "undecided"


def refutation_p(rule: str, margin: float, difference: PairedDifference) -> float:
    """Returns the two-sided p of d against a rule; `decide` refutes at every level above it."""
    above = difference.tail({"superiority": -margin}.get(rule, margin), above=True)
    tail = min(above, difference.tail(-margin, above=False)) if rule == "equivalence" else above
    return min(1.0, 2 * tail)


def rule_text(contrast: Contrast, unit_of: Callable[[str], str] = unit_suffix) -> str:
    """Returns the rule as a condition on a and b."""
    margin = f"{contrast.margin:g}{unit_of(contrast.a.metric)}"
    better, worse = ("above", "below") if higher_is_better(contrast.a.metric) else ("below", "above")
    return {
        "superiority": f"a {better} b by more than {margin}" if contrast.margin else f"a {better} b",
        "non_inferiority": f"a at most {margin} {worse} b",
        "equivalence": f"a within {margin} of b",
    }[contrast.rule]


def judge(sweep: SweepResults) -> Verdict:
    """Judges every contrast and the experiment as a whole, on the runs as they are now."""
    if not sweep.contrasts:
        return Verdict("no claim", [], _without_claim(sweep))
    outcomes = correct_refutations([judge_contrast(sweep, contrast) for contrast in sweep.contrasts], sweep.alpha)
    overall = overall_verdict({outcome.outcome for outcome in outcomes})
    parts = [outcome_text(outcome, sweep.unit) for outcome in outcomes]
    return Verdict(overall, outcomes, f"{overall.capitalize()}: " + ". ".join(parts) + ".")


def overall_verdict(outcomes: Collection[str]) -> str:
    """Returns the verdict on contrasts with these outcomes, of which there is at least one."""
    return "not supported" if "refuted" in outcomes else "undecided" if "undecided" in outcomes else "supported"


def outcome_text(outcome: ContrastVerdict, unit_of: Callable[[str], str] = unit_suffix) -> str:
    """Returns the difference, the notes, and what became of the rule, as a sentence without a stop."""
    words = {"holds": "holds", "refuted": "is refuted", "undecided": "is undecided"}
    text = "; ".join([outcome.sentence, *outcome.notes])
    return f"{text}: {_rule_name(outcome.contrast, unit_of)} {words[outcome.outcome]}"


def correct_refutations(outcomes: list[ContrastVerdict], alpha: float) -> list[ContrastVerdict]:
    """Changes "refuted" to "undecided" where it does not survive Holm's correction (Holm 1979)."""
    found = []
    for outcome, p in zip(outcomes, holm([outcome.refutation_p for outcome in outcomes]), strict=True):
        if outcome.outcome == "refuted" and p >= alpha:
            note = (
                f"refuted on its own (p = {outcome.refutation_p:.2g}), but not after Holm's correction for "
                f"{len(outcomes)} contrasts (p = {p:.2g})"
            )
            outcome = replace(outcome, outcome="undecided", notes=[*outcome.notes, note])
        found.append(outcome)
    return found


def judge_contrast(sweep: SweepResults, contrast: Contrast) -> ContrastVerdict:
    """Judges one contrast on the runs as they are now."""
    a, b = (_read_side(sweep, side, contrast.diverged_above) for side in (contrast.a, contrast.b))
    difference = paired_difference(a.finite, b.finite, sweep.alpha)
    sentence = _sentence(sweep, contrast, difference)
    unknown = _unknown_metric(sweep, contrast)
    notes = [
        f"{sweep.arm(side.arm).label} {why} in {len(seeds)} of {count(len(sweep.seeds), 'seed')} "
        f"(counted as {'the worst ' + base_name(side.metric) if higher_is_better(side.metric) else 'an infinite loss'})"
        for side, values in ((contrast.a, a), (contrast.b, b))
        for why, seeds in values.infinite.items()
        if not unknown
    ]
    outcome, refuting = "undecided", math.nan
    if reason := unknown or _why_incomparable(sweep, contrast, a, b):
        notes.append(reason)
    else:
        outcome, refuting, reasons = _decide_pairs(sweep, contrast, a, b, difference)
        notes += reasons
    if difference.n >= MINIMUM_PAIRS and difference.sd == 0:
        notes.append("the difference is exactly the same in every seed")
    return ContrastVerdict(contrast, outcome, difference, sentence, refuting, notes)


@dataclass(frozen=True)
class _SideValues:
    """The final values of one side of a contrast.

    Attributes:
        values: by seed; infinite for runs that diverged or ended without a finite value.
        missing: descriptions of the runs without a value.
        infinite: {reason: seeds} of the infinite values.
    """

    values: dict[int, float]
    missing: list[str]
    infinite: dict[str, list[int]]

    @property
    def finite(self) -> dict[int, float]:
        return {seed: value for seed, value in self.values.items() if math.isfinite(value)}


def _read_side(sweep: SweepResults, side: Side, limit: float | None) -> _SideValues:
    worst = -math.inf if higher_is_better(side.metric) else math.inf
    values: dict[int, float] = {}
    missing: list[str] = []
    infinite: dict[str, list[int]] = {}
    for seed in sweep.seeds:
        run = sweep.run(side.arm, seed)
        if run is None or not run.finished:
            missing.append(_name(run) if run else f"{sweep.arm(side.arm).label}, seed {seed} (not planned)")
            continue
        value = run.final(side.metric)
        too_high = value is not None and limit is not None and value > limit
        if value is not None and math.isfinite(value) and not too_high:
            values[seed] = value
            continue
        if value is None and run.state != "diverged":
            # The metric was not evaluated, which says nothing about its value.
            missing.append(f'"{run.folder.name}" (has no {side.metric})')
            continue
        values[seed] = worst
        why = f"ends with {base_name(side.metric)} above {limit:g}" if too_high else "diverged"
        if run.state != "diverged" and not too_high:
            why = f"ends with a {side.metric} that is not finite"
        infinite.setdefault(why, []).append(seed)
    return _SideValues(values, missing, infinite)


def _name(run: RunRecord) -> str:
    return f'"{run.folder.name}" ({run.state})'


def _unknown_metric(sweep: SweepResults, contrast: Contrast) -> str | None:
    """Returns what is wrong with a metric that no run has written.

    Without it a misspelt metric would look like an arm that cannot be evaluated.
    """
    written = sweep.metrics()
    for metric in (contrast.a.metric, contrast.b.metric):
        if metric not in written and any(run.state == "done" for run in sweep.runs):
            return f"no run has written {metric}{did_you_mean(metric, written)}"
    return None


def _why_incomparable(sweep: SweepResults, contrast: Contrast, a: _SideValues, b: _SideValues) -> str | None:
    """Returns why the values of two sides cannot be compared, or None if they can."""
    # The same run can be on both sides, for example one arm at two lengths.
    if missing := list(dict.fromkeys(a.missing + b.missing)):
        return f"not finished: {listed(missing, 6)}"
    runs = [run for side in (contrast.a, contrast.b) for run in sweep.runs_of(side.arm)]
    if len(kinds := {numerics(run.meta) for run in runs if run.meta}) > 1:
        return (
            f"its runs were computed by different executors ({', '.join(sorted(kinds))}), so their results are not "
            "bit-comparable"
        )
    both = a.values.keys() & b.values.keys()
    if len(both) < MINIMUM_PAIRS:
        return f"{count(len(both), 'paired seed')}; at least {MINIMUM_PAIRS} are needed"
    if both_infinite := sum(math.isinf(a.values[seed]) and math.isinf(b.values[seed]) for seed in both):
        return f"both sides are infinite in {count(both_infinite, 'seed')}, which says nothing about their order"
    return None


def _decide_pairs(
    sweep: SweepResults, contrast: Contrast, a: _SideValues, b: _SideValues, difference: PairedDifference
) -> tuple[str, float, list[str]]:
    """Returns the outcome, the p of its refutation, and notes."""
    sign = -1 if higher_is_better(contrast.a.metric) else 1
    low, high = sorted((sign * difference.low, sign * difference.high))
    pairs = [(a.values[seed], b.values[seed]) for seed in sweep.seeds if seed in a.values and seed in b.values]
    directions = {math.copysign(1, sign * (x - y)) for x, y in pairs if math.isinf(x) != math.isinf(y)}
    if not directions:
        first, second = (a, b) if sign > 0 else (b, a)
        d = paired_difference(first.finite, second.finite, sweep.alpha)
        p = refutation_p(contrast.rule, contrast.margin, d)
        return decide(contrast.rule, contrast.margin, low, high), p, []
    if len(directions) == 2:
        return "undecided", math.nan, ["each side is infinite in some seed, so the seeds contradict each other"]
    far = directions.pop() * math.inf
    outcome = decide(contrast.rule, contrast.margin, far, far)
    finite_outcome = decide(contrast.rule, contrast.margin, low, high)
    if difference.n and (difference.n < MINIMUM_PAIRS or finite_outcome != outcome):
        reason = f"the {count(difference.n, 'finite pair')} alone would not lead to the same outcome"
        return "undecided", math.nan, [reason]
    return outcome, math.nan, []


def _sentence(sweep: SweepResults, contrast: Contrast, difference: PairedDifference) -> str:
    a, b = _subjects(sweep, contrast)
    if difference.n == 0:
        return f"{a} against {b}: no pair of finite values"
    # The distance is positive, above or below, and the interval has the same sign.
    sign, place = (1, "above") if difference.mean >= 0 else (-1, "below")
    low, high = sorted((sign * difference.low, sign * difference.high))
    distance = rounded_mean(abs(difference.mean), low, high) + sweep.unit(contrast.a.metric)
    text = f"{a} ends {distance} {place} {b}"
    if difference.n < MINIMUM_PAIRS:
        return f"{text} ({count(difference.n, 'seed')}, so no interval)"
    level, seeds = confidence_level(difference.alpha), count(difference.n, "seed")
    return f"{text} ({level} interval {interval(low, high)}, {seeds})"


def _subjects(sweep: SweepResults, contrast: Contrast) -> tuple[str, str]:
    a, b = sweep.arm(contrast.a.arm).label, sweep.arm(contrast.b.arm).label
    if contrast.a.metric == contrast.b.metric:
        named = contrast.a.metric != sweep.metric
        return (f"{a} at {contrast.a.metric}" if named else a), b
    return f"{a} at {contrast.a.metric}", f"{b} at {contrast.b.metric}"


def _rule_name(contrast: Contrast, unit_of: Callable[[str], str]) -> str:
    if not contrast.margin:
        return contrast.rule.replace("_", "-")
    relation = "by more than" if contrast.rule == "superiority" else "within"
    return f"{contrast.rule.replace('_', '-')} {relation} {contrast.margin:g}{unit_of(contrast.a.metric)}"


def _without_claim(sweep: SweepResults) -> str:
    finals = []
    for arm in sweep.arms:
        values = [run.final(sweep.metric) for run in sweep.runs_of(arm.name)]
        values = [value for value in values if value is not None and math.isfinite(value)]
        if values:
            finals.append((sum(values) / len(values), len(values), arm.label))
    if not finals:
        return f"No claim is tested here, and no run has finished with a {sweep.metric} yet."
    if reasons := why_not_ranked(sweep.warnings, sweep.metric):
        return f"No claim is tested here, and the arms are not ranked by {sweep.metric}: they {' and '.join(reasons)}."
    highest = higher_is_better(sweep.metric)
    mean, n, label = max(finals) if highest else min(finals)
    seeds = f"mean of {count(n, 'seed')}" if n > 1 else "1 seed"
    end = "highest" if highest else "lowest"
    return f"No claim is tested here. The {end} final {sweep.metric} is {number(mean)}, reached by {label} ({seeds})."
