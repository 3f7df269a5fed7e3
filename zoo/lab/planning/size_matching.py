"""Arms made equally large by one field: the width of feed-forward layers, say."""

from collections.abc import Callable, Iterator

from zoo.errors import ConfigError
from zoo.lab.planning.fairness import TOLERANCE

ATTEMPTS = 12


def adjusted(start: int, target: float, size: Callable[[int], float], least: int = 1) -> int:
    """The value of a field at which a size that grows with it is within 1 % of a target, and as
    near as can be.

    Args:
        start: the value to begin at.
        target: the size that is wanted.
        size: the size at a value; ConfigError at values that cannot be.
        least: the smallest value.

    Raises:
        ConfigError: no value comes as near; says what the nearest give.
    """
    found: dict[int, float] = {}

    def at(value: int) -> float:
        if value not in found:
            found[value] = size(value)
        return found[value]

    for value in _steps(start, target, at, least):
        if at(value) == target:
            break
    nearest = min(found, key=lambda value: (abs(found[value] - target), value))
    if abs(found[nearest] / target - 1) > TOLERANCE:
        below = max((value for value in found if found[value] <= target), default=nearest)
        above = min((value for value in found if found[value] >= target), default=nearest)
        shown = " and ".join(f"{value} gives {found[value] / target - 1:+.1%}" for value in sorted({below, above}))
        raise ConfigError(f"does not come within {TOLERANCE:.0%}: {shown}")
    return nearest


def _steps(start: int, target: float, at: Callable[[int], float], least: int) -> Iterator[int]:
    """Values that close in on the target: along the line through the last two, then the neighbours
    of where that ends.
    """
    here, other = max(start, least), max(start, least) + 1
    for _ in range(ATTEMPTS):
        yield here
        slope = (at(other) - at(here)) / (other - here)
        following = max(least, round(here + (target - at(here)) / slope)) if slope > 0 else here
        if following == here:
            break
        here, other = following, here
    yield from (value for value in (here - 1, here + 1) if value >= least)
