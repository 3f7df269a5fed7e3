"""The noise of paired differences that earlier sweeps of a size had, known before a sweep begins.

`noise_floors.json` has the archived sweeps of the sizes of `zoo.lab.sizes`; it is written by
`python -m publication results --noise`. For other models, `zoo run --noise-from DIR` takes the noise
of sweeps that were run before (`zoo.lab.results.noise`).
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

NOISE_RECORD = "noise_floors.json"


@lru_cache
def recorded_noise() -> tuple[Mapping[str, Any], ...]:
    """Returns the entries of the record: size, sources, objectives, tokens, metric, sd, df, sweeps."""
    return tuple(json.loads(resources.files("zoo.lab").joinpath(NOISE_RECORD).read_text(encoding="utf-8")))


def noise_of_size(
    size: str, trained: Mapping[str, Any], metrics: Iterable[str], tokens: float
) -> dict[str, dict[str, Any]]:
    """Returns {metric: {sd, df, source}} of the metrics that the record has.

    Args:
        size: name of a size of `zoo.lab.sizes`.
        trained: the texts and objectives of the sweep (`zoo.lab.planning.trained_on`); those of the
            record have to be the same.
        metrics: e.g. `eval/loss`.
        tokens: of the training of a run; the record has to be within 10 % of it.
    """
    found = {}
    # The nearest number of tokens comes last, and counts.
    for entry in sorted(recorded_noise(), key=lambda entry: -abs(entry["tokens"] - tokens)):
        same = entry["size"] == size and all(entry[name] == values for name, values in trained.items())
        if same and entry["metric"] in metrics and abs(entry["tokens"] / tokens - 1) <= 0.1:
            sweeps = f"{entry['sweeps']} archived sweep{'s' if entry['sweeps'] > 1 else ''}"
            found[entry["metric"]] = {
                "sd": entry["sd"],
                "df": entry["df"],
                "source": f"the median of {sweeps} of the size {size} on this text",
            }
    return found
