"""Saves the results of a sweep as tables and figures that outlive its run folders.

A sweep becomes a folder of its name with

    result.json    question, rules, verdict, arms with the hashes of their configs, and what it ran on:
                   commit, hash of the data, versions, devices, processor
    runs.csv       a line per run: arm, seed, state, updates, tokens, seconds, every final metric
    contrasts.csv  a line per contrast: the difference, its interval, the rule, the outcome
    differences.csv  a line per arm but the first: its difference from that, paired by seed, and its
                   worth in tokens
    tuning.csv     a line per tuned value and seed, if something was tuned
    *.png          the report's plots; by_*.png are drawn from the tables (`level_plot`)

`zoo.lab.report.archive.results_index` makes one page of all such folders.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, not_writable
from zoo.files import write_atomic, write_json
from zoo.lab.declarations import EXPERIMENT_NAME
from zoo.lab.measures import MEASURE_PREFIX, compute_missing_measures, measure_metrics
from zoo.lab.metrics import STEPS_TO_PREFIX
from zoo.lab.report.archive.experiment_page import TIMES_THE_TOKENS
from zoo.lab.report.figures import write_figures
from zoo.lab.results.arm_effects import baseline_effects
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.curves import baseline_differences, final_values
from zoo.lab.results.floor_lines import floor_lines
from zoo.lab.results.notes import read_notes
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import as_dict, as_text
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.tuning_grid import load_tuning_grid
from zoo.lab.results.verdict import judge, rule_text
from zoo.lab.statistics.paired import holm, spread

# A path that begins with a slash, at the start or after a separator; "://" belongs to an address.
ABSOLUTE = re.compile(r"(?:^|(?<=[=,])|(?<=:)(?!//))/[^=,:]*")
SHOWN_METRICS = ("eval/", MEASURE_PREFIX, STEPS_TO_PREFIX)
TABLES = ("runs.csv", "contrasts.csv", "differences.csv", "tuning.csv")


def archive_sweeps(folders: Sequence[Path], output: Path, tell: Callable[[str], None]) -> list[Path]:
    """Archives finished sweeps, of which measures that are still missing are computed first.

    Args:
        folders: of the sweeps.
        output: the folder of the archive.
        tell: is called with lines about the progress.

    Returns:
        The folders of the archived results.

    Raises:
        ConfigError: a sweep is given twice, or two would be archived in the same folder; or as
            `archive_results`.
    """
    places = Counter(folder.resolve() for folder in folders)
    if twice := [f"{folder} is given twice" for folder, times in places.items() if times > 1]:
        raise ConfigError(twice)
    for folder in folders:
        compute_missing_measures(folder, tell)
    # All sweeps are read before anything is written.
    sweeps = [load_sweep(folder) for folder in folders]
    for name, count in Counter(sweep.name for sweep in sweeps).items():
        if count > 1:
            raise ConfigError(
                f"{count} of these sweeps are named {name} and would be archived in the same folder; archive each with "
                "a different --output"
            )
    return [archive_results(sweep, output) for sweep in sweeps]


def archive_results(sweep: SweepResults, output: Path) -> Path:
    """Writes a finished sweep's tables and figures into a folder of its name, and returns it.

    Args:
        sweep: with all runs ended.
        output: parent of the folder.

    Raises:
        ConfigError: a run has not ended; the metrics of a run are missing; the sweep's name is not
            valid as a folder name; a table of tuned rates would be lost; or the folder cannot be
            written.
    """
    if left := [run.folder.name for run in sweep.runs if not run.finished]:
        raise ConfigError(
            f"{sweep.folder}: {len(left)} of {len(sweep.runs)} runs have not ended, beginning with {left[0]}; "
            "zoo run resumes them"
        )
    if lost := [run.folder.name for run in sweep.runs if run.state == "done" and not run.rows]:
        raise ConfigError(
            f"{sweep.folder}: {len(lost)} of {len(sweep.runs)} runs are done, but their metrics.jsonl has no values, "
            f"beginning with {lost[0]}; restore it, or remove the run's folder and let zoo run train it again"
        )
    if not EXPERIMENT_NAME.fullmatch(sweep.name):
        raise ConfigError(
            f"{sweep.folder}: its name {sweep.name!r} is used as a folder name: up to 100 letters, digits and ._=-, "
            "not beginning with a dot"
        )
    folder, rates = output / sweep.name, load_tuning_grid(sweep.folder, sweep.tuning)
    if not rates and (folder / "tuning.csv").exists():
        raise ConfigError(
            f"{folder / 'tuning.csv'} would be lost, because {sweep.folder} has no tuning runs; remove that file "
            "first, or archive elsewhere with --output"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for old in (*folder.glob("*.csv"), *folder.glob("*.png")):
            old.unlink()
        write_atomic(folder / "runs.csv", _csv(_runs(sweep)))
        if sweep.contrasts:
            write_atomic(folder / "contrasts.csv", _csv(_contrasts(sweep)))
        if len(sweep.arms) > 1:
            write_atomic(folder / "differences.csv", _csv(_differences(sweep)))
        if rates:
            write_atomic(
                folder / "tuning.csv",
                _csv(
                    {
                        "arm": arm,
                        rates.field: point.value,
                        "seed": seed,
                        rates.metric: score,
                        "chosen": point.value == rates.chosen.get(arm),
                    }
                    for arm, points in rates.arms.items()
                    for point in points
                    for seed, score in point.scores.items()
                ),
            )
        pictures = [path.name for path in write_figures(sweep, folder) if path.suffix == ".png"]
        for path in folder.glob("*.svg"):
            path.unlink()
        tables = sorted((path.name for path in folder.glob("*.csv")), key=TABLES.index)
        write_json(folder / "result.json", _finite(_result(sweep) | {"tables": tables, "pictures": pictures}))
    except OSError as error:
        raise not_writable(folder, error) from error
    return folder


def _finite(value: Any) -> Any:
    """Replaces numbers that are not finite by None, which JSON can hold."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _strip_paths(value: Any) -> Any:
    """Reduces absolute paths to their last part, because they mean nothing on another machine.

    They may be part of a value, as in "text:/data/x.txt" and "bert.py:from=/runs/a".
    """
    return ABSOLUTE.sub(lambda path: Path(path[0]).name, value) if isinstance(value, str) else value


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()} for row in rows
    )
    return file.getvalue()


