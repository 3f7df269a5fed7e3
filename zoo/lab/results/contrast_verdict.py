"""Judges one contrast of an experiment.

The interval is that of `zoo.lab.statistics.paired`: that of the pairs, with the uncertainty of tuning,
and not narrower than other runs say the noise is; `zoo.lab.results.decision_rules` decides by it.

A contrast is "not tuned" where its arms were to be tuned and an arm's optimum is not known, and "not
testable" where its runs cannot answer it (`zoo.lab.results.testability`).

A run that diverged, that is done without a finite value of the metric, or that ends above the
contrast's `diverged_above`, counts as an infinite loss, or as a score of -infinity. An interval
cannot contain such pairs. They decide an order only if nothing contradicts them: either all pairs
are infinite on the same side, or the finite pairs decide by their interval and the infinite ones
point the same way; the p value of a refutation is then that of the finite pairs. A run that failed or
has not finished leaves its contrast undecided: leaving it out could select the result.

Differences that are the same in every seed decide nothing where neither other runs nor tuning tell
how much they vary, unless losses are equal (`zoo.lab.statistics.paired`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from zoo.errors import did_you_mean, listed
from zoo.lab.declarations import Contrast, Side
from zoo.lab.formatting import confidence_level, count, interval, rounded_mean
from zoo.lab.metrics import base_name, equal_by_chance, higher_is_better, unit_suffix
from zoo.lab.planning.evaluations import why_not_ranked
from zoo.lab.results.decision_rules import decide, refutation_p, rule_name
from zoo.lab.results.noise import known_noise, regrets
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import mix_kernels, numerics
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.testability import Reason, why_floor_is_open, why_not_testable
from zoo.lab.results.tuning_grid import why_not_tuned
from zoo.lab.statistics.paired import UNKNOWN_NOISE, PairedDifference, paired_difference

MINIMUM_PAIRS = 2
# With two seeds, equal arms whose runs diverge half of the time would be told apart in 1 of 8 sweeps,
# with three in 1 of 32.
MINIMUM_INFINITE_PAIRS = 3
_EQUAL_PAIRS_NOTE = "the difference is exactly the same in every seed"
_MAY_BE_CHANCE = "and no other runs tell how much such differences vary, so that chance may have made them equal"
_UNKNOWN_NOISE_NOTE = (
    "no other runs tell the noise of such differences, and pairs alone cannot show that it is skewed, so a decision "
    f"needs a level {UNKNOWN_NOISE} times smaller"
)


@dataclass(frozen=True)
class ContrastVerdict:
    """The outcome of one contrast.

    Attributes:
        outcome: "holds", "refuted", "undecided", "not tuned" or "not testable".
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


def judge_contrast(sweep: SweepResults, contrast: Contrast) -> ContrastVerdict:
    """Judges one contrast on the runs as they are now."""
    a, b = (_read_side(sweep, side, contrast.diverged_above) for side in contrast.sides)
    noise, alpha = known_noise(sweep, contrast), contrast_level(sweep, contrast)
    if noise is None:
        alpha /= UNKNOWN_NOISE
    by_chance = equal_by_chance(contrast.a.metric)
    difference = paired_difference(a.finite, b.finite, alpha, noise, regrets(sweep, contrast), by_chance)
    sentence = difference_sentence(sweep, contrast, difference)
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
    elif reason := why_not_testable(sweep, contrast):
        notes, outcome = [*notes, str(reason)], "not testable"
    else:
        outcome, refuting, reasons = _decide_pairs(sweep, contrast, a, b, difference)
        notes += reasons
        if noise is None and difference.errors:
            refuting = min(1.0, refuting * UNKNOWN_NOISE)
            if outcome == "undecided":
                notes.append(_UNKNOWN_NOISE_NOTE + _what_would_tell(sweep, contrast))
        if outcome != "undecided" and (reason := why_floor_is_open(sweep, contrast)):
            notes, outcome, refuting = [*notes, str(reason)], "undecided", math.nan
        untuned = {side.arm: why_not_tuned(sweep.tuning, side.arm) for side in contrast.sides}
        if any(untuned.values()):
            lines = [f"{sweep.arm(arm).label} is not tuned ({why})" for arm, why in untuned.items() if why]
            notes, outcome, refuting = [*notes, "; ".join(lines)], "not tuned", math.nan
    if difference.n >= MINIMUM_PAIRS and difference.sd == 0:
        unknown_width = why_no_interval(difference) if outcome == "undecided" else ""
        notes.append(unknown_width + _what_would_tell(sweep, contrast) if unknown_width else _EQUAL_PAIRS_NOTE)
    return ContrastVerdict(contrast, outcome, difference, sentence, refuting, notes)


def why_no_interval(difference: PairedDifference) -> str:
    """Returns why pairs have no interval, in words; empty if they have one."""
    if difference.n < MINIMUM_PAIRS or not math.isnan(difference.low):
        return ""
    return f"{_EQUAL_PAIRS_NOTE}, {_MAY_BE_CHANCE}"


