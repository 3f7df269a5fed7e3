"""The smallest difference that an archived contrast could have found.

Its interval is that of the pairs, m -+ t(1 - a / 2, n - 1) s / sqrt(n), or wider: tuning and the noise
of other runs add to the error of the mean (`zoo.lab.statistics.paired`). The error that the interval
implies is that of the pairs times the ratio of both widths, and what it detects is as much larger.
Where other runs tell the noise with few degrees of freedom, part of the width is their quantile of t,
and the difference is up to a fifth too large.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from scipy import special

from zoo.lab.statistics.paired import ALPHA, spread
from zoo.lab.statistics.sequential import SequentialDesign, detectable_effect

ONE_SIDED = ("non_inferiority", "equivalence")


def detectable_difference(
    contrast: Mapping[str, str], runs: Iterable[Mapping[str, str]], result: Mapping[str, Any]
) -> float | None:
    """Returns the smallest difference that a contrast detects with 80 % power at 5 %.

    Args:
        contrast: a row of contrasts.csv.
        runs: the rows of runs.csv.
        result: result.json.

    Returns:
        In the metric's unit; None with fewer than two pairs or without variation.
    """
    found = spread(differences_by_seed(contrast, runs).values())
    if not found or found.n < 2 or found.sd == 0:
        return None
    smallest = detectable_effect(found.n) * found.sd
    half = (float(contrast["high"] or "nan") - float(contrast["low"] or "nan")) / 2
    looks = {int(seeds): level for seeds, level in (result.get("looks") or {}).items()}
    level = SequentialDesign(looks).alpha(len(result["seeds"])) if looks else ALPHA
    if contrast["rule"].partition(":")[0] in ONE_SIDED:
        level *= 2
    of_pairs = -float(special.stdtrit(found.n - 1, level / 2)) * found.sd / math.sqrt(found.n)
    return smallest * max(1.0, half / of_pairs) if math.isfinite(half) else smallest


def differences_by_seed(contrast: Mapping[str, str], runs: Iterable[Mapping[str, str]]) -> dict[int, float]:
    """Returns {seed: a - b} of a contrast, for the seeds at which both are finite.

    Args:
        contrast: a row of contrasts.csv.
        runs: the rows of runs.csv.
    """
    sides: list[dict[int, float]] = []
    runs = list(runs)
    for side in ("a", "b"):
        metric = contrast[f"metric {side}"]
        values = {
            int(run["seed"]): float(run[metric]) for run in runs if run["arm"] == contrast[side] and run.get(metric)
        }
        sides.append({seed: value for seed, value in values.items() if math.isfinite(value)})
    a, b = sides
    return {seed: a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())}
