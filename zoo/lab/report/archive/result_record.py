"""The record of an archived sweep, result.json: verdicts by claim, looks, tuning and provenance.

A verdict is only as good as the procedure that gave it, so the record names the procedure
(`PROCEDURE`) and keeps what it used: the level of each look, the scores of all tuned values, and
the losses that counts of n-grams reach. Records without that name are older (`EARLIER_PROCEDURE`).
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zoo.lab.declarations import used_metrics
from zoo.lab.floors.record import floors_record
from zoo.lab.measures import measure_metrics
from zoo.lab.planning.trained_on import trained_on
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.contrast_verdict import ContrastVerdict
from zoo.lab.results.curves import final_values
from zoo.lab.results.floor_lines import floor_lines
from zoo.lab.results.notes import read_notes
from zoo.lab.results.run_records import RunRecord, data_fingerprints
from zoo.lab.results.schema import as_text, starts
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import TuningGrid, trained_runs, tuning_entries
from zoo.lab.results.verdict import Verdict
from zoo.lab.statistics.paired import spread

# The procedure of `zoo.lab.results.verdict`, and the one before it.
PROCEDURE = (
    "fitted settings, noise that counts what a seed does to one arm alone, floors beaten by more than the error of "
    "the mean, and each claim by itself"
)
EARLIER_PROCEDURE = "t intervals at given settings"
# The entries about verdicts, which stand in this order after "seeds".
JUDGED = ("procedure", "verdict", "claims", "paragraph", "verdicts_before")
# The ways in which a sweep's settings were tuned.
FITTED, GRID, ELSEWHERE, NONE = "fitted", "grid", "at another size", "none"
# A path that begins with a slash, at the start or after a separator; "://" belongs to an address.
ABSOLUTE = re.compile(r"(?:^|(?<=[=,])|(?<=:)(?!//))/[^=,:]*")
_DIRTY = "-dirty"


def result_record(
    sweep: SweepResults, verdict: Verdict, grid: TuningGrid | None, further: Sequence[TuningGrid | None] = ()
) -> dict[str, Any]:
    """Returns result.json of a finished sweep, without its tables and pictures.

    Args:
        sweep: with all runs ended.
        verdict: of `judge`.
        grid: the results of tuning, if something was tuned.
        further: those of further numbers.
    """
    first = next((run for run in sweep.runs if run.meta), None)
    meta = first.meta if first else {}
    return {
        "name": sweep.name,
        "question": sweep.question,
        "claim": sweep.claim,
        "size": sweep.size,
        **({"corpus": sweep.corpus} if sweep.corpus else {}),
        "metric": sweep.metric,
        "unit": sweep.unit(sweep.metric),
        "seeds": sweep.seeds,
        **verdict_record(verdict),
        "expected": [contrast.expected for contrast in sweep.contrasts],
        "arms": [_arm(sweep, arm.name) for arm in sweep.arms],
        **floors_of_sweep(sweep),
        "warnings": sweep_caveats(sweep),
        **({"notes": notes} if (notes := read_notes(sweep.folder)) else {}),
        "looks": {str(seeds): level for seeds, level in sweep.looks.items()},
        "noise": {metric: asdict(noise) for metric, noise in sweep.noise.items()},
        "tuned": tuning_method(sweep.tuning),
        "tuning": tuning_record(sweep.tuning, grid, further),
        "command": [strip_paths(word) for word in sweep.command],
        "device": meta.get("device"),
        "processor": meta.get("processor"),
        "versions": meta.get("versions"),
        **commits_record(commits_of(trained_runs(sweep))),
        "data": data_fingerprints(sweep.runs),
        **{
            name: [strip_paths(value) for value in values]
            for name, values in trained_on(run.config for run in sweep.runs).items()
        },
    }


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """Returns the entries of result.json that depend on the procedure of judging."""
    return {
        "procedure": PROCEDURE,
        "verdict": verdict.overall,
        "claims": {claim: found for claim, found in verdict.claims.items() if claim},
        "paragraph": verdict.paragraph,
    }


def earlier_verdicts(
    before: Mapping[str, Any], outcomes: Mapping[str, str], record: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Returns the entry "verdicts_before" of a result that takes the place of another of its name: the
    verdicts that the other had, and its last one if some of its runs are not among the new ones, or
    other code has trained them again.

    Args:
        before: result.json of the other.
        outcomes: of its contrasts.
        record: of the new result.
    """
    kept = list(before.get("verdicts_before", ()))
    old, new = ({run for arm in each["arms"] for run in arm.get("configs") or ()} for each in (before, record))
    if old <= new and set(before.get("commits") or ()) <= set(record.get("commits") or ()):
        return kept
    last = {
        "procedure": f"{before.get('procedure', EARLIER_PROCEDURE)}, on other runs",
        "verdict": before["verdict"],
        "claims": before.get("claims", {}),
        "paragraph": before["paragraph"],
        "outcomes": dict(outcomes),
    }
    return [*kept, last]


