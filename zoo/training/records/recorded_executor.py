"""The executor in a run's meta.json (`zoo.training.executor`)."""

from collections.abc import Mapping
from typing import Any


def recorded_executor(meta: Mapping[str, Any], missing: str = "single") -> str:
    """Returns the name of the executor that trained a run.

    Args:
        meta: content of meta.json.
        missing: returned if it names no executor.
    """
    name = str(meta.get("executor", missing))
    # The name of "single" in older records.
    return "single" if name == "alone" else name
