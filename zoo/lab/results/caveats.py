"""What makes a comparison doubtful: told on the page, whatever the numbers say."""

import json
from typing import Any

from zoo.lab.formatting import count, first_few
from zoo.lab.results.run_records import differing_keys
from zoo.lab.results.schema import numerics
from zoo.lab.results.sweep_results import SweepResults

# meta.json entries in which the runs of one comparison should agree.
SHARED = {"versions": "software versions", "device": "devices", "commit": "commits", "data": "data"}


def _fingerprint(key: str, value: Any) -> str:
    # Of the data only the content counts: descriptions may mention paths.
    if key == "data" and isinstance(value, dict) and "fingerprint" in value:
        value = value["fingerprint"]
    return json.dumps(value, sort_keys=True)


def sweep_caveats(sweep: SweepResults) -> list[str]:
    """Warnings of the experiment itself, then runs that did not finish, unlike conditions and
    damaged files.
    """
    found = list(sweep.warnings)
    words = {
        "failed": "failed",
        "diverged": "diverged",
        "missing": "not started",
        "preempted": "preempted and not continued",
    }
    for state, text in words.items():
        runs = [run for run in sweep.runs if run.state == state]
        if runs:
            found.append(f"{count(len(runs), 'run')} {text}: {first_few([run.folder.name for run in runs])}")
    if undone := [run for run in sweep.prepared if run.state != "done"]:
        found.append(
            f"{count(len(undone), 'prepared run')} not done, and what starts from there cannot start: "
            f"{first_few([f'{run.folder.name} ({run.state})' for run in undone])}"
        )
    described = [run for run in sweep.runs if run.meta]
    found += [
        f"the runs were made with different {words}: their differences may not come from the arms alone"
        for key, words in SHARED.items()
        if len({_fingerprint(key, run.meta.get(key)) for run in described}) > 1
    ]
    if len(kinds := sorted({numerics(run.meta) for run in described})) > 1:
        found.append(
            f"the runs were computed in ways that round differently, and are not compared with each other: {', '.join(kinds)}"
        )
    for arm in sweep.arms:
        keys = differing_keys([run.config for run in sweep.runs_of(arm.name) if run.config])
        if keys:
            found.append(f"runs of the arm {arm.label} differ in more than the seed: {', '.join(keys)}")
    found += [
        f"{run.folder.name}: {count(run.unreadable_lines, 'line')} of metrics.jsonl could not be read and were left out"
        for run in sweep.runs
        if run.unreadable_lines
    ]
    return found