def _what_would_tell(sweep: SweepResults, contrast: Contrast) -> str:
    """Returns what would tell the noise of a contrast (`known_noise`); empty if nothing does."""
    if contrast.a.metric != contrast.b.metric:
        return ""
    tunable = contrast.a.metric == sweep.metric and contrast.a.arm != contrast.b.arm
    return f"; {'tune the arms, or ' if tunable else ''}name earlier sweeps with --noise-from"


def contrast_level(sweep: SweepResults, contrast: Contrast) -> float:
    """Returns the two-sided level of a contrast's interval, apart from what is known of its noise."""
    return sweep.alpha * (2 if contrast.rule in ("non_inferiority", "equivalence") else 1)


def why_not_comparable(sweep: SweepResults, contrast: Contrast) -> Reason | None:
    """Returns why the difference of two arms answers no question about them; None if it can.

    Reasons: they are scored differently, runs are missing, no interval can contain the values, or no
    rule about them is testable.
    """
    if contrast.a.metric == sweep.metric and (reasons := why_not_ranked(sweep.warnings, sweep.metric)):
        return Reason(f"the arms {' and '.join(reasons)}")
    a, b = (_read_side(sweep, side, contrast.diverged_above) for side in contrast.sides)
    if reason := _unknown_metric(sweep, contrast) or _why_incomparable(sweep, contrast, a, b):
        return Reason(reason)
    infinite = [
        f"{sweep.arm(side.arm).label} {why} in {count(len(seeds), 'seed')}"
        for side, values in ((contrast.a, a), (contrast.b, b))
        for why, seeds in values.infinite.items()
    ]
    untuned = [
        f"{sweep.arm(arm).label} is not tuned ({why})"
        for arm in (contrast.a.arm, contrast.b.arm)
        if (why := why_not_tuned(sweep.tuning, arm))
    ]
    if reasons := [*infinite, *untuned]:
        return Reason("; ".join(reasons))
    return why_not_testable(sweep, contrast)


def outcome_text(outcome: ContrastVerdict, unit_of: Callable[[str], str] = unit_suffix) -> str:
    """Returns the difference, the notes, and what became of the rule, as a sentence without a stop."""
    words = {"holds": "holds", "refuted": "is refuted"}
    text = "; ".join([outcome.sentence, *outcome.notes])
    return f"{text}: {rule_name(outcome.contrast, unit_of)} {words.get(outcome.outcome, f'is {outcome.outcome}')}"


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
    runs = [run for side in contrast.sides for run in sweep.runs_of(side.arm)]
    if len(kinds := {numerics(run.meta) for run in runs if run.meta}) > 1:
        return (
            f"its runs were computed by different executors ({', '.join(sorted(kinds))}), so their results are not "
            "bit-comparable"
        )
    if mix_kernels(run.meta for run in runs):
        return "its runs are of versions of zoo that chose different kernels of attention"
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
    p = math.nan
    if difference.n >= MINIMUM_PAIRS:
        p = refutation_p(contrast.rule, contrast.margin, difference if sign > 0 else difference.reversed())
    if not directions:
        return decide(contrast.rule, contrast.margin, low, high), p, []
    if len(directions) == 2:
        return "undecided", math.nan, ["each side is infinite in some seed, so the seeds contradict each other"]
    far = directions.pop() * math.inf
    if len(pairs) < MINIMUM_INFINITE_PAIRS:
        return "undecided", math.nan, [f"a decision by diverged runs needs {MINIMUM_INFINITE_PAIRS} seeds"]
    outcome = decide(contrast.rule, contrast.margin, far, far)
    finite_outcome = decide(contrast.rule, contrast.margin, low, high)
    if difference.n and (difference.n < MINIMUM_PAIRS or finite_outcome != outcome):
        reason = f"the {count(difference.n, 'finite pair')} alone would not lead to the same outcome"
        return "undecided", math.nan, [reason]
    return outcome, p, []


def difference_sentence(sweep: SweepResults, contrast: Contrast, difference: PairedDifference) -> str:
    """Returns a difference with its interval in words, without a stop."""
    a, b = _subjects(sweep, contrast)
    if difference.n == 0:
        return f"{a} against {b}: no pair of finite values"
    # The words say the direction of the mean; the interval has the sign of a - b, as in all tables.
    place = "higher" if difference.mean > 0 else "lower"
    distance = rounded_mean(abs(difference.mean), difference.low, difference.high) + sweep.unit(contrast.a.metric)
    text = f"{a} ends {distance} {place} than {b}" if difference.mean else f"{a} ends where {b} does"
    if difference.n < MINIMUM_PAIRS:
        return f"{text} ({count(difference.n, 'pair')}, so no interval)"
    if math.isnan(difference.low):
        return f"{text} (in each of {count(difference.n, 'pair')}, so no interval)"
    level, pairs = confidence_level(difference.alpha), count(difference.n, "pair")
    return f"{text} ({level} interval of the difference {interval(difference.low, difference.high)}, {pairs})"


def _subjects(sweep: SweepResults, contrast: Contrast) -> tuple[str, str]:
    a, b = sweep.arm(contrast.a.arm).label, sweep.arm(contrast.b.arm).label
    if contrast.a.metric == contrast.b.metric:
        named = contrast.a.metric != sweep.metric
        return (f"{a} at {contrast.a.metric}" if named else a), b
    return f"{a} at {contrast.a.metric}", f"{b} at {contrast.b.metric}"
