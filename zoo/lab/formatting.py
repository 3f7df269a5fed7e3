"""Numbers as people read them: few digits, as many as the uncertainty allows."""

import math


def number(value: float | None, digits: int = 4) -> str:
    """Four significant digits; thousands separated; an en dash for nothing, "not finite" for NaN and infinity."""
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


def confidence(alpha: float) -> str:
    """How sure an interval at a level is: `95 %`, `97.9 %`."""
    return f"{100 * (1 - alpha):.3g} %"


def plus_minus(mean: float, sd: float) -> str:
    """`mean ± sd`, or the mean alone where there is no spread to speak of."""
    if not math.isfinite(sd):
        return number(mean)
    decimals = decimals_for(sd)
    return f"{mean:.{decimals}f} ± {sd:.{decimals}f}"


def measured(mean: float, low: float, high: float) -> str:
    """The mean with as many decimals as its interval deserves."""
    return f"{mean:.{decimals_for((high - low) / 2)}f}" if math.isfinite(mean) else "–"


def interval(low: float, high: float) -> str:
    """`low to high` with as many decimals as the width deserves."""
    if not math.isfinite(low) or not math.isfinite(high):
        return "–"
    decimals = decimals_for((high - low) / 2)
    return f"{low:.{decimals}f} to {high:.{decimals}f}"


def count(n: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def listed(names: list[str], most: int = 6) -> str:
    """The first few names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
