"""Timing by turns: the functions that are compared are called in turn, and each turn begins with
another one, so that other work on the machine and the order affect all of them alike.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Amount of measuring: rounds, calls, and the share of other work that is tolerated.

    Attributes:
        rounds: clean turns.
        calls: calls in a turn.
        foreign: largest share of the machine's processor time that other processes may use in a
            turn; a turn with more is thrown away.
        smoke: whether to measure the smallest models only, to see whether it runs.
    """

    rounds: int = 7
    calls: int = 3
    foreign: float = 0.07
    smoke: bool = False


Row = dict[str, str | int | float]
"""A row of a table of measurements."""


def busy_seconds() -> float:
    """Returns the processor seconds that the whole machine has spent on anything since it started."""
    fields = [int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")


def take_turns(functions: Mapping[str, Callable[[], float | None]], settings: Settings) -> dict[str, list[float]]:
    """Returns the milliseconds of a call of each function, for every clean turn.

    Args:
        functions: each does its work and waits for it. One that returns seconds has measured the
            part that counts itself.
        settings: how long to measure.

    Raises:
        SystemExit: the machine is so busy that too few turns are clean.
    """
    for function in functions.values():
        function()  # Compiles.
    times: dict[str, list[float]] = {name: [] for name in functions}
    order = list(functions)
    for attempt in range(6 * settings.rounds):
        turn, clean = {}, True
        start = attempt % len(order)
        for name in order[start:] + order[:start]:
            function = functions[name]
            busy, own, began = busy_seconds(), time.process_time(), time.perf_counter()
            counted = [function() for _ in range(settings.calls)]
            seconds = time.perf_counter() - began
            foreign = busy_seconds() - busy - (time.process_time() - own)
            clean &= foreign < settings.foreign * seconds * (os.cpu_count() or 1)
            turn[name] = 1000 * (seconds if None in counted else sum(counted)) / settings.calls
        if clean:
            for name, milliseconds in turn.items():
                times[name].append(milliseconds)
        if len(times[order[0]]) == settings.rounds:
            return times
    raise SystemExit(
        f"only {len(times[order[0]])} of {settings.rounds} turns were clean; the machine is busy (raise --foreign)"
    )


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the first quartile, the median and the third quartile."""
    return tuple(statistics.quantiles(values, n=4)) if len(values) > 1 else (values[0],) * 3


def timing_columns(times: Mapping[str, Sequence[float]], name: str, reference: str) -> Row:
    """Returns the time of a function, and its ratio to that of another one in the same turn.

    Args:
        times: from `take_turns`.
        name: the function.
        reference: the other one.

    Returns:
        Medians `ms` and `ratio`; their quartiles `ms_low`, `ms_high`, `ratio_low`, `ratio_high`.
    """
    low, middle, high = quartiles(times[name])
    ratios = quartiles([one / other for one, other in zip(times[name], times[reference], strict=True)])
    named = dict(zip(("ratio_low", "ratio", "ratio_high"), ratios, strict=True))
    return {"ms": middle, "ms_low": low, "ms_high": high, **named}
