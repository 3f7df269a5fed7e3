"""Saves the results of a sweep as tables and figures that outlive its run folders.

A sweep becomes a folder of its name with

    result.json    question, rules, verdicts by claim, looks, tuning curves, arms with the hashes of
                   their configs, and what it ran on: commit, hash of the data, versions, devices,
                   processor
    runs.csv       a line per run: arm, seed, state, updates, tokens, seconds, every final metric
    contrasts.csv  a line per contrast: the difference, its interval, the rule, the outcome and why
    differences.csv  a line per arm but the first: its difference from that, paired by seed, and its
                   worth in tokens
    tuning.csv     a line per tuned value and seed, if something was tuned; of a second number in
                   tuning-NAME.csv
    *.png          the report's plots; by_*.png are drawn from the tables (`level_plot`)

`zoo.lab.report.archive.results_index` makes one page of all such folders.
"""

import csv
import io
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, not_writable
from zoo.files import read_json, write_atomic, write_json
from zoo.lab.declarations import EXPERIMENT_NAME
from zoo.lab.measures import MEASURE_PREFIX, compute_missing_measures
from zoo.lab.metrics import STEPS_TO_PREFIX
from zoo.lab.report.archive.experiment_page import TIMES_THE_TOKENS, read_contrasts
from zoo.lab.report.archive.result_record import (
    commits_of,
    deciding_reason,
    earlier_verdicts,
    finite_numbers,
    in_order,
    result_record,
    uncommitted,
)
from zoo.lab.report.figures import write_figures
from zoo.lab.results.decision_rules import rule_text
from zoo.lab.results.differences import arm_differences
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.tuning_grid import TuningGrid, load_tuning_grid, trained_runs, tuning_entries
from zoo.lab.results.verdict import Verdict, judge

SHOWN_METRICS = ("eval/", MEASURE_PREFIX, STEPS_TO_PREFIX)
TABLES = ("runs.csv", "contrasts.csv", "differences.csv", "tuning.csv")


