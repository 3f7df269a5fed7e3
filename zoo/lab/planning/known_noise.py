"""The noise of paired differences that earlier sweeps of a size had, known before a sweep begins.

`noise_floors.json` has the archived sweeps of the sizes of `zoo.lab.sizes`; it is written by
`python -m publication results --noise`. Its degrees of freedom are those with which the noise of one
sweep follows from that of others. For other models, `zoo run --noise-from DIR` takes the noise of
sweeps that were run before (`zoo.lab.results.noise`).
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

NOISE_RECORD = "noise_floors.json"
# Of the sweeps whose differences `found_with_fit` returns.
FITTED_SEEDS = 5


@lru_cache
def recorded_noise() -> tuple[Mapping[str, Any], ...]:
    """Returns the entries of the record: size, sources, objectives, tokens, metric, sd, df, sweeps;
    and `fitted`, the smallest difference that sweeps with fitted settings find, and their number.
    """
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
    for entry in _entries(size, trained, tokens):
        if entry["metric"] in metrics:
            sweeps = f"{entry['sweeps']} archived sweep{'s' if entry['sweeps'] > 1 else ''}"
            found[entry["metric"]] = {
                "sd": entry["sd"],
                "df": entry["df"],
                "source": f"the median of {sweeps} of the size {size} on this text",
            }
    return found


def found_with_fit(size: str, trained: Mapping[str, Any], metric: str, tokens: float) -> Mapping[str, Any] | None:
    """Returns the smallest difference that archived sweeps with fitted settings and `FITTED_SEEDS`
    seeds find in 80 % of cases, with the noise of tuning, and their number: {difference, sweeps}.

    Args:
        size, trained, tokens: as in `noise_of_size`.
        metric: e.g. `eval/loss`.

    Returns:
        None if the record has no such sweep.
    """
    entries = [entry for entry in _entries(size, trained, tokens) if entry["metric"] == metric]
    return entries[-1].get("fitted") if entries else None


def _entries(size: str, trained: Mapping[str, Any], tokens: float) -> list[Mapping[str, Any]]:
    """Returns the entries of a size, texts, objectives and tokens; the nearest number is the last."""
    same = [
        entry
        for entry in recorded_noise()
        if entry["size"] == size
        and all(entry[name] == values for name, values in trained.items())
        and abs(entry["tokens"] / tokens - 1) <= 0.1
    ]
    return sorted(same, key=lambda entry: -abs(entry["tokens"] - tokens))
