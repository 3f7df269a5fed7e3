"""What the sizes cost on the cores of a CPU and what they resolve: zoo/lab/size_costs.json, which
plans read, and the table of docs/experiments.md.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zoo.config import resolve
from zoo.files import read_json, write_atomic
from zoo.lab.planning.arm_resolution import count_cost
from zoo.lab.planning.known_costs import CORES, COST_RECORD, INSTRUCTIONS, recorded_costs, throughput_of
from zoo.lab.planning.known_noise import FITTED_SEEDS, recorded_noise
from zoo.lab.planning.power import OF_TUNING_RUNS
from zoo.lab.report.archive.experiment_page import read_table
from zoo.lab.sizes import LADDER, RUNGS, decoder, rates
from zoo.lab.statistics.paired import ALPHA
from zoo.lab.statistics.simulation import found_difference
from zoo.lab.statistics.tuning_curve import MIN_VALUES

PATH = Path(__file__).resolve().parents[1] / "zoo" / "lab" / COST_RECORD
SHOWN = (*LADDER, *RUNGS)
METRIC = "eval/loss"
# Arms whose parameters are further from those of the size's decoder are other models.
ALIKE = 0.2
# What the decoders of these sizes were trained for, and the text that they read.
_OBJECTIVES = ["causal"]
_SOURCES = ["stdlib"]


def write(output: Path) -> Path:
    """Writes the record of the sizes that were trained on CPUs, and returns its path.

    Args:
        output: the folder of the archived sweeps.
    """
    throughputs: dict[tuple[str, str], list[float]] = {}
    for path in sorted(output.glob("*/result.json")):
        result = read_json(path)
        if result["size"] in SHOWN and (throughput := _core_throughput(path.parent, result)):
            for instructions in INSTRUCTIONS:
                if (result.get("processor") or "").endswith(instructions):
                    throughputs.setdefault((result["size"], instructions), []).append(throughput)
    entries = [
        {
            "size": size,
            "instructions": instructions,
            "parameters": _run_of(size).parameters,
            "flops": float(f"{_run_of(size).flops:.3g}"),
            "sweeps": len(found),
            "flops_per_second": [
                float(f"{throughput:.3g}") for throughput in (min(found), np.median(found), max(found))
            ],
        }
        for (size, instructions), found in sorted(
            throughputs.items(), key=lambda item: (SHOWN.index(item[0][0]), item[0][1])
        )
    ]
    lines = ",\n ".join(json.dumps(entry) for entry in entries)
    write_atomic(PATH, f"[{lines}]\n")
    recorded_costs.cache_clear()
    return PATH


def _core_throughput(folder: Path, result: Mapping[str, Any]) -> float | None:
    """Returns the FLOPs per second of a sweep with the objective and the tokens of its size, if each
    of its runs had one thread; of the arms that are as large as the decoder of the size.
    """
    device, alone = result.get("device") or {}, "--population" not in result.get("command", ())
    if result.get("objectives") != _OBJECTIVES or not alone:
        return None
    if device.get("platform") != "cpu" or device.get("cpu_threads") != 1:
        return None
    run = _run_of(result["size"])
    alike = {
        arm["name"]
        for arm in result["arms"]
        if arm["parameters"] and abs(arm["parameters"] / run.parameters - 1) < ALIKE
    }
    rows = [
        row
        for row in read_table(folder / "runs.csv")
        if row["arm"] in alike and row["state"] == "done" and row["seconds"]
    ]
    if not rows or {int(row["tokens"]) for row in rows} != {run.tokens}:
        return None
    return run.flops * len(rows) / sum(float(row["seconds"]) for row in rows)


class _Run(NamedTuple):
    """A run of the decoder of a size."""

    parameters: int
    tokens: int
    flops: float


@cache
def _run_of(size: str) -> _Run:
    config = resolve(decoder(size))
    tokens, cost = config.training.steps * config.data.batch_size * config.data.sequence_length, count_cost(config)
    return _Run(dict(cost.parameters)["total"], tokens, tokens * cost.flops_per_token)


def _runs_of_two_arms() -> int:
    """Returns the fewest runs of a sweep of two arms with a fitted rate each."""
    tune = rates(SHOWN[0])
    return 2 * (len(tune.values) + MIN_VALUES * len(tune.seeds) - 1 + FITTED_SEEDS)


def table() -> str:
    """Returns a table of the sizes, by the records: what a run and a sweep of two arms take, and what
    they find.
    """
    runs = _runs_of_two_arms()
    columns = ["size", "parameters, tokens"]
    for name in INSTRUCTIONS.values():
        columns += [f"a run on a core, {name}", f"{runs} runs on {CORES} cores, {name}"]
    columns += ["found, noise of seeds", "found, fitted settings"]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for size in SHOWN:
        run = _run_of(size)
        cells = [f"`{size}`", f"{run.parameters / 1e6:.2g} M, {run.tokens / 1e6:.{1 if run.tokens < 1e6 else 0}f} M"]
        for instructions in INSTRUCTIONS:
            throughput = throughput_of(run.parameters, run.flops, instructions)
            for share in (1, runs / CORES):
                text = _time(share * run.flops / throughput.median) if throughput else ""
                cells.append(text if throughput is None or throughput.entry["size"] == size else f"({text})")
        lines.append(f"| {' | '.join([*cells, *_found(size)])} |")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.{1 if seconds < 36_000 else 0}f} h"


def _found(size: str) -> tuple[str, str]:
    """Returns the smallest difference that sweeps of a size find, by the noise of seeds alone and by
    sweeps with fitted settings, each with the number of sweeps.
    """
    trained = {"sources": _SOURCES, "objectives": _OBJECTIVES, "tokens": _run_of(size).tokens}
    key = {"size": size, "metric": METRIC, **trained}
    entry = next((one for one in recorded_noise() if all(one[name] == value for name, value in key.items())), None)
    if entry is None:
        return "", ""
    fitted = entry.get("fitted")
    return (
        f"{found_difference({FITTED_SEEDS: ALPHA}, entry['sd'], OF_TUNING_RUNS):.3f} ({entry['sweeps']})",
        f"{fitted['difference']:.3f} ({fitted['sweeps']})" if fitted else "",
    )
