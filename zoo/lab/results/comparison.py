"""Compares manually chosen runs as a sweep, with arms for the config keys in which they differ."""

import itertools
import json
from collections.abc import Mapping, Sequence
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
    keys = [key for key in differing_keys(runs) if key not in NOT_RESULT_RELEVANT]
    chosen = [key for key in keys if not derivable(key)]
    flats = [flatten(run.config) for run in runs]

    def kinds(some: list[str]) -> int:
        return len({tuple(_text(flat.get(key)) for key in some) for flat in flats})

    return chosen if kinds(chosen) == kinds(keys) else keys


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _folder_names(groups: Sequence[Sequence[RunRecord]]) -> list[str]:
    """Returns a name for each group of runs: that of its folder, or what the names of several have in
    common; with the parent folder where two would be called alike.
    """
    found = []
    for members in groups:
        names = [run.folder.resolve().name for run in members]
        same = itertools.takewhile(lambda signs: len(set(signs)) == 1, zip(*names, strict=False))
        found.append("".join(signs[0] for signs in same).rstrip("-_. ") or names[0])
    return [
        name if found.count(name) == 1 else f"{members[0].folder.resolve().parent.name}/{name}"
        for name, members in zip(found, groups, strict=True)
    ]


def _arm_labels(
    groups: Sequence[tuple[dict[str, str], list[RunRecord]]], called: Mapping[Path, str], many_keys: bool
) -> list[str]:
    """Returns what each group is called: by the user, by its folders, or by the keys that differ.

    Raises:
        ConfigError: two groups have one name.
    """
    by_folder = _folder_names([members for _, members in groups])
    labels = by_folder if many_keys else factor_labels([found for found, _ in groups], by_folder)
    labels = [called.get(members[0].folder, label) for (_, members), label in zip(groups, labels, strict=True)]
    if repeated := sorted({label for label in called.values() if labels.count(label) > 1}):
        raise ConfigError(
            [f"--name {label}: two arms have this name; their configs or seeds differ" for label in repeated]
        )
    return [
        label if labels.count(label) == 1 else f"{label} ({labels[: place + 1].count(label)})"
        for place, label in enumerate(labels)
    ]


# With more differing keys their values make a name that nobody reads.
MAX_KEYS_IN_NAME = 3


def load_comparison(folders: Sequence[str | Path], names: Mapping[str, str] | None = None) -> SweepResults:
    """Reads any runs and groups those that differ only in the seed into arms.

    Arms are called by the keys in which they differ, or by their folders if these are more than
    three. Whatever else differs between arms, e.g. what their evaluations score, is a warning. A
    second run of the same config and seed becomes an arm of its own, so that a repetition can be
    compared.

    Args:
        folders: run folders.
        names: {folder: name of its arm}, for some of the folders or for none.

    Raises:
        ConfigError: folders are missing, damaged or named twice; one line per problem.
    """
    called = {Path(folder): name for folder, name in (names or {}).items()}
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

    keys = _short_keys(_distinguishing_keys(runs))
    groups: list[tuple[dict[str, str], list[RunRecord]]] = []
    for run in runs:
        flat = flatten(run.config)
        factors = {name: _text(flat[key]) for key, name in keys.items() if key in flat}
        copies = [
            members
            for found, members in groups
            if found == factors and called.get(members[0].folder) == called.get(run.folder)
        ]
        free = next((members for members in copies if run.seed not in {member.seed for member in members}), None)
        if free is None:
            groups.append((factors, [run]))
        else:
            free.append(run)

    labels = _arm_labels(groups, called, len(keys) > MAX_KEYS_IN_NAME)
    arms, placed = [], []
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
