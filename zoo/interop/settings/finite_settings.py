"""Settings that can be written as JSON."""

import math
from collections.abc import Mapping
from typing import Any


def finite(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings without those that hold an infinity, which JSON lacks: Mamba-2's bounds of
    the step size, whose defaults are infinite.
    """

    def is_finite(value: Any) -> bool:
        values = value if isinstance(value, list | tuple) else [value]
        return not any(isinstance(one, float) and math.isinf(one) for one in values)

    return {name: value for name, value in settings.items() if is_finite(value)}
