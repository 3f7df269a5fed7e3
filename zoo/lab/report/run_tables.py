"""Tables of the single runs of a sweep: their states, folders and configs."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import numpy as np

from zoo.lab.formatting import count, number, significant
from zoo.lab.report.html_tables import Cell, arm_cell, escape, numeric, state_cell, table
from zoo.lab.results.curves import short_names
from zoo.lab.results.run_records import STATES, RunRecord, differing_keys
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults
from zoo.nested import flatten
from zoo.training.runtime.device_peaks import ComputeRate


def runs_table(sweep: SweepResults, page_folder: Path | None) -> str:
    """Returns a table of all runs; without `page_folder` their folders are not linked."""
    rows = []
    for run in sweep.runs:
        speed = median_speed([run])
        steps = run.status.get("steps")
        of_steps = f" of {steps:,}" if isinstance(steps, int) and run.state not in ("done", "missing") else ""
        final = run.final(sweep.metric)
        rows.append(
            [
                _folder_cell(run, page_folder),
                arm_cell(sweep.arm(run.arm).label),
                numeric(str(run.seed)),
                state_cell(run.state),
                numeric(number(final)),
                numeric(number(run.best(sweep.metric))),
                numeric(f"{run.step:,}{of_steps}" if run.state != "missing" else "–"),
                numeric(number(run.seconds, 3)),
                *speed_cells(speed, run),
                Cell(str(run.status.get("reason") or "")[:2000]),
            ]
        )
    header = [
        "run",
        "arm",
        "seed",
        "state",
        f"final {sweep.metric}",
        "best",
        "step",
        "seconds",
        *SPEED_COLUMNS,
        "reason",
    ]
    return table("Runs (missing: not started)", header, rows, (2, *range(4, 11)))


SPEED_COLUMNS = ("tokens/s", "GFLOP/s", "MFU %")


def median_speed(runs: Sequence[RunRecord]) -> float | None:
    """Returns the median of the tokens per second that runs have written; None without any."""
    speeds = np.concatenate([run.series("train/tokens_per_second").value for run in runs] or [np.array([])])
    return float(np.round(np.nanmedian(speeds))) if np.isfinite(speeds).any() else None


def speed_cells(tokens_per_second: float | None, run: RunRecord | None) -> list[Cell]:
    """Returns the cells of `SPEED_COLUMNS`: tokens and the model's operations per second, rounded to
    what can be measured, and their share of the peak of the devices where that is known.

    Args:
        tokens_per_second: None for no speed.
        run: a run of this model on these devices; None if there is none.
    """
    meta = {} if run is None else run.meta
    per_token, device = meta.get("flops_per_token"), as_dict(meta.get("device"))
    # A processor that is shared with other work is not measured to the unit.
    digits = 2 if str(device.get("kind")).lower() == "cpu" or device.get("platform") == "cpu" else 3
    flops = share = None
    if tokens_per_second is not None and isinstance(per_token, int | float):
        count, kind = device.get("count"), str(device.get("kind"))
        dtype = str(as_dict(run.config.get("model")).get("dtype"))
        rate = ComputeRate.on(per_token, kind, count if isinstance(count, int) else 1, dtype)
        flops, share = rate.flops(tokens_per_second), rate.utilisation(tokens_per_second)
    return [
        numeric(number(significant(tokens_per_second, digits))),
        numeric(number(significant(None if flops is None else flops / 1e9, digits), 3)),
        numeric("–" if share is None else f"{100 * share:.1f}"),
    ]


def prerequisites_table(sweep: SweepResults, page_folder: Path | None) -> str:
    """Returns a table of the runs that others start from."""
    rows = [
        [
            _folder_cell(run, page_folder),
            Cell(run.arm),
            numeric(str(run.seed)),
            state_cell(run.state),
            numeric(number(run.final("eval/loss"))),
            numeric(f"{run.step:,}" if run.state != "missing" else "–"),
            numeric(number(run.seconds, 3)),
            Cell(str(run.status.get("reason") or "")[:2000]),
        ]
        for run in sweep.prerequisites
    ]
    header = ["run", "prerequisite", "seed", "state", "final eval/loss", "step", "seconds", "reason"]
    return table("Runs that others start from (not part of any comparison)", header, rows, (2, 4, 5, 6))


def _folder_cell(run: RunRecord, page_folder: Path | None) -> Cell:
    if page_folder is None:
        return Cell(run.folder.name)
    # "./" and quoting keep a folder called "javascript:..." a folder.
    target = "./" + quote(os.path.relpath(run.folder, page_folder).replace(os.sep, "/"), errors="replace") + "/"
    name = escape(run.folder.name)
    return Cell(markup=name if run.state == "missing" else f'<a href="{escape(target)}">{name}</a>')


def config_table(sweep: SweepResults) -> str:
    """Returns a table of the config keys in which arms differ, a column for each arm, marking keys
    derived from others.
    """
    started = [run for run in sweep.runs if run.config]
    keys = differing_keys([run.config for run in started])
    named = {key for arm in sweep.arms for key in arm.overrides}
    if not keys:
        return "<p>The configs differ only in the seed.</p>" if started else "<p>No run has written its config yet.</p>"
    rows = []
    flat = {arm.name: [flatten(run.config) for run in started if run.arm == arm.name] for arm in sweep.arms}
    for key in keys:
        cells = []
        for arm in sweep.arms:
            values = dict.fromkeys(json.dumps(config[key]) if key in config else "–" for config in flat[arm.name])
            cells.append(Cell(" | ".join(values) or "–"))
        rows.append([Cell(key + (" (derived)" if named and key not in named else "")), *cells])
    title, names = short_names(sweep)
    caption = "Config keys that differ (except the seed)" + (f", by {title}" if title else "")
    return table(caption, ["key", *names], rows)


def summary(sweep: SweepResults) -> str:
    """Returns e.g. `4 arms, 3 seeds, 12 runs: 10 done, 1 diverged, 1 missing`."""
    size = [f"size {sweep.size}"] if sweep.size else []
    runs = f"{count(len(sweep.runs), 'run')}: {count_states(sweep.runs)}"
    return ", ".join([*size, count(len(sweep.arms), "arm"), count(len(sweep.seeds), "seed"), runs])


def count_states(runs: list[RunRecord]) -> str:
    counts = [(sum(run.state == word for run in runs), word) for word in STATES]
    return ", ".join(f"{n} {word}" for n, word in counts if n)
