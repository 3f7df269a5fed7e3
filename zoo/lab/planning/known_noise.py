"""The noise of paired differences that earlier sweeps of a size had, known before a sweep begins.

`noise_floors.json` has the archived sweeps of the sizes of `zoo.lab.sizes`; it is written by
`python -m publication results --noise`. For other models, `zoo run --noise-from DIR` takes the noise
of sweeps that were run before.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError

NOISE_RECORD = "noise_floors.json"


@lru_cache
def recorded_noise() -> tuple[Mapping[str, Any], ...]:
    """Returns the entries of the record: size, metric, tokens, sd, df and the number of sweeps."""
    return tuple(json.loads(resources.files("zoo.lab").joinpath(NOISE_RECORD).read_text(encoding="utf-8")))


def noise_of_size(size: str, metrics: Iterable[str], tokens: float) -> dict[str, dict[str, Any]]:
    """Returns {metric: {sd, df, source}} of the metrics that the record has.

    Args:
        size: name of a size of `zoo.lab.sizes`.
        metrics: e.g. `eval/loss`.
        tokens: of the training of a run; the record has to be within 10 % of it.
    """
    found = {}
    for entry in recorded_noise():
        if entry["size"] == size and entry["metric"] in metrics and abs(entry["tokens"] / tokens - 1) <= 0.1:
            sweeps = f"{entry['sweeps']} archived sweep{'s' if entry['sweeps'] > 1 else ''}"
            found[entry["metric"]] = {
                "sd": entry["sd"],
                "df": entry["df"],
                "source": f"the median of {sweeps} of the size {size}",
            }
    return found


def noise_of_sweeps(folders: Sequence[Path], metrics: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns {metric: {sd, df, source}} of earlier sweeps, pooled over them.

    Raises:
        ConfigError: a folder is no sweep, or its arms have fewer than two common seeds.
    """
    # Reading sweeps needs modules that planning does not.
    from zoo.lab.results.noise import pooled_noise
    from zoo.lab.results.sweep_results import load_sweep

    sweeps = [load_sweep(folder) for folder in folders]
    found = {}
    for metric in metrics:
        noise = [(folder, pooled_noise(sweep, metric)) for folder, sweep in zip(folders, sweeps, strict=True)]
        if missing := [str(folder) for folder, one in noise if one is None]:
            raise ConfigError(
                f"--noise-from {', '.join(missing)}: no two arms with two common seeds and a finite {metric}"
            )
        df = sum(one.df for _, one in noise)
        variance = sum(one.df * one.sd**2 for _, one in noise) / df
        names = ", ".join(folder.name for folder in folders)
        found[metric] = {"sd": variance**0.5, "df": df, "source": f"the arms and seeds of {names}"}
    return found
