"""Interim analyses: seeds are added until the contrasts are decided, at planned looks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError
from zoo.files import read_object_or_empty
from zoo.lab.results.schema import parse_looks
from zoo.lab.statistics.sequential import SequentialDesign, design_until_decided

MIN_SEEDS = 2
# The simulated series of a design take 5 MB for each seed.
MOST_LOOKS = 100


def plan_interim_looks(folder: Path, seeds: tuple[int, ...], max_seeds: int) -> SequentialDesign:
    """Returns the looks of a sweep that begins with these seeds; a folder keeps its planned looks.

    Raises:
        ConfigError: there are too few seeds, more than `max_seeds`, or the folder's looks were planned
            for another maximum.
    """
    if len(seeds) < MIN_SEEDS:
        raise ConfigError(
            f"--until-decided needs at least {MIN_SEEDS} seeds to begin with, got {len(seeds)}; use --seeds"
        )
    before = _looks_of(folder)
    if before:
        if max(before) != max_seeds:
            raise ConfigError(
                f"--max-seeds {max_seeds}: the looks of {folder} were planned for at most {max(before)} seeds, and "
                "their levels are valid only for this number; use it, or another --output"
            )
        return SequentialDesign(before)
    if max_seeds > MOST_LOOKS:
        raise ConfigError(f"--max-seeds {max_seeds}: looks are planned for at most {MOST_LOOKS} seeds")
    if max_seeds < len(seeds):
        raise ConfigError(f"--max-seeds {max_seeds} is fewer than the {len(seeds)} seeds to begin with")
    return design_until_decided(len(seeds), max_seeds)


def seeds_so_far(folder: Path, seeds: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the seeds that the sweep in `folder` has been extended to.

    If it was not started with `seeds`, returns `seeds`.
    """
    found = _record(folder).get("seeds")
    begun = tuple(found) if isinstance(found, list) else ()
    return (
        begun if _looks_of(folder) and len(begun) > len(seeds) and begun == extend_seeds(seeds, len(begun)) else seeds
    )


def _record(folder: Path) -> dict[str, Any]:
    return read_object_or_empty(folder / "experiment.json")


def _looks_of(folder: Path) -> Mapping[int, float]:
    return parse_looks(_record(folder).get("looks") or None, str(folder / "experiment.json"), [])


def extend_seeds(seeds: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Returns `count` seeds: these, and the lowest numbers that are not among them."""
    found, number = list(seeds), 0
    while len(found) < count:
        if number not in found:
            found.append(number)
        number += 1
    return tuple(found)
