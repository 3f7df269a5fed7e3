"""Judges the contrasts of an experiment, which were stated before any run.

Let d = a - b for losses (lower is better), or b - a for accuracies and other scores (higher is
better), paired by seed, and [low, high] its interval (`zoo.lab.statistics.paired`: that of the
pairs, with the uncertainty of tuning, and not narrower than other runs say the noise is). Then

    superiority     holds if high < -margin,               refuted if low > -margin
    non_inferiority holds if high < margin,                refuted if low > margin
    equivalence     holds if -margin < low, high < margin, refuted if low > margin or high < -margin
    equal           holds if low <= 0 <= high,             refuted otherwise

and undecided otherwise. With the level alpha of the sweep's design (5 % for a single look) the
interval of a superiority is two-sided at alpha. Whether a non-inferiority or an equivalence holds is a
one-sided question at each bound, so theirs is two-sided at 2 alpha (two one-sided tests, Schuirmann
1987); refutations need alpha under every rule.

A contrast is "not tuned" where its arms were to be tuned and an arm's optimum is not known, and "not
testable" where its runs cannot answer it (`zoo.lab.results.testability`).

**Claims** are judged one by one. A claim is supported if every one of its contrasts holds, and not
supported if one is refuted. All contrasts hold by chance less often than a single one, so this needs
no correction (an intersection-union test). The probability that one is refuted by chance grows with
their number, so refutations are corrected by Holm's procedure, within the claim. A claim of "equal"
arms is counted: it is not supported if more intervals exclude 0 than chance explains in 95 % of cases.

A run that diverged, that is done without a finite value of the metric, or that ends above the
contrast's `diverged_above`, counts as an infinite loss, or as a score of -infinity. An interval
cannot contain such pairs. They decide an order only if nothing contradicts them: either all pairs
are infinite on the same side, or the finite pairs decide by their interval and the infinite ones
point the same way. A run that failed or has not finished leaves its contrast undecided: leaving
it out could select the result.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scipy import stats

from zoo.errors import did_you_mean, listed
from zoo.lab.declarations import Contrast, Side
from zoo.lab.formatting import confidence_level, count, interval, number, rounded_mean
from zoo.lab.metrics import base_name, higher_is_better, unit_suffix
from zoo.lab.planning.evaluations import why_not_ranked
from zoo.lab.results.baseline_differences import against_baseline, baseline_differences
from zoo.lab.results.instability import Instability, instability
from zoo.lab.results.noise import known_noise, regrets
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import as_text, mix_kernels, numerics
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.testability import equal_arms, why_not_testable
from zoo.lab.results.tuning_grid import tuning_scope, why_not_tuned
from zoo.lab.statistics.paired import ALPHA, UNKNOWN_NOISE, PairedDifference, holm, paired_difference

MINIMUM_PAIRS = 2
# Differences from a baseline that are told in sentences; a table has more.
MOST_SENTENCES = 3
_PRECEDENCE = ("not supported", "not testable", "not tuned", "undecided")


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


@dataclass(frozen=True)
class Verdict:
    """The verdict on an experiment.

    Attributes:
        overall: "supported", "not supported", "not testable", "not tuned" or "undecided": the first
            of "not supported", "not testable", "not tuned" and "undecided" that a claim has, else
            "supported"; "no claim" without contrasts.
        outcomes: one for each contrast.
        paragraph: all of it in words.
        claims: {identifier: its verdict}; the identifier is empty for an experiment that names none.
    """

    overall: str
    outcomes: list[ContrastVerdict]
    paragraph: str
    claims: dict[str, str] = field(default_factory=dict)


def decide(rule: str, margin: float, low: float, high: float) -> str:
    """Applies a rule to the interval of d; infinite bounds are allowed, NaN decides nothing."""
    if rule == "equal":
        return "holds" if low <= 0 <= high else "undecided" if math.isnan(low) else "refuted"
    if rule == "equivalence":
        holds, refuted = -margin < low and high < margin, low > margin or high < -margin
    else:
        bound = -margin if rule == "superiority" else margin
        holds, refuted = high < bound, low > bound
    return "holds" if holds else "refuted" if refuted else "undecided"


def refutation_p(rule: str, margin: float, difference: PairedDifference) -> float:
    """Returns the two-sided p of d against a rule; `decide` refutes at every level above it."""
    if rule == "equal":
        return difference.p
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
        "equal": "a and b do not differ",
    }[contrast.rule]


def judge(sweep: SweepResults) -> Verdict:
    """Judges every contrast and the experiment as a whole, on the runs as they are now."""
    if not sweep.contrasts:
        return Verdict("no claim", [], _without_claim(sweep))
    judged, claims = {}, {}
    for claim, contrasts in contrasts_by_claim(sweep).items():
        claims[claim], own = _judge_claim(sweep, contrasts)
        judged |= {outcome.contrast.name: outcome for outcome in own}
    outcomes = [judged[contrast.name] for contrast in sweep.contrasts]
    overall = next((word for word in _PRECEDENCE if word in claims.values()), "supported")
    head = "; ".join(f"{claim} {verdict}" for claim, verdict in claims.items()) if len(claims) > 1 else overall
    parts = [outcome_text(outcome, sweep.unit) for outcome in outcomes]
    scope = f" ({tuning_scope(sweep.tuning)})"
    return Verdict(overall, outcomes, f"{head[0].upper()}{head[1:]}{scope}: " + ". ".join(parts) + ".", claims)


def _judge_claim(sweep: SweepResults, contrasts: Sequence[Contrast]) -> tuple[str, list[ContrastVerdict]]:
    """Returns the verdict on a claim and the outcomes of its contrasts, at the look that decides it.

    With planned looks the first that decides is the one that counts: the sweep may have gone on for
    other claims, and another judgement of the same claim would not be covered by the levels.
    """
    total = len(sweep.seeds)
    for look in [*(look for look in sorted(sweep.looks) if look < total), total]:
        part = sweep.with_seeds(look) if look < total else sweep
        own = correct_refutations([judge_contrast(part, contrast) for contrast in contrasts], part.alpha)
        verdict = claim_verdict(own, part.alpha)
        # What no seed can change is judged on all of them.
        if verdict in ("supported", "not supported"):
            break
    unstable = functools.cache(functools.partial(instability, part))
    own = [
        replace(outcome, notes=[*outcome.notes, *_far_off(part, outcome.contrast, unstable)])
        if outcome.outcome in ("holds", "refuted", "undecided")
        else outcome
        for outcome in own
    ]
    if look < total:
        note = f"decided at {count(look, 'seed')}; the further ones were run for other claims"
        own = [replace(outcome, notes=[*outcome.notes, note]) for outcome in own]
    return verdict, own


def contrasts_by_claim(sweep: SweepResults) -> dict[str, list[Contrast]]:
    """Returns the contrasts by claim; those that name none are of the experiment's only one."""
    only = as_text((sweep.claim or {}).get("id"))
    found: dict[str, list[Contrast]] = {}
    for contrast in sweep.contrasts:
        found.setdefault(contrast.claim or only, []).append(contrast)
    return found