def _final_metrics(run: RunRecord) -> dict[str, float]:
    """Returns all final metrics of a run, evaluated and measured."""
    names = sorted({name for row in run.rows for name in row if name.startswith(SHOWN_METRICS)})
    return {name: value for name in names if (value := run.final(name)) is not None}


def _runs(sweep: SweepResults) -> Iterable[dict[str, Any]]:
    for run in sweep.runs:
        last = run.rows[-1] if run.rows else {}
        yield {
            "arm": sweep.arm(run.arm).label,
            "seed": run.seed,
            "state": run.state,
            "step": run.step,
            "tokens": int(last.get("tokens", 0)),
            "seconds": run.seconds,
            **_final_metrics(run),
        }


def _contrasts(sweep: SweepResults) -> Iterable[dict[str, Any]]:
    for outcome in judge(sweep).outcomes:
        contrast, difference = outcome.contrast, outcome.difference
        yield {
            "contrast": contrast.name,
            "claim": contrast.claim,
            "a": sweep.arm(contrast.a.arm).label,
            "b": sweep.arm(contrast.b.arm).label,
            "metric a": contrast.a.metric,
            "metric b": contrast.b.metric,
            "a - b": difference.mean,
            "low": difference.low,
            "high": difference.high,
            "pairs": difference.n,
            "rule": f"{contrast.rule}: {rule_text(contrast, sweep.unit)}",
            "outcome": outcome.outcome,
        }


def _differences(sweep: SweepResults) -> Iterable[dict[str, Any]]:
    found, units = baseline_differences(sweep), baseline_effects(sweep)
    for (name, difference), p in zip(found.items(), holm([one.p for one in found.values()]), strict=True):
        yield {
            "arm": sweep.arm(name).label,
            "baseline": sweep.arms[0].label,
            "difference": difference.mean,
            "low": difference.low,
            "high": difference.high,
            "pairs": difference.n,
            "p": difference.p,
            "p (Holm)": p,
            **({TIMES_THE_TOKENS: tokens.text} if (tokens := units[name].tokens) else {}),
        }


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
        *(side.metric for contrast in sweep.contrasts for side in (contrast.a, contrast.b)),
    ]
    found = {
        metric: spread(final_values(sweep, arm, metric).values())
        for metric in dict.fromkeys(metrics)
        if metric != sweep.metric
    }
    return {metric: {"mean": value.mean, "sd": value.sd} for metric, value in found.items() if value is not None}


def _floors(sweep: SweepResults) -> list[dict[str, Any]]:
    """Returns the floors by the sweep's metric and by all that `_measured` names."""
    metrics = [sweep.metric, *(name for arm in sweep.arms for name in _measured(sweep, arm.name))]
    found: dict[str, dict[str, float]] = {}
    for metric in dict.fromkeys(metrics):
        for line in floor_lines(sweep, metric):
            found.setdefault(line.name, {})[metric] = line.score
    return [{"name": name, "scores": scores} for name, scores in found.items()]


def _result(sweep: SweepResults) -> dict[str, Any]:
    verdict = judge(sweep)
    first = next((run for run in sweep.runs if run.meta), None)
    meta = first.meta if first else {}
    arms = []
    for arm in sweep.arms:
        values = [run.final(sweep.metric) for run in sweep.runs_of(arm.name)]
        found = spread([value for value in values if value is not None and math.isfinite(value)])
        arms.append(
            {
                "name": arm.label,
                "overrides": {path: _strip_paths(value) for path, value in arm.overrides.items()},
                "parameters": arm.parameters.get("total"),
                "configs": [as_text(run.meta.get("identity")) for run in sweep.runs_of(arm.name)],
                "mean": found and found.mean,
                "sd": found and found.sd,
                "seeds": found.n if found else 0,
                **({"measured": measured} if (measured := _measured(sweep, arm.name)) else {}),
            }
        )
    return {
        "name": sweep.name,
        "question": sweep.question,
        "claim": sweep.claim,
        "size": sweep.size,
        **({"corpus": sweep.corpus} if sweep.corpus else {}),
        "metric": sweep.metric,
        "unit": sweep.unit(sweep.metric),
        "seeds": sweep.seeds,
        "verdict": verdict.overall,
        "paragraph": verdict.paragraph,
        "expected": [contrast.expected for contrast in sweep.contrasts],
        "arms": arms,
        **({"floors": floors} if (floors := _floors(sweep)) else {}),
        "warnings": sweep_caveats(sweep),
        **({"notes": notes} if (notes := read_notes(sweep.folder)) else {}),
        "tuning": sweep.tuning or None,
        "command": [_strip_paths(word) for word in sweep.command],
        "device": meta.get("device"),
        "processor": meta.get("processor"),
        "versions": meta.get("versions"),
        "commits": sorted({commit for run in sweep.runs if (commit := as_text(run.meta.get("commit")))}),
        "data": sorted(
            {found for run in sweep.runs if (found := as_text(as_dict(run.meta.get("data")).get("fingerprint")))}
        ),
    }
