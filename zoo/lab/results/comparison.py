"""Compares manually chosen runs as a sweep, with arms for the config keys in which they differ."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from zoo.config import NOT_RESULT_RELEVANT, derivable
from zoo.errors import ConfigError
from zoo.lab.results.comparison_caveats import comparison_caveats
from zoo.lab.results.run_records import RunRecord, differing_keys, load_run
from zoo.lab.results.schema import Arm, factor_labels
from zoo.lab.results.sweep_results import SweepResults
from zoo.nested import flatten


def _short_keys(keys: list[str]) -> dict[str, str]:
    """Maps each dotted key to its last part where that is unambiguous."""
    leaves = [key.rsplit(".", 1)[-1] for key in keys]
    return {key: leaf if leaves.count(leaf) == 1 else key for key, leaf in zip(keys, leaves, strict=True)}


def _distinguishing_keys(runs: list[RunRecord]) -> list[str]:
    """Returns the differing keys that can change a result.

    Keys that are derived from others are left out if the others distinguish all runs.
    """
    keys = [key for key in differing_keys([run.config for run in runs]) if key not in NOT_RESULT_RELEVANT]
    chosen = [key for key in keys if not derivable(key)]
    flats = [flatten(run.config) for run in runs]

    def kinds(some: list[str]) -> int:
        return len({tuple(_text(flat.get(key)) for key in some) for flat in flats})

    return chosen if kinds(chosen) == kinds(keys) else keys


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def load_comparison(folders: list[str | Path]) -> SweepResults:
    """Reads any runs and groups those that differ only in the seed into arms.

    Whatever else differs between arms, e.g. what their evaluations score, is a warning. A second run
    of the same config and seed becomes an arm of its own, so that a repetition can be compared.

    Raises:
        ConfigError: folders are missing, damaged or named twice; one line per problem.
    """
    runs: list[RunRecord] = []
    problems: list[str] = []
    seen: set[Path] = set()
    for folder in map(Path, folders):
        if folder.resolve() in seen:
            problems.append(f"{folder}: named twice")
            continue
        seen.add(folder.resolve())
        try:
            runs.append(load_run(folder))
        except ConfigError as error:
            problems += error.problems
    if not folders:
        problems.append("no run folders are given")
    if problems:
        raise ConfigError(problems)

    names = _short_keys(_distinguishing_keys(runs))
    groups: list[tuple[dict[str, str], list[RunRecord]]] = []
    for run in runs:
        flat = flatten(run.config)
        factors = {name: _text(flat[key]) for key, name in names.items() if key in flat}
        copies = [members for found, members in groups if found == factors]
        free = next((members for members in copies if run.seed not in {member.seed for member in members}), None)
        if free is None:
            groups.append((factors, [run]))
        else:
            free.append(run)

    arms, placed = [], []
    fallback = [members[0].folder.resolve().name for _, members in groups]
    labels = factor_labels([factors for factors, _ in groups], fallback)
    for (factors, members), label in zip(groups, labels, strict=True):
        # Folders in different places may have one name, so the index makes the arm's name unique.
        name = f"{len(arms) + 1}: {label}"
        total = members[0].meta.get("parameters")
        arms.append(Arm(name, label, factors, parameters=total if isinstance(total, dict) else {}))
        placed += [replace(run, arm=name) for run in members]
    written = {key for run in runs for row in run.rows for key in row}
    metric = "train/loss" if "train/loss" in written and "eval/loss" not in written else "eval/loss"
    seeds = sorted({run.seed for run in runs})
    warnings = comparison_caveats(arms, placed, metric)
    return SweepResults(Path("."), "Comparison of runs", metric, arms, placed, seeds, warnings=warnings)
