"""Judges the claims of an experiment by its contrasts, which were stated before any run
(`zoo.lab.results.contrast_verdict`).

**Claims** are judged one by one. A claim is supported if every one of its contrasts holds, and not
supported if one is refuted. All contrasts hold by chance less often than a single one, so this needs
no correction (an intersection-union test). The probability that one is refuted by chance grows with
their number, so refutations are corrected by Holm's procedure, within the claim. A claim of "equal"
arms is counted: it is not supported if more intervals exclude 0 than chance explains in 95 % of cases,
each at its own level.
"""

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zoo.lab.declarations import Contrast
from zoo.lab.formatting import count, number
from zoo.lab.metrics import higher_is_better
from zoo.lab.planning.evaluations import why_not_ranked
from zoo.lab.results.baseline_differences import against_baseline, baseline_differences
from zoo.lab.results.contrast_verdict import ContrastVerdict, difference_sentence, judge_contrast, outcome_text
from zoo.lab.results.instability import Instability, instability
from zoo.lab.results.schema import as_text
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.testability import equal_arms
from zoo.lab.results.tuning_grid import tuning_scope
from zoo.lab.statistics.paired import ALPHA, holm

# Differences from a baseline that are told in sentences; a table has more.
MOST_SENTENCES = 3
# A difference of equal arms with a smaller p, after Holm's correction, is not explained by chance.
EXCLUDED = 0.01
_PRECEDENCE = ("not supported", "not testable", "not tuned", "undecided")


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
        verdict = claim_verdict(own)
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


def claim_verdict(outcomes: Sequence[ContrastVerdict]) -> str:
    """Returns the verdict on a claim with these contrasts, of which there is at least one."""
    if all(outcome.contrast.rule == "equal" for outcome in outcomes):
        excluded = [outcome for outcome in outcomes if outcome.outcome == "refuted"]
        explained = _chance_explains([outcome.difference.alpha for outcome in outcomes])
        corrected = holm([outcome.refutation_p for outcome in outcomes])
        if len(excluded) > explained or any(p < EXCLUDED for p in corrected):
            return "not supported"
        return overall_verdict({outcome.outcome for outcome in outcomes} - {"refuted"})
    return overall_verdict({outcome.outcome for outcome in outcomes})


def _chance_explains(levels: Sequence[float]) -> int:
    """Returns how many of independent intervals at these levels at most exclude the truth in 95 % of
    cases.
    """
    probabilities = np.ones(1)  # Of 0, 1, 2, ... such intervals.
    for level in levels:
        probabilities = np.convolve(probabilities, (1 - level, level))
    return int(np.searchsorted(np.cumsum(probabilities), 1 - ALPHA))


def overall_verdict(outcomes: Collection[str]) -> str:
    """Returns the verdict on contrasts with these outcomes, of which there is at least one."""
    words = {"refuted": "not supported"}
    found = {words.get(outcome, outcome) for outcome in outcomes}
    return next((word for word in _PRECEDENCE if word in found), "supported")


def correct_refutations(outcomes: list[ContrastVerdict], alpha: float) -> list[ContrastVerdict]:
    """Changes "refuted" to "undecided" where it does not survive Holm's correction (Holm 1979).

    Args:
        outcomes: of the contrasts of one claim.
        alpha: level of the sweep's design.
    """
    if all(outcome.contrast.rule == "equal" for outcome in outcomes):
        return outcomes  # They are counted.
    found, tested = [], sum(not math.isnan(outcome.refutation_p) for outcome in outcomes)
    for outcome, p in zip(outcomes, holm([outcome.refutation_p for outcome in outcomes]), strict=True):
        if outcome.outcome == "refuted" and p >= alpha:
            note = (
                f"refuted on its own (p = {outcome.refutation_p:.2g}), but not after Holm's correction for "
                f"{count(tested, 'contrast')} (p = {p:.2g})"
                if outcome.refutation_p < alpha
                else f"a refutation needs p < {alpha:.2g}, and p is {outcome.refutation_p:.2g}"
            )
            outcome = replace(outcome, outcome="undecided", notes=[*outcome.notes, note])
        found.append(outcome)
    return found


