"""The noise of archived sweeps by size, in zoo/lab/noise_floors.json: read by plans and verdicts.

Sweeps of one size, text, objective and budget compare different arms, and their noise differs by more
than chance. With the variance s^2 of a sweep on f degrees of freedom and the trigamma function psi',

    Var(ln s^2) = psi'(d / 2) + psi'(f / 2)

if the variances of sweeps spread like those that are estimated with d degrees of freedom (Smyth 2004,
section 6.2). So the noise of another sweep is not known better than with d, however many were run. A
record of a single sweep, which is less sure, has at most d too.
"""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import optimize, special

from zoo.files import read_json, write_atomic
from zoo.lab.planning.known_noise import FITTED_SEEDS, NOISE_RECORD, recorded_noise
from zoo.lab.report.archive.detectable import detectable_difference
from zoo.lab.report.archive.experiment_page import read_contrasts, read_table, tuned_by
from zoo.lab.report.archive.noise_floor import NoiseFloor, noise_floors
from zoo.lab.report.archive.result_record import FITTED

PATH = Path(__file__).resolve().parents[1] / "zoo" / "lab" / NOISE_RECORD


def write(results: Path) -> Path:
    """Writes the median noise of the sweeps of each size, text, objective, budget and metric, and
    returns the path.

    Sweeps that agree in these count together; their degrees of freedom add up to those of the spread
    between sweeps (`spread_df`). Without its text, a sweep tells nothing of others.

    Args:
        results: the folder of the archived sweeps.
    """
    groups: dict[tuple, list] = {}
    fitted = _found_with_fit(results)
    for floor in noise_floors(results):
        if floor.size and floor.sources:
            key = (floor.size, floor.sources, floor.objectives, floor.tokens, floor.metric)
            groups.setdefault(key, []).append(floor)
    most = spread_df([[(floor.sd, _df(floor)) for floor in floors] for floors in groups.values()])
    entries = [
        {
            "size": size,
            "sources": sources,
            "objectives": objectives,
            "tokens": tokens,
            "metric": metric,
            "sd": float(f"{np.median([floor.sd for floor in floors]):.3g}"),
            "df": min(sum(map(_df, floors)), float(f"{most:.2g}")),
            "sweeps": len(floors),
        }
        | _of_fitted(fitted.get((size, sources, objectives, tokens, metric), ()))
        for (size, sources, objectives, tokens, metric), floors in sorted(groups.items())
    ]
    lines = ",\n ".join(json.dumps(entry) for entry in entries)
    write_atomic(PATH, f"[{lines}]\n")
    recorded_noise.cache_clear()
    return PATH


def _df(floor: NoiseFloor) -> int:
    return (floor.arms - 1) * (floor.seeds - 1)


def spread_df(groups: Iterable[Sequence[tuple[float, int]]]) -> float:
    """Returns d, the degrees of freedom with which the noise of a sweep follows from that of others.

    Args:
        groups: of sweeps that agree in size, text, objective, budget and metric, [(sd, f)] of each;
            sweeps without noise do not count, nor groups of a single one.

    Returns:
        Infinity if the sweeps spread by no more than chance, or if no group has two.
    """
    squares, count, sampling = 0.0, 0, []
    for every in groups:
        group = [(sd, df) for sd, df in every if sd > 0]
        if len(group) < 2:
            continue
        half = np.array([df for _, df in group]) / 2
        logs = 2 * np.log([sd for sd, _ in group]) - special.digamma(half) + np.log(half)
        squares += float(((logs - logs.mean()) ** 2).sum())
        count += len(group) - 1
        sampling += special.polygamma(1, half).tolist()
    between = squares / count - float(np.mean(sampling)) if count else 0.0
    if between <= 0:
        return math.inf
    return 2 * optimize.brentq(lambda half: float(special.polygamma(1, half)) - between, 1e-3, 1e6)


def _of_fitted(differences: Sequence[float]) -> dict[str, Any]:
    if not differences:
        return {}
    return {"fitted": {"difference": float(f"{np.median(differences):.2g}"), "sweeps": len(differences)}}


def _found_with_fit(results: Path) -> dict[tuple, list[float]]:
    """Returns the median difference in a metric that the contrasts of each sweep find whose settings
    were fitted, and that has `FITTED_SEEDS` seeds: {(size, sources, objectives, tokens, metric): ...}.
    """
    found: dict[tuple, list[float]] = {}
    for path in sorted(results.glob("*/result.json")):
        result = read_json(path)
        if tuned_by(result) != FITTED or len(result["seeds"]) != FITTED_SEEDS:
            continue
        runs = read_table(path.with_name("runs.csv"))
        differences: dict[str, list[float]] = {}
        for row in read_contrasts(path.parent):
            difference = detectable_difference(row, runs, result)
            if row["metric a"] == row["metric b"] and difference is not None:
                differences.setdefault(row["metric a"], []).append(difference)
        texts, objectives = tuple(result.get("sources", ())), tuple(result.get("objectives", ()))
        trained = (texts, objectives, max(int(run["tokens"]) for run in runs))
        for metric, values in differences.items():
            found.setdefault((result["size"], *trained, metric), []).append(float(np.median(values)))
    return found
