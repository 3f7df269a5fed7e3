"""Formats numbers for readers: few digits, as many as the uncertainty allows."""

import math


def number(value: float | None, digits: int = 4) -> str:
    """Formats with four significant digits and thousands separators.

    None is an en dash; NaN and infinity are "not finite".
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


def significant(value: float | None, digits: int) -> float | None:
    """Returns the value rounded to significant digits; None stays None."""
    return None if value is None else float(f"{value:.{digits}g}")


def decimals_for(uncertainty: float) -> int:
    """Returns the number of decimal places worth printing: one or two digits of the uncertainty.

    The rule of the Particle Data Group: two digits if the leading ones are 100 to 354, one if they
    are 355 to 999. Losses and scores have at least two places, numbers of steps may have none.
    """
    if not math.isfinite(uncertainty) or uncertainty <= 0:
        return 4
    exponent = math.floor(math.log10(uncertainty))
    places = 1 if uncertainty / 10**exponent < 3.55 else 0
    return min(5, max(2 if uncertainty < 3.55 else 0, places - exponent))


def _fixed(uncertainty: float, *values: float) -> list[str]:
    """Formats values with the decimals that their uncertainty allows.

    Values that would all be shown as zero get three significant digits.
    """
    if 0 < uncertainty < 1e-5 and max(map(abs, values)) < 1e-3:
        return [f"{value:.3g}" for value in values]
    return [f"{value:,.{decimals_for(uncertainty)}f}" for value in values]


def confidence_level(alpha: float) -> str:
    """Returns the confidence level of an interval, e.g. `95 %` or `97.9 %`."""
    return f"{100 * (1 - alpha):.3g} %"


def plus_minus(mean: float, sd: float) -> str:
    """Returns `mean ± sd`, or the mean alone if the sd is not finite."""
    if not math.isfinite(sd):
        return number(mean)
    return " ± ".join(_fixed(sd, mean, sd))


def rounded_mean(mean: float, low: float, high: float) -> str:
    """Returns the mean with the decimals that its interval allows."""
    return _fixed((high - low) / 2, mean)[0] if math.isfinite(mean) else "–"


def interval(low: float, high: float) -> str:
    """Returns `low to high` with the decimals that the width allows.

    An interval that excludes 0 has as many as show that, up to five.
    """
    if not math.isfinite(low) or not math.isfinite(high):
        return "–"
    shown = _fixed((high - low) / 2, low, high)
    decimals = decimals_for((high - low) / 2)
    while low * high > 0 and decimals < 5 and any(float(text.replace(",", "")) == 0 for text in shown):
        decimals += 1
        shown = [f"{value:,.{decimals}f}" for value in (low, high)]
    return " to ".join(shown)


def count(n: int, noun: str) -> str:
    """Returns e.g. `1 seed` or `3 seeds`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def bytes_text(size: int) -> str:
    """Returns e.g. `512 KiB`, with four significant digits."""
    for unit, factor in (("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:,.4g} {unit}"
    return f"{size:,} bytes"