def _far_off(
    sweep: SweepResults, contrast: Contrast, unstable: Callable[[str], Mapping[str, Instability]]
) -> list[str]:
    """Returns a note for each arm of a contrast of which a seed ends far off, given what `instability`
    returns by metric.
    """
    arms = {side.arm: unstable(side.metric)[side.arm].far_off for side in contrast.sides}
    return [
        f"seed {', '.join(map(str, seeds))} of {sweep.arm(arm).label} ends far off"
        for arm, seeds in arms.items()
        if seeds
    ]


def _without_claim(sweep: SweepResults) -> str:
    finals = _finals_with_diverged(sweep)
    if not any(map(math.isfinite, itertools.chain.from_iterable(found.values() for found in finals.values()))):
        return f"No claim is tested here, and no run has finished with a {sweep.metric} yet."
    if reasons := why_not_ranked(sweep.warnings, sweep.metric):
        return f"No claim is tested here, and the arms are not ranked by {sweep.metric}: they {' and '.join(reasons)}."
    differences = _baseline_sentences(sweep)
    highest = higher_is_better(sweep.metric)
    if len(sweep.arms) > 1 and equal_arms(sweep, sweep.metric):
        return (
            f"No claim is tested here, and all arms end with the same {sweep.metric} in every seed, "
            f"{number(_mean(next(iter(finals.values())).values()))} in the mean: none is better than another."
        )
    head = f"{differences}No claim is tested here. "
    seeds = set.intersection(*(set(found) for found in finals.values()))
    if not seeds:
        return f"{head}No seed is done in all of the arms that have results, so they are not ranked."
    means = {label: _mean(found[seed] for seed in seeds) for label, found in finals.items()}
    mean = max(means.values()) if highest else min(means.values())
    end, diverged = "highest" if highest else "lowest", _diverged(finals)
    if not math.isfinite(mean):
        return f"{head}The arms are not ranked: {diverged}."
    labels = " and ".join(label for label, value in means.items() if value == mean)
    shown = f"mean of {count(len(seeds), 'seed')}" if len(seeds) > 1 else "1 seed"
    if any(len(found) > len(seeds) for found in finals.values()):
        shown += (
            ", those that all arms with results have"
            if len(seeds) > 1
            else ", the only one that all arms with results have"
        )
    return f"{head}The {end} final {sweep.metric} is {number(mean)}, reached by {labels} ({shown})." + (
        f" {diverged[0].upper()}{diverged[1:]}, which counts as the worst {sweep.metric}." if diverged else ""
    )


def _finals_with_diverged(sweep: SweepResults) -> dict[str, dict[int, float]]:
    """Returns {label: {seed: final value}} of the arms with results; a run that diverged, or that ends
    with a value that is not finite, has the worst one.
    """
    worst = -math.inf if higher_is_better(sweep.metric) else math.inf
    found: dict[str, dict[int, float]] = {}
    for arm in sweep.arms:
        values = {run.seed: run.final(sweep.metric) for run in sweep.runs_of(arm.name)}
        diverged = {run.seed for run in sweep.runs_of(arm.name) if run.state == "diverged"}
        known = {seed: value for seed, value in values.items() if value is not None} | dict.fromkeys(diverged, worst)
        if known:
            found[arm.label] = {seed: value if math.isfinite(value) else worst for seed, value in known.items()}
    return found


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values)


def _diverged(finals: Mapping[str, Mapping[int, float]]) -> str:
    """Returns in how many seeds which arm diverged; empty if none did."""
    lost = {label: sum(map(math.isinf, found.values())) for label, found in finals.items()}
    return "; ".join(
        f"{label} diverged in {n} of {count(len(finals[label]), 'seed')}" for label, n in lost.items() if n
    )


def _baseline_sentences(sweep: SweepResults) -> str:
    """Returns a sentence for the difference of each arm from the baseline; empty for many arms."""
    if not 2 <= len(sweep.arms) <= MOST_SENTENCES + 1:
        return ""
    baseline = sweep.baseline_arm
    return "".join(
        f"{difference_sentence(sweep, against_baseline(sweep, arm, baseline.name), difference)}. "
        for arm, difference in baseline_differences(sweep).items()
        if difference.n
    )
