"""The progress of a sweep in words: "Running, 4 of 12 runs, about 9 min"."""

import os

from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.sweep_results import SweepResults
from zoo.training.records.run_folder import RunFolder

ENDED = ("done", "diverged", "failed")
# A run that has written nothing for so long is taken for one whose process has ended.
SILENT_SECONDS = 1800


def progress_line(sweep: SweepResults) -> str:
    """Returns how many runs have ended and about how long the others take; empty if all have ended."""
    ended = sum(run.state in ENDED for run in sweep.runs)
    if ended == len(sweep.runs):
        return ""
    silent = [RunFolder(run.folder).silent for run in sweep.runs if run.state == "running"]
    active = [seconds for seconds in silent if seconds is not None and seconds < SILENT_SECONDS]
    if not active:
        return f"Unfinished, {ended} of {len(sweep.runs)} runs"
    left = seconds_left(sweep, len(active))
    return f"Running, {ended} of {len(sweep.runs)} runs" + ("" if left is None else f", about {_duration(left)}")


def seconds_left(sweep: SweepResults, at_once: int) -> float | None:
    """Returns the seconds until the last run ends, if as many as now train at once; None if no run
    tells how long one takes.
    """
    took = {arm.name: [] for arm in sweep.arms}
    for run in sweep.runs:
        if run.state == "done" and (seconds := _wall_seconds(run)):
            took[run.arm].append(seconds)
    every = [seconds for found in took.values() for seconds in found]
    if not every:
        every = [run.seconds / share for run in sweep.runs if run.seconds and (share := _share(run)) > 0]
    if not every:
        return None
    total = 0.0
    for run in sweep.runs:
        if run.state not in ENDED:
            known = took[run.arm] or every
            total += sum(known) / len(known) * (1 - _share(run))
    return total / max(1, at_once)


def _share(run: RunRecord) -> float:
    """Returns the share of a run's updates that are done."""
    steps = run.status.get("steps")
    newest = max(run.step, int(run.rows[-1]["step"]) if run.rows else 0)
    return min(1.0, newest / steps) if isinstance(steps, int) and steps > 0 else 0.0


def _wall_seconds(run: RunRecord) -> float:
    """Returns the seconds from the start of a run to its end, with compilation and evaluation where
    the times of its files tell them, and at least those of training.
    """
    trained = run.seconds or 0.0
    try:
        whole = os.stat(run.folder / "status.json").st_mtime - os.stat(run.folder / "meta.json").st_mtime
    except OSError:
        return trained
    # A run that was continued on another day did not take that long.
    return max(trained, min(whole, 10 * trained + 60))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