def in_order(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns result.json with the entries about verdicts (`JUDGED`) after the seeds."""
    names = [name for name in record if name not in JUDGED]
    place = names.index("seeds") + 1
    order = [*names[:place], *(name for name in JUDGED if name in record), *names[place:]]
    return {name: record[name] for name in order}


def deciding_reason(outcome: ContrastVerdict) -> str:
    """Returns why a contrast has its outcome; an empty text where that is its interval alone."""
    remarks = ("decided at ", "the difference is exactly the same")
    # The last note that changed the outcome is the one that counts.
    return next((note for note in reversed(outcome.notes) if not note.startswith(remarks)), "")


def tuning_method(tuning: Mapping[str, Any]) -> str:
    """Returns how the settings of the arms were tuned, from the entry of experiment.json."""
    if not tuning.get("chosen"):
        return NONE
    if tuning.get("tuned_at"):
        return ELSEWHERE
    return FITTED if tuning.get("curves") else GRID


def tuning_record(
    tuning: Mapping[str, Any], grid: TuningGrid | None, further: Sequence[TuningGrid | None] = ()
) -> dict[str, Any] | None:
    """Returns the entry "tuning": that of experiment.json, with the fitted curves that it has, and
    under "scores" what all tuning runs gave, {arm: {value: {seed: score}}}; those of further numbers
    under "further". None without tuning.
    """
    if not grid:
        return dict(tuning) or None
    others = [
        {**entry, "scores": _scores(other)} if other else entry
        for entry, other in zip(tuning_entries(tuning)[1:], further, strict=False)
    ]
    return {**tuning, **({"further": others} if others else {}), "scores": _scores(grid)}


def _scores(grid: TuningGrid) -> dict[str, Any]:
    return {
        arm: {f"{point.value:g}": {str(seed): score for seed, score in point.scores.items()} for point in points}
        for arm, points in grid.arms.items()
    }


def commits_of(runs: Iterable[RunRecord]) -> list[str]:
    """Returns the commits of the code that trained some runs, also after they were resumed, in
    alphabetical order.
    """
    records = (start for run in runs for start in starts(run.meta))
    return sorted({commit for start in records if (commit := as_text(start.get("commit")))})


def commits_record(commits: Iterable[str]) -> dict[str, Any]:
    """Returns the entries of result.json about the code: "commits", and "uncommitted" if the code of
    a run was in no commit.
    """
    commits = list(commits)
    return {"commits": commits, **({"uncommitted": True} if uncommitted(commits) else {})}


def uncommitted(commits: Iterable[str]) -> list[str]:
    """Returns the commits to which the code that ran had changes."""
    return [commit for commit in commits if commit.endswith(_DIRTY)]


def finite_numbers(value: Any) -> Any:
    """Replaces numbers that are not finite by None, which JSON can hold."""
    if isinstance(value, dict):
        return {key: finite_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite_numbers(each) for each in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def strip_paths(value: Any) -> Any:
    """Reduces absolute paths to their last part, because they mean nothing on another machine.

    They may be part of a value, as in "text:/data/x.txt" and "bert.py:from=/runs/a".
    """
    return ABSOLUTE.sub(lambda path: Path(path[0]).name, value) if isinstance(value, str) else value


def _arm(sweep: SweepResults, name: str) -> dict[str, Any]:
    arm, runs = sweep.arm(name), sweep.runs_of(name)
    values = [run.final(sweep.metric) for run in runs]
    found = spread([value for value in values if value is not None and math.isfinite(value)])
    return {
        "name": arm.label,
        "overrides": {path: strip_paths(value) for path, value in arm.overrides.items()},
        "parameters": arm.parameters.get("total"),
        **({"active_parameters": active} if (active := arm.parameters.get("active")) else {}),
        "configs": [as_text(run.meta.get("identity")) for run in runs],
        "mean": found and found.mean,
        "sd": found and found.sd,
        "seeds": found.n if found else 0,
        **({"measured": measured} if (measured := _measured(sweep, name)) else {}),
        **({"floors": floors_record(sweep.floors[name])} if name in (sweep.floors or {}) else {}),
    }


def floors_of_sweep(sweep: SweepResults) -> dict[str, Any]:
    """Returns the entry "floors" of result.json, [{"name", "scores": {metric: score}}], by the sweep's
    metric and by all that arms have besides it; no entry without floors.
    """
    metrics = [sweep.metric, *(name for arm in sweep.arms for name in _measured(sweep, arm.name))]
    found: dict[str, dict[str, float]] = {}
    for metric in dict.fromkeys(metrics):
        for line in floor_lines(sweep, metric):
            found.setdefault(line.name, {})[metric] = line.score
    return {"floors": [{"name": name, "scores": scores} for name, scores in found.items()]} if found else {}


def _measured(sweep: SweepResults, arm: str) -> dict[str, Any]:
    """Returns {metric: mean and standard deviation over seeds} of what an arm has besides the
    sweep's metric: measures, that metric at other lengths, and what contrasts name.
    """
    lengths = [
        name for name in sweep.metrics() if name.startswith(f"{sweep.metric}@") and name.rpartition("@")[2].isdigit()
    ]
    metrics = [
        *(metric for name in sweep.measures for metric in measure_metrics(name)),
        *sorted(lengths, key=lambda metric: int(metric.rpartition("@")[2])),
        *used_metrics(sweep.metric, sweep.contrasts),
    ]
    found = {
        metric: spread(final_values(sweep, arm, metric).values())
        for metric in dict.fromkeys(metrics)
        if metric != sweep.metric
    }
    return {metric: {"mean": value.mean, "sd": value.sd} for metric, value in found.items() if value is not None}
