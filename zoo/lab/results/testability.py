"""Whether a rule can be judged at all: floors, ceilings, controls and hardware.

A rule about two arms says nothing about its claim where

* neither arm beats the floor that the claim names (`zoo.lab.floors`), in the mean over seeds;
  answers to a synthetic task must beat it by more than its sampling error;
* both arms are at a ceiling, or the difference that the rule demands is larger than what is left
  between the arm that must be beaten and the best possible score;
* a control without what the claim presupposes beats both arms, in the mean over seeds;
* the claim names hardware that the runs were not trained on.

Where a mean beats its floor, and by no more than its own error over seeds, more seeds may settle
whether the arm does: the rule is then undecided.

One arm at a ceiling is no obstacle: it is known to be better than the other by at least their
difference.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from zoo.data.sources.synthetic import PROBE_DOCUMENTS
from zoo.lab.declarations import BEST_FLOOR, HARDWARE, Contrast, premises_in, used_metrics
from zoo.lab.floors.record import BIGRAM, CONSTANT, MAJORITY_CLASS, MAJORITY_TAG, plain_metric
from zoo.lab.formatting import number
from zoo.lab.measures import is_measure
from zoo.lab.metrics import base_name, best_possible, higher_is_better, steps_to_arm
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults

# A score this close to its maximum of 1 is at a ceiling.
CEILING = 0.02
# Level of the one-sided t interval of a mean that must lie beyond a floor.
FLOOR_LEVEL = 0.05
# Equal to the last digit that metrics are written with.
_EQUAL = 1e-9


@dataclass(frozen=True)
class Reason:
    """Why runs cannot answer a question.

    Attributes:
        cause: in words.
        values: what each arm reached, as "pre: 2.1; post: diverged"; empty if the cause says it.
    """

    cause: str
    values: str = ""

    def __str__(self) -> str:
        return f"{self.cause} ({self.values})" if self.values else self.cause


def why_not_testable(sweep: SweepResults, contrast: Contrast) -> Reason | None:
    """Returns why a contrast's rule cannot be judged, with numbers; None if it can.

    Args:
        sweep: with the runs of both arms finished.
        contrast: one of its contrasts.
    """
    if contrast.rule == "equal":
        return None  # It asks about the laboratory, and not about models.
    premises = premises_in(sweep.claim or {}, contrast.claim)
    return (
        _why_other_hardware(sweep, contrast, premises.hardware)
        or (_why_below_floor(sweep, contrast, premises.floor) if premises.floor != "none" else None)
        or (_why_below_control(sweep, contrast, premises.control) if premises.control else None)
        or _why_at_ceiling(sweep, contrast)
    )


def _why_other_hardware(sweep: SweepResults, contrast: Contrast, hardware: str) -> Reason | None:
    if not hardware:
        return None
    devices = [
        as_dict(run.meta.get("device")) for side in contrast.sides for run in sweep.runs_of(side.arm) if run.meta
    ]
    names = [f"{device.get('platform', '')} {device.get('kind', '')}".strip() or "unknown" for device in devices]
    # A GPU's kind is its product name, so the platform decides where it is recorded.
    found = [str(device.get("platform") or device.get("kind") or "").lower() for device in devices]
    if found and all(any(name in each for name in HARDWARE.get(hardware, ())) for each in found):
        return None
    trained_on = ", ".join(dict.fromkeys(names)) or "none"
    return Reason(f"the claim is about a {hardware}, and the runs were trained on {trained_on}")


def why_floor_is_open(sweep: SweepResults, contrast: Contrast) -> Reason | None:
    """Returns why it is not known whether an arm beats its floor, with numbers; None if one does by
    more than the error of its mean over seeds, or nothing has to be beaten.

    Args:
        sweep, contrast: as for `why_not_testable`, which has found nothing.
    """
    level = premises_in(sweep.claim or {}, contrast.claim).floor
    sides = _sides_with_floors(sweep, contrast, level) if contrast.rule != "equal" and level != "none" else []
    return _no_arm_beats(sweep, sides) if sides and not any(side.is_surely_better for side in sides) else None


def _why_below_floor(sweep: SweepResults, contrast: Contrast, level: str) -> Reason | None:
    """Returns a reason if both sides have a floor, and neither beats it."""
    sides = _sides_with_floors(sweep, contrast, level)
    return _no_arm_beats(sweep, sides) if sides and not any(side.is_better for side in sides) else None


def _no_arm_beats(sweep: SweepResults, sides: Sequence["_BesideFloor"]) -> Reason:
    return Reason(f"no arm beats {_floors_text(sweep, sides)}", "; ".join(dict.fromkeys(map(str, sides))))


def _sides_with_floors(sweep: SweepResults, contrast: Contrast, level: str) -> list["_BesideFloor"]:
    """Returns the sides of a contrast beside their floors; none if one side has no floor."""
    sides = []
    for side in contrast.sides:
        # Steps to a loss are read off this loss.
        metric = "eval/loss" if steps_to_arm(side.metric) else side.metric
        floors = named_floors(sweep.floor_scores(side.arm, metric), level)
        ends = _ends(sweep, side.arm, metric)
        if not floors or not ends:
            return []
        best = hardest(floors, metric)
        sides.append(_BesideFloor(sweep.arm(side.arm).label, ends, best, floors[best], metric))
    return sides


@dataclass(frozen=True)
class _BesideFloor:
    """An arm and the floor that it has to beat.

    Attributes:
        label: of the arm.
        ends: the scores of its seeds.
        floor: name of the floor.
        score: of the floor.
        metric: of the scores.
    """

    label: str
    ends: Sequence[float]
    floor: str
    score: float
    metric: str

    @property
    def is_better(self) -> bool:
        """Whether the mean is better than the floor, by more than the floor's sampling error if it has
        one.
        """
        return _better(self.metric, _mean_of(self.ends), self.score + _sampling_error(self.metric, self.score))

    @property
    def is_surely_better(self) -> bool:
        """Whether the mean is better than the floor by more than its own error; shares of answers,
        which differ much between seeds that solve a task and others, by the floor's sampling error.
        """
        error = _error_of_mean(self.ends) * (1 if higher_is_better(self.metric) else -1)
        sampled = bool(_sampling_error(self.metric, self.score))
        return self.is_better and (sampled or _better(self.metric, _mean_of(self.ends), self.score + error))

    def __str__(self) -> str:
        error = f" ± {_error_of_mean(self.ends):.2g}" if self.is_better else ""
        return f"{self.label}: {_shown(_mean_of(self.ends))}{error}"


def _floors_text(sweep: SweepResults, sides: Sequence[_BesideFloor]) -> str:
    """Returns floors that were not beaten as the object of a sentence."""
    floors = list(dict.fromkeys((side.floor, side.score, side.metric) for side in sides))
    shown = [f"the {name} of {number(score)}{sweep.unit(metric)}" for name, score, metric in floors]
    errors = [f"{error:.2g}" for _, score, metric in floors if (error := _sampling_error(metric, score))]
    by = f" by more than the sampling error of {' and '.join(dict.fromkeys(errors))}" if errors else ""
    by = " by more than the error of a mean over seeds" if any(side.is_better for side in sides) else by
    # How often an answer to a synthetic task is right is known, and not counted.
    counted = "" if all(is_measure(metric) for *_, metric in floors) else ", counted on the same training data"
    return f"{' and '.join(shown)}{by}{counted}"


def named_floors(floors: Mapping[str, float], level: str) -> Mapping[str, float]:
    """Returns the floors that a claim's `floor` names."""
    if level == BEST_FLOOR:
        return floors
    names = (*CONSTANT, BIGRAM) if level == "bigram" else CONSTANT
    return {name: value for name, value in floors.items() if name in names}