def claim_verdict(outcomes: Sequence[ContrastVerdict], alpha: float = ALPHA) -> str:
    """Returns the verdict on a claim with these contrasts, of which there is at least one."""
    if all(outcome.contrast.rule == "equal" for outcome in outcomes):
        judged = [outcome for outcome in outcomes if outcome.outcome in ("holds", "refuted")]
        if len(judged) == len(outcomes):
            excluded = sum(outcome.outcome == "refuted" for outcome in judged)
            return "not supported" if excluded > stats.binom.ppf(1 - ALPHA, len(judged), alpha) else "supported"
    return overall_verdict({outcome.outcome for outcome in outcomes})


def overall_verdict(outcomes: Collection[str]) -> str:
    """Returns the verdict on contrasts with these outcomes, of which there is at least one."""
    words = {"refuted": "not supported"}
    found = {words.get(outcome, outcome) for outcome in outcomes}
    return next((word for word in _PRECEDENCE if word in found), "supported")


def outcome_text(outcome: ContrastVerdict, unit_of: Callable[[str], str] = unit_suffix) -> str:
    """Returns the difference, the notes, and what became of the rule, as a sentence without a stop."""
    words = {"holds": "holds", "refuted": "is refuted"}
    text = "; ".join([outcome.sentence, *outcome.notes])
    return f"{text}: {_rule_name(outcome.contrast, unit_of)} {words.get(outcome.outcome, f'is {outcome.outcome}')}"


def correct_refutations(outcomes: list[ContrastVerdict], alpha: float) -> list[ContrastVerdict]:
    """Changes "refuted" to "undecided" where it does not survive Holm's correction (Holm 1979).

    Args:
        outcomes: of the contrasts of one claim.
        alpha: level of the sweep's design.
    """
    if all(outcome.contrast.rule == "equal" for outcome in outcomes):
        return outcomes  # They are counted.
    found = []
    for outcome, p in zip(outcomes, holm([outcome.refutation_p for outcome in outcomes]), strict=True):
        if outcome.outcome == "refuted" and p >= alpha:
            note = (
                f"refuted on its own (p = {outcome.refutation_p:.2g}), but not after Holm's correction for "
                f"{count(len(outcomes), 'contrast')} (p = {p:.2g})"
                if outcome.refutation_p < alpha
                else f"a refutation needs p < {alpha:.2g}, and p is {outcome.refutation_p:.2g}"
            )
            outcome = replace(outcome, outcome="undecided", notes=[*outcome.notes, note])
        found.append(outcome)
    return found


