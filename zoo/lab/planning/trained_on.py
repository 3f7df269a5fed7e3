"""Names the texts and objectives of runs: the noise of a metric is known for these alone."""

from collections.abc import Iterable, Mapping
from typing import Any

from zoo.nested import flatten


def trained_on(configs: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Returns {"sources": texts, "objectives": kinds of objectives} of the configs of some runs.

    Args:
        configs: resolved configs, or as config.json has them; one may lack a field.

    Returns:
        Values of `data.source`, or of `data.mixture` for a mixture, and of `objective.kind`; each
        once, in alphabetical order.
    """
    flats = [flatten(config) for config in configs]
    sources = set()
    for flat in flats:
        source = flat.get("data.source")
        sources.update(flat.get("data.mixture") or () if source == "mixture" else [source])
    return {
        "sources": sorted(str(source) for source in sources if source),
        "objectives": sorted({str(kind) for flat in flats if (kind := flat.get("objective.kind"))}),
    }