def hardest(floors: Mapping[str, float], metric: str) -> str:
    """Returns the name of the floor with the best score."""
    return (max if higher_is_better(metric) else min)(floors, key=floors.get)


def _error_of_mean(values: Sequence[float]) -> float:
    """Returns how far the mean of all seeds may lie beyond that of these, by a one-sided t interval of
    95 %; 0 where one seed tells nothing about it, or one of several has diverged.
    """
    n = len(values)
    if n < 2 or not all(map(math.isfinite, values)):
        return 0.0
    return -float(special.stdtrit(n - 1, FLOOR_LEVEL)) * statistics.stdev(values) / math.sqrt(n)


def _sampling_error(metric: str, share: float) -> float:
    """Returns 1.96 standard errors of a share of right answers to the documents of a probe, with this
    expectation; 0 for another metric than a measure, of which only these have floors.

    Answers that are equally likely to be right are not right on the same documents, so that the share
    of a run cannot be compared with that of one of them on the documents that the run answered.
    """
    return 1.96 * math.sqrt(share * (1 - share) / PROBE_DOCUMENTS) if is_measure(metric) else 0.0


def _why_below_control(sweep: SweepResults, contrast: Contrast, control: Mapping[str, str]) -> Reason | None:
    levels = sweep.arm(contrast.a.arm).factors | dict(control)
    arm = next((arm for arm in sweep.arms if arm.factors == levels), None)
    if arm is None or arm.name in (contrast.a.arm, contrast.b.arm) or contrast.a.metric != contrast.b.metric:
        return None
    metric = contrast.a.metric
    reached, *sides = (_mean(sweep, name, metric) for name in (arm.name, contrast.a.arm, contrast.b.arm))
    if reached is None or None in sides or not all(_better(metric, reached, value) for value in sides):
        return None
    others = "; ".join(
        f"{sweep.arm(side.arm).label}: {_shown(value)}" for side, value in zip(contrast.sides, sides, strict=True)
    )
    return Reason(f"the control {arm.label} ends at {_shown(reached)}, better than every arm compared", others)


