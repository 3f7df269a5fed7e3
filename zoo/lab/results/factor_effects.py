"""Main effects of factors, averaged over the levels of the others, and their interactions."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zoo.lab.planning.evaluations import why_not_ranked
from zoo.lab.results.curves import final_values
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.statistics.paired import PairedDifference, interaction, mean_difference


@dataclass(frozen=True)
class FactorEffect:
    """A main effect or an interaction.

    A main effect compares a level of a factor with its first level. An interaction is how much this
    difference varies between two levels of a second factor.

    Attributes:
        what: the factor, or both factors.
        levels: (level, first level) of each factor in `what`.
        difference: in the unit of the metric, paired by seed; the mean over all levels of the other
            factors.
    """

    what: tuple[str, ...]
    levels: tuple[tuple[str, str], ...]
    difference: PairedDifference


def estimate_effects(sweep: SweepResults) -> list[FactorEffect]:
    """Estimates main effects and pairwise interactions.

    The main effect of level i of a factor is the mean over the other factors' levels of x_i - x_0.
    The interaction of levels i and j of two factors is the mean over the others of
    (x_ij - x_0j) - (x_i0 - x_00). Each is computed seed by seed; seeds that lack a combination are
    left out. Returns an empty list unless there are at least two factors and every combination of
    their levels, and for arms that are not ranked: a mean over values that are scored differently
    has no meaning.
    """
    if why_not_ranked(sweep.warnings, sweep.metric):
        return []
    names = list(dict.fromkeys(name for arm in sweep.arms for name in arm.factors))
    names = [name for name in names if len({arm.factors.get(name) for arm in sweep.arms}) > 1]
    if len(names) < 2 or any(name not in arm.factors for arm in sweep.arms for name in names):
        return []
    cells = {
        tuple(arm.factors[name] for name in names): final_values(sweep, arm.name, sweep.metric) for arm in sweep.arms
    }
    levels = [list(dict.fromkeys(key[place] for key in cells)) for place in range(len(names))]
    if set(cells) != set(itertools.product(*levels)):
        return []
    found = []
    for place, name in enumerate(names):
        for level in levels[place][1:]:
            found.append(
                FactorEffect((name,), ((level, levels[place][0]),), _main(cells, levels, place, level, sweep.alpha))
            )
    for (one, first), (two, second) in itertools.combinations(enumerate(names), 2):
        for i, j in itertools.product(levels[one][1:], levels[two][1:]):
            found.append(
                FactorEffect(
                    (first, second),
                    ((i, levels[one][0]), (j, levels[two][0])),
                    _both(cells, levels, (one, i), (two, j), sweep.alpha),
                )
            )
    return found


Cells = Mapping[tuple[str, ...], Mapping[int, float]]


def _main(cells: Cells, levels: list[list[str]], place: int, level: str, alpha: float) -> PairedDifference:
    here = _average(cells, _with(levels, {place: level}))
    there = _average(cells, _with(levels, {place: levels[place][0]}))
    return mean_difference({seed: here[seed] - there[seed] for seed in sorted(here.keys() & there.keys())}, alpha)


def _both(
    cells: Cells, levels: list[list[str]], one: tuple[int, str], two: tuple[int, str], alpha: float
) -> PairedDifference:
    (place, level), (other, its_level) = one, two
    return interaction(
        [
            [_average(cells, _with(levels, {place: i, other: j})) for j in (levels[other][0], its_level)]
            for i in (levels[place][0], level)
        ],
        alpha,
    )


def _with(levels: list[list[str]], fixed: Mapping[int, str]) -> Iterator[tuple[str, ...]]:
    return itertools.product(
        *([fixed[place]] if place in fixed else its_levels for place, its_levels in enumerate(levels))
    )


def _average(cells: Cells, keys: Iterator[tuple[str, ...]]) -> dict[int, float]:
    """Returns the mean over cells, for the seeds that all of them have."""
    values = [cells[key] for key in keys]
    seeds = set.intersection(*(set(value) for value in values))
    return {seed: sum(value[seed] for value in values) / len(values) for seed in seeds}
