"""Numbers as people read them: few digits, as many as the uncertainty allows."""

import math


def number(value: float | None, digits: int = 4) -> str:
    """Four significant digits; thousands separated; an en dash for nothing, "not finite" for NaN
    and infinity.
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "not finite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.{digits - 1}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def decimals_for(uncertainty: float) -> int:
    """Decimal places worth printing: two digits of the uncertainty if it starts low, else one.

    Particle Data Group's rule: leading digits 100 to 354 are given two digits, 355 to 999 one.
    """
    if not math.isfinite(uncertainty) or uncertainty <= 0:
        return 4
    exponent = math.floor(math.log10(uncertainty))
    places = 1 if uncertainty / 10**exponent < 3.55 else 0
    return min(5, max(2, places - exponent))


def _fixed(uncertainty: float, *values: float) -> list[str]:
    """Values with as many decimals as their uncertainty deserves; those that would come out as
    zeros with three significant digits.
    """
    if 0 < uncertainty < 1e-5 and max(map(abs, values)) < 1e-3:
        return [f"{value:.3g}" for value in values]
    return [f"{value:.{decimals_for(uncertainty)}f}" for value in values]


def confidence(alpha: float) -> str:
    """How sure an interval at a level is: `95 %`, `97.9 %`."""
    return f"{100 * (1 - alpha):.3g} %"


def plus_minus(mean: float, sd: float) -> str:
    """`mean ± sd`, or the mean alone where there is no spread to speak of."""
    if not math.isfinite(sd):
        return number(mean)
    return " ± ".join(_fixed(sd, mean, sd))


def measured(mean: float, low: float, high: float) -> str:
    """The mean with as many decimals as its interval deserves."""
    return _fixed((high - low) / 2, mean)[0] if math.isfinite(mean) else "–"


def interval(low: float, high: float) -> str:
    """`low to high` with as many decimals as the width deserves."""
    if not math.isfinite(low) or not math.isfinite(high):
        return "–"
    return " to ".join(_fixed((high - low) / 2, low, high))


def count(n: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def listed(names: list[str], most: int = 6) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