def judge_contrast(sweep: SweepResults, contrast: Contrast) -> ContrastVerdict:
    """Judges one contrast on the runs as they are now."""
    a, b = (_read_side(sweep, side, contrast.diverged_above) for side in (contrast.a, contrast.b))
    noise, alpha = known_noise(sweep, contrast), contrast_level(sweep, contrast)
    if noise is None:
        alpha /= UNKNOWN_NOISE
    difference = paired_difference(a.finite, b.finite, alpha, noise, regrets(sweep, contrast))
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
    elif reason := why_not_testable(sweep, contrast):
        notes, outcome = [*notes, reason], "not testable"
    else:
        outcome, refuting, reasons = _decide_pairs(sweep, contrast, a, b, difference)
        notes += reasons
        if noise is None and difference.n >= MINIMUM_PAIRS and difference.sd > 0:
            refuting = min(1.0, refuting * UNKNOWN_NOISE)
            if outcome == "undecided":
                notes.append(_UNKNOWN_NOISE_NOTE)
        untuned = {side.arm: why_not_tuned(sweep.tuning, side.arm) for side in (contrast.a, contrast.b)}
        if any(untuned.values()):
            lines = [f"{sweep.arm(arm).label} is not tuned ({why})" for arm, why in untuned.items() if why]
            notes, outcome, refuting = [*notes, "; ".join(lines)], "not tuned", math.nan
    if difference.n >= MINIMUM_PAIRS and difference.sd == 0:
        notes.append("the difference is exactly the same in every seed")
    return ContrastVerdict(contrast, outcome, difference, sentence, refuting, notes)


_UNKNOWN_NOISE_NOTE = (
    "no other runs tell the noise of such differences, and pairs alone cannot show that it is skewed, so a decision "
    f"needs a level {UNKNOWN_NOISE} times smaller; tune the arms, or name earlier sweeps with --noise-from"
)


def why_not_comparable(sweep: SweepResults, contrast: Contrast) -> str:
    """Returns why the difference of two arms answers no question about them, in words; empty if it
    can.

    Reasons: they are scored differently, runs are missing, no interval can contain the values, or no
    rule about them is testable.
    """
    if contrast.a.metric == sweep.metric and (reasons := why_not_ranked(sweep.warnings, sweep.metric)):
        return f"the arms {' and '.join(reasons)}"
    a, b = (_read_side(sweep, side, contrast.diverged_above) for side in (contrast.a, contrast.b))
    if reason := _unknown_metric(sweep, contrast) or _why_incomparable(sweep, contrast, a, b):
        return reason
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
    return "; ".join([*infinite, *untuned]) or why_not_testable(sweep, contrast) or ""


def contrast_level(sweep: SweepResults, contrast: Contrast) -> float:
    """Returns the two-sided level of a contrast's interval, apart from what is known of its noise."""
    return sweep.alpha * (2 if contrast.rule in ("non_inferiority", "equivalence") else 1)


def _far_off(
    sweep: SweepResults, contrast: Contrast, unstable: Callable[[str], Mapping[str, Instability]]
) -> list[str]:
    """Returns a note for each arm of a contrast of which a seed ends far off, given what `instability`
    returns by metric.
    """
    arms = {side.arm: unstable(side.metric)[side.arm].far_off for side in (contrast.a, contrast.b)}
    return [
        f"seed {', '.join(map(str, seeds))} of {sweep.arm(arm).label} ends far off"
        for arm, seeds in arms.items()
        if seeds
    ]


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
    if not directions:
        p = refutation_p(contrast.rule, contrast.margin, difference if sign > 0 else difference.reversed())
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
    # The words say the direction of the mean; the interval has the sign of a - b, as in all tables.
    place = "higher" if difference.mean > 0 else "lower"
    distance = rounded_mean(abs(difference.mean), difference.low, difference.high) + sweep.unit(contrast.a.metric)
    text = f"{a} ends {distance} {place} than {b}" if difference.mean else f"{a} ends where {b} does"
    if difference.n < MINIMUM_PAIRS:
        return f"{text} ({count(difference.n, 'pair')}, so no interval)"
    level, pairs = confidence_level(difference.alpha), count(difference.n, "pair")
    return f"{text} ({level} interval of the difference {interval(difference.low, difference.high)}, {pairs})"


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
    differences = _baseline_sentences(sweep)
    highest = higher_is_better(sweep.metric)
    if len(finals) == len(sweep.arms) > 1 and equal_arms(sweep, sweep.metric):
        return (
            f"No claim is tested here, and all arms end with the same {sweep.metric} in every seed, "
            f"{number(finals[0][0])} in the mean: none is better than another."
        )
    mean, n, _ = max(finals) if highest else min(finals)
    label = " and ".join(label for value, _, label in finals if value == mean)
    seeds = f"mean of {count(n, 'seed')}" if n > 1 else "1 seed"
    end = "highest" if highest else "lowest"
    return (
        f"{differences}No claim is tested here. The {end} final {sweep.metric} is {number(mean)}, reached by {label} "
        f"({seeds})."
    )


def _baseline_sentences(sweep: SweepResults) -> str:
    """Returns a sentence for the difference of each arm from the baseline; empty for many arms."""
    if not 2 <= len(sweep.arms) <= MOST_SENTENCES + 1:
        return ""
    baseline = sweep.baseline_arm
    return "".join(
        f"{_sentence(sweep, against_baseline(sweep, arm, baseline.name), difference)}. "
        for arm, difference in baseline_differences(sweep).items()
        if difference.n
    )
