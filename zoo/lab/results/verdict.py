"""From contrasts stated beforehand to a verdict.

With d = a - b of losses, where lower is better, or b - a of accuracies and other scores, where
higher is, paired by seed, and its t interval [low, high] at the level of the sweep's design, 95 %
for one look:

    superiority      holds if high < -margin,               refuted if low > -margin
    non_inferiority  holds if high < margin,                refuted if low > margin
    equivalence      holds if -margin < low, high < margin, refuted if low > margin or high < -margin

and undecided otherwise. The experiment is supported if every contrast holds, not supported if any
is refuted. That all hold by chance is less likely than that one does, which needs no correction (an
intersection-union test); that any is refuted by chance grows with their number, so refutations are
corrected by Holm's procedure.

A run that diverged, or that is done without a finite value of the metric, counts as an infinite
loss, or as a score of -infinity. Pairs with one infinite side have no place in an interval, so they
decide an order only where nothing speaks against it: all pairs are infinite on the same side, or
the remaining pairs decide by their interval and the infinite ones point the same way. A run that
failed or has not finished leaves its contrast undecided: dropping it could choose the result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from zoo.errors import did_you_mean
from zoo.lab.declarations import Contrast, Side
from zoo.lab.formatting import confidence_level, count, first_few, interval, number, rounded_mean
from zoo.lab.metrics import base_name, higher_is_better, unit_suffix
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import numerics
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import PairedDifference, holm, paired_difference

MINIMUM_PAIRS = 2


@dataclass(frozen=True)
class ContrastVerdict:
    """What one contrast came to: "holds", "refuted" or "undecided", the numbers, and why in words.

    Attributes:
        refuting: two-sided p of the refutation: at any level above it the interval would refute;
            NaN where no interval decides.
    """

    contrast: Contrast
    outcome: str
    difference: PairedDifference
    sentence: str
    refuting: float = math.nan
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Verdict:
    """`overall` is "supported", "not supported", "undecided", or "no claim" where no contrast is
    stated.
    """

    overall: str
    outcomes: list[ContrastVerdict]
    paragraph: str


def decide(rule: str, margin: float, low: float, high: float) -> str:
    """Applies a rule to the interval of a - b; infinite bounds are allowed, NaN bounds decide
    nothing.
    """
    if rule == "equivalence":
        holds, refuted = -margin < low and high < margin, low > margin or high < -margin
    else:
        bound = -margin if rule == "superiority" else margin
        holds, refuted = high < bound, low > bound
    return "holds" if holds else "refuted" if refuted else "undecided"


def refutation(rule: str, margin: float, difference: PairedDifference) -> float:
    """Two-sided p of a - b against what a rule states: `decide` refutes just where it is below the
    level of the interval.
    """
    above = difference.tail({"superiority": -margin}.get(rule, margin), above=True)
    tail = min(above, difference.tail(-margin, above=False)) if rule == "equivalence" else above
    return min(1.0, 2 * tail)


def rule_text(contrast: Contrast, unit_of: Callable[[str], str] = unit_suffix) -> str:
    """The rule as a condition on the difference a - b."""
    margin = f"{contrast.margin:g}{unit_of(contrast.a.metric)}"
    better, worse = ("above", "below") if higher_is_better(contrast.a.metric) else ("below", "above")
    return {
        "superiority": f"a {better} b by more than {margin}" if contrast.margin else f"a {better} b",
        "non_inferiority": f"a at most {margin} {worse} b",
        "equivalence": f"a within {margin} of b",
    }[contrast.rule]


def _rule_name(contrast: Contrast, unit_of: Callable[[str], str]) -> str:
    if not contrast.margin:
        return contrast.rule.replace("_", "-")
    relation = "by more than" if contrast.rule == "superiority" else "within"
    return f"{contrast.rule.replace('_', '-')} {relation} {contrast.margin:g}{unit_of(contrast.a.metric)}"


def _name(run: RunRecord) -> str:
    return f'"{run.folder.name}" ({run.state})'


def _side(sweep: SweepResults, side: Side) -> tuple[dict[int, float], list[str], dict[str, list[int]]]:
    """Values by seed (infinity included), the runs that are missing, and the seeds behind each
    infinity.
    """
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
        if value is not None and math.isfinite(value):
            values[seed] = value
            continue
        if value is None and run.state != "diverged":
            # Nothing was measured, which says nothing about the loss.
            missing.append(f'"{run.folder.name}" (has no {side.metric})')
            continue
        values[seed] = worst
        why = "diverged" if run.state == "diverged" else f"ends with a {side.metric} that is not finite"
        infinite.setdefault(why, []).append(seed)
    return values, missing, infinite


def _subjects(sweep: SweepResults, contrast: Contrast) -> tuple[str, str]:
    a, b = sweep.arm(contrast.a.arm).label, sweep.arm(contrast.b.arm).label
    if contrast.a.metric == contrast.b.metric:
        named = contrast.a.metric != sweep.metric
        return (f"{a} at {contrast.a.metric}" if named else a), b
    return f"{a} at {contrast.a.metric}", f"{b} at {contrast.b.metric}"


def _sentence(sweep: SweepResults, contrast: Contrast, difference: PairedDifference) -> str:
    a, b = _subjects(sweep, contrast)
    if difference.n == 0:
        return f"{a} against {b}: no pair of finite values"
    # Said as a distance above or below, so the interval is turned round with it.
    sign, place = (1, "above") if difference.mean >= 0 else (-1, "below")
    low, high = sorted((sign * difference.low, sign * difference.high))
    distance = rounded_mean(abs(difference.mean), low, high) + sweep.unit(contrast.a.metric)
    text = f"{a} ends {distance} {place} {b}"
    if difference.n < MINIMUM_PAIRS:
        return f"{text} ({count(difference.n, 'seed')}, so no interval)"
    return f"{text} ({confidence_level(difference.alpha)} interval {interval(low, high)}, {count(difference.n, 'seed')})"


def _unknown_metric(sweep: SweepResults, contrast: Contrast) -> str | None:
    """A misspelt metric must not read as an arm that cannot be evaluated."""
    written = sweep.metrics()
    for metric in (contrast.a.metric, contrast.b.metric):
        if metric not in written and any(run.state == "done" for run in sweep.runs):
            return f"no run has written {metric}{did_you_mean(metric, written)}"
    return None


def judge_contrast(sweep: SweepResults, contrast: Contrast) -> ContrastVerdict:
    """Judges one contrast on the runs as they are now."""
    sign = -1 if higher_is_better(contrast.a.metric) else 1
    values_a, missing_a, infinite_a = _side(sweep, contrast.a)
    values_b, missing_b, infinite_b = _side(sweep, contrast.b)
    pairs = [(values_a[seed], values_b[seed]) for seed in sweep.seeds if seed in values_a and seed in values_b]
    finite_a = {seed: value for seed, value in values_a.items() if math.isfinite(value)}
    finite_b = {seed: value for seed, value in values_b.items() if math.isfinite(value)}
    difference = paired_difference(finite_a, finite_b, sweep.alpha)
    unknown = _unknown_metric(sweep, contrast)
    notes = [
        f"{sweep.arm(side.arm).label} {why} in {len(seeds)} of {count(len(sweep.seeds), 'seed')} "
        f"(counted as {'the worst ' + base_name(side.metric) if higher_is_better(side.metric) else 'an infinite loss'})"
        for side, infinite in ((contrast.a, infinite_a), (contrast.b, infinite_b))
        for why, seeds in infinite.items()
        if not unknown
    ]
    outcome, refuting = "undecided", math.nan
    # The same run can stand on both sides (one arm at two lengths): name it once.
    missing = list(dict.fromkeys(missing_a + missing_b))
    directions = {math.copysign(1, sign * (a - b)) for a, b in pairs if math.isinf(a) != math.isinf(b)}
    low, high = sorted((sign * difference.low, sign * difference.high))
    both = sum(math.isinf(a) and math.isinf(b) for a, b in pairs)
    if unknown:
        notes.append(unknown)
    elif missing:
        notes.append(f"not finished: {first_few(missing)}")
    elif (
        len(
            kinds := {
                numerics(run.meta) for side in (contrast.a, contrast.b) for run in sweep.runs_of(side.arm) if run.meta
            }
        )
        > 1
    ):
        notes.append(
            f"its runs were computed in ways that round differently ({', '.join(sorted(kinds))}), and are not compared"
        )
    elif len(pairs) < MINIMUM_PAIRS:
        notes.append(f"{count(len(pairs), 'paired seed')}; at least {MINIMUM_PAIRS} are needed")
    elif both:
        notes.append(f"both sides are infinite in {count(both, 'seed')}, which says nothing about their order")
    elif not directions:
        outcome = decide(contrast.rule, contrast.margin, low, high)
        better = paired_difference(*((finite_a, finite_b) if sign > 0 else (finite_b, finite_a)), sweep.alpha)
        refuting = refutation(contrast.rule, contrast.margin, better)
    elif len(directions) == 2:
        notes.append("each side is infinite in some seed, so the seeds contradict each other")
    else:
        far = directions.pop() * math.inf
        outcome = decide(contrast.rule, contrast.margin, far, far)
        rest = decide(contrast.rule, contrast.margin, low, high)
        if difference.n and (difference.n < MINIMUM_PAIRS or rest != outcome):
            outcome = "undecided"
            notes.append(f"the {count(difference.n, 'finite pair')} alone would not decide the same")
    if difference.n >= MINIMUM_PAIRS and difference.sd == 0:
        notes.append("the difference is exactly the same in every seed")
    return ContrastVerdict(contrast, outcome, difference, _sentence(sweep, contrast, difference), refuting, notes)


def _without_claim(sweep: SweepResults) -> str:
    finals = []
    for arm in sweep.arms:
        values = [run.final(sweep.metric) for run in sweep.runs_of(arm.name)]
        values = [value for value in values if value is not None and math.isfinite(value)]
        if values:
            finals.append((sum(values) / len(values), len(values), arm.label))
    if not finals:
        return f"No claim is tested here, and no run has finished with a {sweep.metric} yet."
    highest = higher_is_better(sweep.metric)
    mean, n, label = max(finals) if highest else min(finals)
    seeds = f"mean of {count(n, 'seed')}" if n > 1 else "1 seed"
    end = "highest" if highest else "lowest"
    return f"No claim is tested here. The {end} final {sweep.metric} is {number(mean)}, of {label} ({seeds})."


def corrected(outcomes: list[ContrastVerdict], alpha: float) -> list[ContrastVerdict]:
    """Outcomes of which refutations that do not stand beside the others' are undecided (Holm 1979)."""
    found = []
    for outcome, p in zip(outcomes, holm([outcome.refuting for outcome in outcomes]), strict=True):
        if outcome.outcome == "refuted" and p >= alpha:
            note = (
                f"refuted on its own (p = {outcome.refuting:.2g}), but not after Holm's correction for {len(outcomes)} contrasts "
                f"(p = {p:.2g})"
            )
            outcome = replace(outcome, outcome="undecided", notes=[*outcome.notes, note])
        found.append(outcome)
    return found


def judge(sweep: SweepResults) -> Verdict:
    """Judges every contrast and the experiment as a whole."""
    if not sweep.contrasts:
        return Verdict("no claim", [], _without_claim(sweep))
    outcomes = corrected([judge_contrast(sweep, contrast) for contrast in sweep.contrasts], sweep.alpha)
    found = {outcome.outcome for outcome in outcomes}
    overall = "not supported" if "refuted" in found else "undecided" if "undecided" in found else "supported"
    words = {"holds": "holds", "refuted": "is refuted", "undecided": "is undecided"}
    parts = [
        f"{'; '.join([outcome.sentence, *outcome.notes])}: {_rule_name(outcome.contrast, sweep.unit)} {words[outcome.outcome]}"
        for outcome in outcomes
    ]
    return Verdict(overall, outcomes, f"{overall.capitalize()}: " + ". ".join(parts) + ".")
