"""Caveats of a sweep: reasons to doubt its comparisons that the numbers do not show."""

import json
from collections import Counter
from typing import Any

from zoo.errors import listed
from zoo.lab.declarations import TAKEN_FROM
from zoo.lab.formatting import count
from zoo.lab.planning.evaluations import several_fields
from zoo.lab.results.instability import instability_caveats
from zoo.lab.results.run_records import data_fingerprints, differing_keys
from zoo.lab.results.schema import as_list, as_text, mix_kernels, numerics, starts
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.testability import testability_notes
from zoo.lab.results.token_caveats import token_caveats
from zoo.lab.results.tuned_metric import judged_by_another_metric
from zoo.lab.results.tuning_misfit import sweep_misfits
from zoo.training.records.extension import recorded_extensions

# Entries of meta.json, and of each of its "resumed", that should be the same in all runs.
SHARED = {
    "versions": "software versions",
    "device": "devices",
    "processor": "processors",
    "zoo": "versions of zoo",
    "commit": "commits",
    "data": "data",
}


def _fingerprint(key: str, value: Any) -> str:
    # Only the content of the data counts; descriptions may mention paths.
    if key == "data" and isinstance(value, dict) and "fingerprint" in value:
        value = value["fingerprint"]
    return json.dumps(value, sort_keys=True)


def _tuned_on_other_data(sweep: SweepResults) -> list[str]:
    """Returns a line if tuning runs that were taken over from an archived result had other data."""
    theirs = as_list(sweep.tuning.get("data"))
    other = set(data_fingerprints(sweep.runs)) - set(map(as_text, theirs))
    return ["the tuning runs, which were taken over, read other data"] if theirs and other else []


def sweep_caveats(sweep: SweepResults) -> list[str]:
    """Returns one line for each caveat.

    These are the experiment's own warnings, what keeps its rules from being judged, runs that did
    not finish or end far off, tuning curves that do not describe their runs, unequal conditions and
    damaged files.
    """
    found = [*sweep.warnings, *testability_notes(sweep), *_ended_badly(sweep)]
    found += instability_caveats(sweep)
    found += sweep_misfits(sweep)
    found += judged_by_another_metric(sweep)
    found += _differences_of_contrasts(sweep)
    if empty := [run.folder.name for run in sweep.runs if run.state == "done" and not run.rows]:
        found.append(f"{count(len(empty), 'run')} done, but without values in metrics.jsonl: {listed(empty, 6)}")
    if undone := [run for run in sweep.prerequisites if run.state != "done"]:
        found.append(
            f"{count(len(undone), 'prerequisite run')} not done, so the runs that start from them cannot start: "
            f"{listed([f'{run.folder.name} ({run.state})' for run in undone], 6)}"
        )
    described = [run for run in sweep.runs if run.meta]
    programs = [start for run in described for start in starts(run.meta)]
    found += [
        f"the runs used different {words}: their results may differ for reasons other than the arms"
        for key, words in SHARED.items()
        # Older runs did not record all of it. Code outside of a repository has the commit None.
        if len({_fingerprint(key, start[key]) for start in programs if key in start}) > 1
    ]
    found += _tuned_on_other_data(sweep)
    found += token_caveats(described)
    if len(kinds := sorted({numerics(run.meta) for run in described})) > 1:
        found.append(
            f"the runs were computed by different executors and are not compared with each other: {', '.join(kinds)}"
        )
    if mix_kernels(run.meta for run in described):
        found.append(
            "the runs are of versions of zoo that chose different kernels of attention, and runs with different ones "
            "are not compared with each other"
        )
    found += _taken(sweep)
    longer: dict[str, list[str]] = {}
    for run in described:
        for extension in recorded_extensions(run.meta):
            longer.setdefault(str(extension), []).append(run.folder.name)
    found += [
        f"{count(len(names), 'run')} trained longer than first planned, which may have been decided from results: "
        f"{listed(names, 6)} ({extension})"
        for extension, names in longer.items()
    ]
    for arm in sweep.arms:
        keys = differing_keys([run for run in sweep.runs_of(arm.name) if run.config])
        if keys:
            found.append(f"runs of the arm {arm.label} differ in fields other than the seed: {', '.join(keys)}")
    found += [f"{run.folder.name}: {line}" for run in (*sweep.runs, *sweep.prerequisites) for line in run.faults]
    found += [
        f"{run.folder.name}: {count(run.unreadable_lines, 'line')} of metrics.jsonl could not be read and were skipped"
        for run in sweep.runs
        if run.unreadable_lines
    ]
    found += [
        f"{run.folder.name}: {count(run.disordered_lines, 'line')} of metrics.jsonl "
        f"{'repeats or precedes' if run.disordered_lines == 1 else 'repeat or precede'} earlier steps; of several "
        "values for a step the last counts"
        for run in sweep.runs
        if run.disordered_lines
    ]
    return found


def _ended_badly(sweep: SweepResults) -> list[str]:
    """Returns a line for each way in which runs did not end well."""
    words = {
        "failed": "failed",
        "diverged": "diverged",
        "missing": "not started",
        "preempted": "preempted and not resumed",
    }
    lines = []
    for state, text in words.items():
        if runs := [run for run in sweep.runs if run.state == state]:
            lines.append(f"{count(len(runs), 'run')} {text}: {listed([run.folder.name for run in runs], 6)}")
    return lines


def _taken(sweep: SweepResults) -> list[str]:
    """Returns a line for runs that were trained for other sweeps."""
    origins = [str(run.meta[TAKEN_FROM]).partition("/")[0] for run in sweep.runs if run.meta.get(TAKEN_FROM)]
    if not origins:
        return []
    names = [f"{name} ({number})" for name, number in Counter(origins).items()]
    return [
        f"{count(len(origins), 'run')} taken from other sweeps ({listed(names, 6)}), where the results could be seen "
        "before these rules were stated; a verdict there and one here rest on the same runs"
    ]


def _differences_of_contrasts(sweep: SweepResults) -> list[str]:
    """Returns a line for each contrast of two arms whose runs differ in several fields."""
    lines = []
    for contrast in sweep.contrasts:
        runs = [next((run for run in sweep.runs_of(side.arm) if run.config), None) for side in (contrast.b, contrast.a)]
        if None not in runs and contrast.a.arm != contrast.b.arm:
            one, other = (sweep.arm(run.arm) for run in runs)
            given = one.overrides.keys() | other.overrides.keys()
            lines.append(several_fields(one.label, runs[0].config, other.label, runs[1].config, given))
    return list(dict.fromkeys(filter(None, lines)))
