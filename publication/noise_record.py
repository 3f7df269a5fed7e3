"""The noise of archived sweeps by size, in zoo/lab/noise_floors.json: read by plans and verdicts."""

import json
from pathlib import Path

import numpy as np

from zoo.files import write_atomic
from zoo.lab.planning.known_noise import NOISE_RECORD
from zoo.lab.report.archive.noise_floor import noise_floors

PATH = Path(__file__).resolve().parents[1] / "zoo" / "lab" / NOISE_RECORD


def write(results: Path) -> Path:
    """Writes the median noise of the sweeps of each size, budget and metric, and returns the path.

    Sweeps of one size with the same tokens count together; their degrees of freedom add up.

    Args:
        results: the folder of the archived sweeps.
    """
    groups: dict[tuple[str, int, str], list] = {}
    for floor in noise_floors(results):
        if floor.size:
            groups.setdefault((floor.size, floor.tokens, floor.metric), []).append(floor)
    entries = [
        {
            "size": size,
            "tokens": tokens,
            "metric": metric,
            "sd": float(f"{np.median([floor.sd for floor in floors]):.3g}"),
            "df": sum((floor.arms - 1) * (floor.seeds - 1) for floor in floors),
            "sweeps": len(floors),
        }
        for (size, tokens, metric), floors in sorted(groups.items())
    ]
    lines = ",\n ".join(json.dumps(entry) for entry in entries)
    write_atomic(PATH, f"[{lines}]\n")
    return PATH
