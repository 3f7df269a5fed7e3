"""Tables of the single runs of a sweep: their states, folders and configs."""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from zoo.lab.formatting import count, significant
from zoo.lab.report.columns import number_cells
from zoo.lab.report.html_tables import Cell, arm_cell, escape, numeric, state_cell, table
from zoo.lab.results.curves import short_names
from zoo.lab.results.run_records import STATES, RunRecord, differing_keys
from zoo.lab.results.schema import as_dict
from zoo.lab.results.sweep_results import SweepResults
from zoo.nested import flatten
from zoo.training.runtime.device_peaks import ComputeRate


def runs_table(sweep: SweepResults) -> str:
    """Returns a table of all runs, each linked to its command in the page."""
    finals = number_cells([run.final(sweep.metric) for run in sweep.runs])
    lowest = number_cells([run.best(sweep.metric) for run in sweep.runs])
    seconds = number_cells([run.seconds for run in sweep.runs], 3)
    speeds = speed_columns([(median_speed([run]), run) for run in sweep.runs])
    rows = []
    for place, run in enumerate(sweep.runs):
        steps, begun = run.status.get("steps"), run.state != "missing"
        of_steps = f" of {steps:,}" if isinstance(steps, int) and run.state not in ("done", "missing") else ""
        rows.append(
            [
                _run_cell(run),
                arm_cell(sweep.arm(run.arm).label),
                numeric(str(run.seed)),
                state_cell(run.state),
                finals[place],
                lowest[place],
                numeric(f"{run.step:,}{of_steps}" if begun else "–", run.step if begun else None),
                seconds[place],
                *speeds[place],
                _reason_cell(run),
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


def speed_table(sweep: SweepResults) -> str:
    """Returns a table of the speed of each arm, the median over what its runs have written."""
    found = [(median_speed(runs), next((run for run in runs if run.meta), None)) for runs in _runs_by_arm(sweep)]
    rows = [[arm_cell(arm.label), *cells] for arm, cells in zip(sweep.arms, speed_columns(found), strict=True)]
    return table("Median speed of each arm", ["arm", *SPEED_COLUMNS], rows, range(1, 1 + len(SPEED_COLUMNS)))


def _runs_by_arm(sweep: SweepResults) -> list[list[RunRecord]]:
    return [sweep.runs_of(arm.name) for arm in sweep.arms]


def speed_columns(found: Sequence[tuple[float | None, RunRecord | None]]) -> list[list[Cell]]:
    """Returns the cells of `SPEED_COLUMNS` for each (tokens per second, run of this model on these
    devices).
    """
    speeds = [speed_of(*one) for one in found]
    tokens, gigaflops, shares = (list(column) for column in zip(*speeds, strict=True)) if speeds else ([], [], [])
    percent = [numeric("–" if share is None else f"{share:.1f}", share) for share in shares]
    return [list(cells) for cells in zip(number_cells(tokens), number_cells(gigaflops, 3), percent, strict=True)]


def speed_of(tokens_per_second: float | None, run: RunRecord | None) -> tuple[float | None, float | None, float | None]:
    """Returns tokens and the model's GFLOP per second, rounded to what can be measured, and their
    share of the peak of the devices in per cent where that is known.

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
    return (
        significant(tokens_per_second, digits),
        significant(None if flops is None else flops / 1e9, digits),
        None if share is None else 100 * share,
    )


def prerequisites_table(sweep: SweepResults) -> str:
    """Returns a table of the runs that others start from."""
    losses = number_cells([run.final("eval/loss") for run in sweep.prerequisites])
    seconds = number_cells([run.seconds for run in sweep.prerequisites], 3)
    rows = [
        [
            _run_cell(run),
            Cell(run.arm),
            numeric(str(run.seed)),
            state_cell(run.state),
            losses[place],
            numeric(f"{run.step:,}" if run.state != "missing" else "–", run.step),
            seconds[place],
            _reason_cell(run),
        ]
        for place, run in enumerate(sweep.prerequisites)
    ]
    header = ["run", "prerequisite", "seed", "state", "final eval/loss", "step", "seconds", "reason"]
    return table("Runs that others start from (not part of any comparison)", header, rows, (2, 4, 5, 6))


def _reason_cell(run: RunRecord) -> Cell:
    text = str(run.status.get("reason") or "")[:2000]
    return Cell(text, "wide" if text else "")


def anchor(run: RunRecord) -> str:
    """Returns the id of the row that tells how a run was made: links inside the page work in a
    mail too.
    """
    return f"run-{hashlib.sha256(str(run.folder.name).encode(errors='replace')).hexdigest()[:12]}"


def _run_cell(run: RunRecord) -> Cell:
    name = escape(run.folder.name)
    return Cell(run.folder.name, markup=f'<a href="#{anchor(run)}">{name}</a>' if run.meta.get("command") else name)


def config_table(sweep: SweepResults) -> str:
    """Returns a table of the config keys in which arms differ, a column for each arm, marking keys
    derived from others.
    """
    started = [run for run in sweep.runs if run.config]
    keys = differing_keys(started)
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
