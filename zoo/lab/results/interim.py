"""A sweep to which seeds are added until its contrasts are decided: which look is next, planned
before the first.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.results.schema import parse_looks
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import judge_contrast
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.sequential import SequentialDesign, design_until_decided, detectable_effect

FEWEST = 2


def plan_looks(folder: Path, seeds: tuple[int, ...], most: int) -> SequentialDesign:
    """The looks of a sweep that begins with these seeds; those that its folder has planned already
    are kept.

    Raises:
        ConfigError: too few seeds to begin with, a budget below them, or looks that were planned
            otherwise before.
    """
    if len(seeds) < FEWEST:
        raise ConfigError(f"--until-decided begins with {FEWEST} seeds or more, got {len(seeds)}; give --seeds")
    before = _looks_of(folder)
    if before:
        if max(before) != most:
            raise ConfigError(
                f"--most-seeds {most}: the looks of {folder} were planned for at most {max(before)} seeds, and their levels "
                "hold for these alone; give the same number, or another --output"
            )
        return SequentialDesign(before)
    if most < len(seeds):
        raise ConfigError(f"--most-seeds {most} is fewer than the {len(seeds)} seeds to begin with")
    return design_until_decided(len(seeds), most)


def seeds_so_far(folder: Path, seeds: tuple[int, ...]) -> tuple[int, ...]:
    """The seeds at which a sweep in `folder` stands that began with these; else these."""
    found = _record(folder).get("seeds")
    begun = tuple(found) if isinstance(found, list) else ()
    return (
        begun if _looks_of(folder) and len(begun) > len(seeds) and begun == extend_seeds(seeds, len(begun)) else seeds
    )


def _record(folder: Path) -> dict[str, Any]:
    try:
        record = read_json(folder / "experiment.json")
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _looks_of(folder: Path) -> Mapping[int, float]:
    return parse_looks(_record(folder).get("looks") or None, str(folder / "experiment.json"), [])


def extend_seeds(seeds: tuple[int, ...], count: int) -> tuple[int, ...]:
    """So many seeds: these, and the lowest numbers that are not among them."""
    found, number = list(seeds), 0
    while len(found) < count:
        if number not in found:
            found.append(number)
        number += 1
    return tuple(found)


def detectable_effect_lines(seeds: int, alpha: float = ALPHA, earlier: SweepResults | None = None) -> Iterator[str]:
    """Lines that tell how small a difference so many seeds can show; in the metric's unit where
    runs are done that tell how it varies.

    Args:
        seeds: number of seeds that will be there.
        alpha: level of the interval.
        earlier: the sweep as it is now.
    """
    least = detectable_effect(seeds, alpha)
    yield (
        f"{seeds} seeds show differences from {least:.1f} standard deviations of paired differences on, in 4 of 5 cases"
        if seeds > 1
        else "1 seed shows no difference: there is no interval"
    )
    for contrast in earlier.contrasts if earlier and seeds > 1 else ():
        found, unit = judge_contrast(earlier, contrast).difference, earlier.unit(contrast.a.metric)
        if found.n > 1 and found.sd > 0:
            yield (
                f'  "{contrast.name}": they vary by {found.sd:.3g}{unit} over the {found.n} seeds that are done, so differences from '
                f"{least * found.sd:.2g}{unit} on"
            )
