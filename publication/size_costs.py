"""What the sizes cost on the cores of a CPU and what they resolve: zoo/lab/size_costs.json, which
plans read, and the table of docs/experiments.md.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config import resolve
from zoo.files import read_json, write_atomic
from zoo.lab.planning.arm_resolution import count_cost
from zoo.lab.planning.known_costs import CORES, COST_RECORD, INSTRUCTIONS, pace_of, recorded_costs
from zoo.lab.planning.known_noise import FITTED_SEEDS, found_with_fit, noise_of_size
from zoo.lab.report.archive.experiment_page import read_table
from zoo.lab.sizes import LADDER, RUNGS, decoder
from zoo.lab.statistics.sequential import detectable_effect
from zoo.lab.statistics.tuning_curve import MIN_VALUES

PATH = Path(__file__).resolve().parents[1] / "zoo" / "lab" / COST_RECORD
SIZES = (*LADDER, *RUNGS)
# A sweep of two arms: three rates with one seed, the values of the curve with three, and the seeds of
# the result; one of the rates is a value of the curve.
RUNS = 2 * (3 + MIN_VALUES * 3 - 1 + FITTED_SEEDS)
METRIC = "eval/loss"
# Arms whose parameters are further from those of the size's decoder are other models.
ALIKE = 0.2
# What the decoders of these sizes were trained on and for.
_TRAINED = {"sources": ["stdlib"], "objectives": ["causal"]}


def write(output: Path) -> Path:
    """Writes the record of the sizes that were trained on CPUs, and returns its path.

    Args:
        output: the folder of the archived sweeps.
    """
    paces: dict[tuple[str, str], list[float]] = {}
    for path in sorted(output.glob("*/result.json")):
        result = read_json(path)
        if result["size"] in SIZES and (pace := _pace_of_a_core(path.parent, result)):
            for instructions in INSTRUCTIONS:
                if result["processor"].endswith(instructions):
                    paces.setdefault((result["size"], instructions), []).append(pace)
    entries = [
        {
            "size": size,
            "instructions": instructions,
            "parameters": _parameters(size),
            "sweeps": len(found),
            "flops_per_second": [float(f"{pace:.3g}") for pace in np.quantile(found, [0.25, 0.5, 0.75])],
        }
        for (size, instructions), found in sorted(paces.items(), key=lambda item: (SIZES.index(item[0][0]), item[0][1]))
    ]
    lines = ",\n ".join(json.dumps(entry) for entry in entries)
    write_atomic(PATH, f"[{lines}]\n")
    recorded_costs.cache_clear()
    return PATH


def _pace_of_a_core(folder: Path, result: Mapping[str, Any]) -> float | None:
    """Returns the FLOPs per second of a sweep on the text and with the tokens of its size, if each of
    its runs had a core; of the arms that are as large as the decoder of the size.
    """
    device, alone = result.get("device") or {}, "--population" not in result.get("command", ())
    if not _same_training(result) or not alone or device.get("platform") != "cpu" or device.get("cpu_threads") != 1:
        return None
    expected = _parameters(result["size"])
    parameters = {
        arm["name"]: arm["parameters"]
        for arm in result["arms"]
        if arm["parameters"] and abs(arm["parameters"] / expected - 1) < ALIKE
    }
    rows = [
        row
        for row in read_table(folder / "runs.csv")
        if row["arm"] in parameters and row["state"] == "done" and row["seconds"]
    ]
    if not rows or {int(row["tokens"]) for row in rows} != {_tokens(result["size"])}:
        return None
    flops = sum(6.0 * parameters[row["arm"]] * float(row["tokens"]) for row in rows)
    return flops / sum(float(row["seconds"]) for row in rows)


def _same_training(result: Mapping[str, Any]) -> bool:
    return all(list(result.get(name, ())) == value for name, value in _TRAINED.items())


def _parameters(size: str) -> int:
    return dict(count_cost(resolve(decoder(size))).parameters)["total"]


def _tokens(size: str) -> int:
    config = resolve(decoder(size))
    return config.training.steps * config.data.batch_size * config.data.sequence_length


def table() -> str:
    """Returns a table of the sizes, by the records: what a run and a sweep of two arms take, and what
    they find.
    """
    columns = ["size", "parameters, tokens"]
    for name in INSTRUCTIONS.values():
        columns += [f"a run, a core with {name}", f"{RUNS} runs, {CORES} such cores"]
    lines = [
        f"| {' | '.join([*columns, 'at given rates', 'with fitted rates'])} |",
        f"|{' --- |' * (len(columns) + 2)}",
    ]
    for size in SIZES:
        parameters, tokens = _parameters(size), _tokens(size)
        cells = [f"`{size}`", f"{parameters / 1e6:.2g} M, {tokens / 1e6:.{1 if tokens < 1e6 else 0}f} M"]
        for instructions in INSTRUCTIONS:
            pace = pace_of(parameters, instructions)
            seconds = 6.0 * parameters * tokens / pace.median if pace else None
            own = pace is not None and pace.entry["size"] == size
            cells += [_time(each, own) if each else "" for each in (seconds, seconds and seconds * RUNS / CORES)]
        lines.append(f"| {' | '.join([*cells, _at_given_rates(size), _with_fitted_rates(size)])} |")
    return "\n".join(lines)


def _time(seconds: float, measured: bool) -> str:
    """Returns a time in words; in parentheses one that was not measured at its size."""
    text = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    text = text if seconds < 5400 else f"{seconds / 3600:.0f} h"
    return text if measured else f"({text})"


def _at_given_rates(size: str) -> str:
    noise = noise_of_size(size, _TRAINED, [METRIC], _tokens(size)).get(METRIC)
    return f"{detectable_effect(FITTED_SEEDS) * noise['sd']:.3f}" if noise else ""


def _with_fitted_rates(size: str) -> str:
    found = found_with_fit(size, _TRAINED, METRIC, _tokens(size))
    return f"{found['difference']:.3f} ({found['sweeps']})" if found else ""