def archive_sweeps(
    folders: Sequence[Path], output: Path, tell: Callable[[str], None], allow_dirty: bool = False
) -> list[Path]:
    """Archives finished sweeps, of which measures that are still missing are computed first.

    Args:
        folders: of the sweeps.
        output: the folder of the archive.
        tell: is called with lines about the progress.
        allow_dirty: archive also what uncommitted code has trained, and mark it.

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
    return [archive_results(sweep, output, allow_dirty) for sweep in sweeps]


def archive_results(sweep: SweepResults, output: Path, allow_dirty: bool = False) -> Path:
    """Writes a finished sweep's tables and figures into a folder of its name, and returns it.

    Args:
        sweep: with all runs ended.
        output: parent of the folder.
        allow_dirty: archive also what uncommitted code has trained, and mark it.

    Raises:
        ConfigError: a run has not ended; the metrics of a run are missing; the code of a run is in no
            commit; the sweep's name is not valid as a folder name; a table of tuned rates would be
            lost; or the folder cannot be written.
    """
    _check_runs(sweep, allow_dirty)
    folder = output / sweep.name
    grid, *further = [load_tuning_grid(sweep.folder, entry) for entry in tuning_entries(sweep.tuning) or [{}]]
    if not grid and (folder / "tuning.csv").exists():
        raise ConfigError(
            f"{folder / 'tuning.csv'} would be lost, because {sweep.folder} has no tuning runs; remove that file "
            "first, or archive elsewhere with --output"
        )
    verdict = judge(sweep)
    before, outcomes = _replaced(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The files of an earlier archive are replaced when all new ones are written.
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            tables = _write_tables(sweep, verdict, [grid, *further], Path(new))
            pictures = [path.name for path in write_figures(sweep, Path(new), kinds=("png",))]
            record = result_record(sweep, verdict, grid, further) | {"tables": tables, "pictures": pictures}
            if earlier := earlier_verdicts(before, outcomes, record) if before else []:
                record["verdicts_before"] = earlier
            write_json(Path(new) / "result.json", finite_numbers(in_order(record)))
            written = {path.name for path in Path(new).iterdir()}
            for name in sorted(written):
                os.replace(Path(new) / name, folder / name)
        for name in {*before.get("tables", ()), *before.get("pictures", ())} - written:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from error
    return folder


def _write_tables(sweep: SweepResults, verdict: Verdict, grids: Sequence[TuningGrid | None], folder: Path) -> list[str]:
    """Writes the tables of a sweep; returns their names, as `tables_in` does.

    Args:
        sweep: the sweep.
        verdict: on its claims.
        grids: the results of its tunings, None for one without any.
        folder: to write to.
    """
    write_atomic(folder / "runs.csv", csv_text(_runs(sweep)))
    if sweep.contrasts:
        write_atomic(folder / "contrasts.csv", csv_text(contrast_rows(sweep, verdict)))
    if len(sweep.arms) > 1:
        write_atomic(folder / "differences.csv", csv_text(difference_rows(sweep)))
    grid, *further = grids
    if grid:
        write_atomic(folder / "tuning.csv", csv_text(_tuning_rows(grid)))
    for other in filter(None, further):
        write_atomic(folder / f"tuning-{other.field.rpartition('.')[2]}.csv", csv_text(_tuning_rows(other)))
    return tables_in(folder)


def tables_in(folder: Path) -> list[str]:
    """Returns the names of the tables of an archive, in the order in which a page names them."""
    return sorted((path.name for path in folder.glob("*.csv")), key=_place)


def _place(table: str) -> tuple[int, str]:
    """Returns the place of a table among those of an archive."""
    return (TABLES.index(table), "") if table in TABLES else (len(TABLES), table)


def _replaced(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns result.json of an archive that is to be replaced, and the outcomes of its contrasts;
    nothing without one.
    """
    path = folder / "result.json"
    if (folder / "experiment.json").exists():
        raise ConfigError(f"{folder} is the folder of a sweep; archive elsewhere with --output")
    if not path.exists():
        return {}, {}
    try:
        return dict(read_json(path)), {row["contrast"]: row["outcome"] for row in read_contrasts(folder)}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}), and the verdict in it would be lost; restore it, or remove the folder"
        ) from error


def _check_runs(sweep: SweepResults, allow_dirty: bool) -> None:
    """Refuses a sweep that is unfinished, damaged, or of code that is in no commit."""
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
    runs = trained_runs(sweep)
    if not allow_dirty and (found := uncommitted(commits_of(runs))):
        dirty = [run for run in runs if uncommitted(commits_of([run]))]
        raise ConfigError(
            f"{sweep.folder}: {len(dirty)} of {len(runs)} runs were trained by uncommitted code ({found[0]}), so "
            "that nobody can see what ran; commit the code and train them again with zoo run --fresh, or archive them "
            "with --allow-dirty, which marks the result"
        )


def csv_text(rows: Iterable[dict[str, Any]]) -> str:
    """Returns a table with a column for every key, numbers with six digits."""
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


def _tuning_rows(grid: TuningGrid) -> Iterable[dict[str, Any]]:
    for arm, points in grid.arms.items():
        for point in points:
            for seed, score in point.scores.items():
                chosen = point.value == grid.chosen.get(arm)
                yield {"arm": arm, grid.field: point.value, "seed": seed, grid.metric: score, "chosen": chosen}


def contrast_rows(sweep: SweepResults, verdict: Verdict) -> Iterable[dict[str, Any]]:
    """Yields the rows of contrasts.csv."""
    for outcome in verdict.outcomes:
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
            "reason": deciding_reason(outcome),
        }


def difference_rows(sweep: SweepResults) -> Iterable[dict[str, Any]]:
    """Yields the rows of differences.csv."""
    for one in arm_differences(sweep):
        yield {
            "arm": one.arm.label,
            "baseline": one.baseline.label,
            "difference": one.difference.mean,
            "low": one.difference.low,
            "high": one.difference.high,
            "pairs": one.difference.n,
            "p": one.difference.p,
            "p (Holm)": one.p_holm,
            **({TIMES_THE_TOKENS: tokens.text} if (tokens := one.effect.tokens) else {}),
        }