def _why_at_ceiling(sweep: SweepResults, contrast: Contrast) -> Reason | None:
    ends = []
    for side in contrast.sides:
        floors = (sweep.floors or {}).get(side.arm)
        known = floors.best.get(plain_metric(side.metric)) if floors else None
        best = best_possible(side.metric) if known is None else known
        reached = _mean(sweep, side.arm, side.metric)
        if best is None or reached is None:
            return None
        ends.append((sweep.arm(side.arm).label, reached, abs(best - reached)))
    (first, a, left_a), (second, b, left_b) = ends
    name = base_name(contrast.a.metric)
    if higher_is_better(contrast.a.metric) and max(left_a, left_b) <= CEILING:
        values = f"{first}: {_shown(a)}; {second}: {_shown(b)}"
        return Reason(f"both arms are within {CEILING:g} of the highest {name}", values)
    if contrast.rule == "superiority" and contrast.margin >= left_b:
        unit = sweep.unit(contrast.a.metric)
        return Reason(
            f"the rule demands a difference of more than {contrast.margin:g}{unit}, and {second} at {_shown(b)} is "
            f"within {_shown(left_b)}{unit} of the best possible {name}"
        )
    return None


def _mean(sweep: SweepResults, arm: str, metric: str) -> float | None:
    """Returns the mean over the sweep's seeds, infinite if a run diverged; None without values."""
    ends = _ends(sweep, arm, metric)
    return _mean_of(ends) if ends else None


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _ends(sweep: SweepResults, arm: str, metric: str) -> list[float]:
    """Returns the score of each of the sweep's seeds that has one, infinitely bad if it diverged."""
    values = []
    for seed in sweep.seeds:
        run = sweep.run(arm, seed)
        value = run.final(metric) if run is not None else None
        if run is not None and (run.state == "diverged" or (value is not None and not math.isfinite(value))):
            value = -math.inf if higher_is_better(metric) else math.inf
        if value is not None:
            values.append(value)
    return values


def _better(metric: str, value: float, other: float) -> bool:
    return value > other + _EQUAL if higher_is_better(metric) else value < other - _EQUAL


def _shown(value: float) -> str:
    return number(value) if math.isfinite(value) else "diverged"


def testability_notes(sweep: SweepResults) -> Iterator[str]:
    """Yields what keeps the finished runs of a sweep from saying anything, contrasts or not."""
    for metric in used_metrics(sweep.metric, sweep.contrasts):
        yield from _degenerate(sweep, metric)
    if sweep.contrasts and sweep.floors is None:
        yield "no floors were computed for this sweep, so whether its arms beat an n-gram model is not known"
    if sweep.contrasts:
        return
    found = {arm.name: _ends(sweep, arm.name, sweep.metric) for arm in sweep.arms}
    ends = {name: values for name, values in found.items() if values}
    if not ends:
        return
    floors = {name: sweep.floor_scores(name, sweep.metric) for name in ends}
    if all(floors.values()):
        best = {name: hardest(scores, sweep.metric) for name, scores in floors.items()}
        sides = [
            _BesideFloor(sweep.arm(name).label, values, best[name], floors[name][best[name]], sweep.metric)
            for name, values in ends.items()
        ]
        if not any(side.is_surely_better for side in sides):
            outcome = "undecided" if any(side.is_better for side in sides) else "not testable"
            yield f"{outcome}: no arm's {sweep.metric} beats {_floors_text(sweep, sides)}"
    top = best_possible(sweep.metric)
    bounded = top is not None and higher_is_better(sweep.metric)
    if len(ends) > 1 and bounded and all(top - _mean_of(values) <= CEILING for values in ends.values()):
        yield f"not testable: all arms are within {CEILING:g} of the highest {sweep.metric}"


def _degenerate(sweep: SweepResults, metric: str) -> Iterator[str]:
    """Yields whether all runs give the majority class, or all arms are equal to the last digit."""
    values = {
        arm.name: [value for run in sweep.runs_of(arm.name) if (value := run.final(metric)) is not None]
        for arm in sweep.arms
    }
    values = {name: found for name, found in values.items() if found}
    constant = {
        name: floors[floor]
        for name in values
        for floors in [sweep.floor_scores(name, metric)]
        for floor in (MAJORITY_CLASS, MAJORITY_TAG)
        if floor in floors and base_name(metric) != "loss"
    }
    if values and all(name in constant and _all_equal([*found, constant[name]]) for name, found in values.items()):
        yield f"all arms give the majority class: their {metric} is that of the most frequent label in every run"
    elif len(values) == len(sweep.arms) > 1 and equal_arms(sweep, metric):
        yield f"all arms end with the same {metric} in every seed, to the last digit"


def equal_arms(sweep: SweepResults, metric: str) -> bool:
    """Whether all arms end with the same value of a metric, seed by seed, to the last digit."""
    found = [[run.final(metric) for run in sweep.runs if run.seed == seed] for seed in sweep.seeds]
    known = [[value for value in values if value is not None] for values in found]
    return all(len(values) == len(sweep.arms) and _all_equal(values) for values in known)


def _all_equal(values: Iterable[float]) -> bool:
    values = list(values)
    return max(values) - min(values) <= _EQUAL
