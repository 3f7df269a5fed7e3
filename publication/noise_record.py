"""The noise of archived sweeps by size, in zoo/lab/noise_floors.json: read by plans and verdicts."""

import json
from pathlib import Path

import numpy as np

from zoo.files import write_atomic
from zoo.lab.planning.known_noise import NOISE_RECORD
from zoo.lab.report.archive.noise_floor import noise_floors

PATH = Path(__file__).resolve().parents[1] / "zoo" / "lab" / NOISE_RECORD


def write(results: Path) -> Path:
    """Writes the median noise of the sweeps of each size, text, objective, budget and metric, and
    returns the path.

    Sweeps that agree in these count together; their degrees of freedom add up. Without its text, a
    sweep tells nothing of others.

    Args:
        results: the folder of the archived sweeps.
    """
    groups: dict[tuple, list] = {}
    for floor in noise_floors(results):
        if floor.size and floor.sources:
            key = (floor.size, floor.sources, floor.objectives, floor.tokens, floor.metric)
            groups.setdefault(key, []).append(floor)
    entries = [
        {
            "size": size,
            "sources": sources,
            "objectives": objectives,
            "tokens": tokens,
            "metric": metric,
            "sd": float(f"{np.median([floor.sd for floor in floors]):.3g}"),
            "df": sum((floor.arms - 1) * (floor.seeds - 1) for floor in floors),
            "sweeps": len(floors),
        }
        for (size, sources, objectives, tokens, metric), floors in sorted(groups.items())
    ]
    lines = ",\n ".join(json.dumps(entry) for entry in entries)
    write_atomic(PATH, f"[{lines}]\n")
    return PATH
