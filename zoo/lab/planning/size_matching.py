"""Makes arms equally large by adjusting one field, e.g. the width of feed-forward layers."""

from collections.abc import Callable, Iterator

from zoo.errors import ConfigError
from zoo.lab.planning.arm import SIZE_TOLERANCE

MAX_SECANT_STEPS = 12


def find_matching_value(start: int, target: float, size: Callable[[int], float], minimum: int = 1) -> int:
    """Returns the field value that gives the size closest to the target, within 1 %.

    Args:
        start: the first value to try.
        target: the wanted size.
        size: size at a value, increasing; raises ConfigError at invalid values.
        minimum: the smallest value.

    Raises:
        ConfigError: no value comes within 1 %; names the sizes of the nearest ones.
    """
    found: dict[int, float] = {}

    def at(value: int) -> float:
        if value not in found:
            found[value] = size(value)
        return found[value]

    for value in _candidates(start, target, at, minimum):
        if at(value) == target:
            break
    nearest = min(found, key=lambda value: (abs(found[value] - target), value))
    if abs(found[nearest] / target - 1) > SIZE_TOLERANCE:
        below = max((value for value in found if found[value] <= target), default=nearest)
        above = min((value for value in found if found[value] >= target), default=nearest)
        shown = " and ".join(f"{value} gives {found[value] / target - 1:+.1%}" for value in sorted({below, above}))
        raise ConfigError(f"does not come within {SIZE_TOLERANCE:.0%}: {shown}")
    return nearest


def _candidates(start: int, target: float, at: Callable[[int], float], minimum: int) -> Iterator[int]:
    """Yields the values of a secant search for the target, then the neighbours of the last one."""
    current, previous = max(start, minimum), max(start, minimum) + 1
    for _ in range(MAX_SECANT_STEPS):
        yield current
        slope = (at(previous) - at(current)) / (previous - current)
        # Rounded widths grow in steps: where neighbours are equally large, the size is taken to be
        # proportional.
        guess = current + (target - at(current)) / slope if slope > 0 else current * target / at(current)
        following = max(minimum, round(guess))
        if following == current:
            break
        current, previous = following, current
    yield from (value for value in (current - 1, current + 1) if value >= minimum)
