"""Formats numbers for readers: few digits, as many as the uncertainty allows.

The minus sign is U+2212 everywhere that people read; records (JSON, CSV) hold numbers and not
these texts. The functions that end in `_column` give all cells of a column one number of decimal
places, so that its digits stand below each other.
"""

import math
from collections.abc import Sequence

MINUS = "\N{MINUS SIGN}"
# A precise value may have this many decimal places more than the least precise one of its column
# needs.
MOST_ADDED_PLACES = 1


def with_minus(text: str) -> str:
    """Returns the text of numbers with real minus signs."""
    return text.replace("-", MINUS)


def number(value: float | None, digits: int = 4) -> str:
    """Formats with four significant digits and thousands separators.

    None is an en dash; NaN and infinity are "not finite".
    """
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "not finite"
    if (places := _places(value, digits)) is None:
        return with_minus(f"{value:.{digits - 1}g}")
    return with_minus(f"{value:,.{places}f}")


def _places(value: float, digits: int) -> int | None:
    """Returns the decimal places of a finite number; None for one that is written with a power of
    ten.
    """
    if value == int(value) and abs(value) < 1e15:
        return 0
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return None
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def number_column(values: Sequence[float | None], digits: int = 4) -> list[str]:
    """Returns each value as `number` does, but all with the same number of decimal places."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    places = [_places(value, digits) for value in known]
    if not known or None in places:
        return [number(value, digits) for value in values]
    shown = min(max(places), min(places) + MOST_ADDED_PLACES) if min(places) else max(places)
    return [
        with_minus(f"{value:,.{shown}f}") if value is not None and math.isfinite(value) else number(value)
        for value in values
    ]


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
    if _is_tiny(uncertainty, *values):
        return [with_minus(f"{value:.3g}") for value in values]
    return [with_minus(f"{value:,.{decimals_for(uncertainty)}f}") for value in values]


def _is_tiny(uncertainty: float, *values: float) -> bool:
    return 0 < uncertainty < 1e-5 and max(map(abs, values)) < 1e-3


def column_places(uncertainties: Sequence[float]) -> int:
    """Returns the decimal places of a column: those of its most precise value, but at most two
    more than its least precise value needs.
    """
    needed = [decimals_for(one) for one in uncertainties if math.isfinite(one) and one > 0]
    return min(max(needed), min(needed) + MOST_ADDED_PLACES) if needed else decimals_for(math.nan)


def plus_minus_column(found: Sequence[tuple[float, float] | None]) -> list[str]:
    """Returns `mean ± sd` of each (mean, sd), with the same decimal places; the mean alone without
    a finite sd, and an en dash for None.
    """
    known = [sd for one in found if one is not None and math.isfinite(sd := one[1])]
    if not known or any(one is not None and _is_tiny(one[1], *one) for one in found):
        return ["–" if one is None else plus_minus(*one) for one in found]
    places = column_places(known)
    return ["–" if one is None else _fixed_plus_minus(*one, places) for one in found]


def _fixed_plus_minus(mean: float, sd: float, places: int) -> str:
    if not math.isfinite(mean):
        return number(mean)
    shown = with_minus(f"{mean:,.{places}f}")
    return f"{shown} ± {sd:,.{places}f}" if math.isfinite(sd) else shown


def difference_columns(found: Sequence[tuple[float, float, float]]) -> tuple[list[str], list[str]]:
    """Returns the means and the intervals of (mean, low, high) as two columns with the same
    decimal places.

    An interval that excludes 0 has enough of them, up to five, to show that. A mean without an
    interval has those of the others.
    """
    halves = [(high - low) / 2 for _, low, high in found]
    if not any(map(math.isfinite, halves)):
        return number_column([mean if math.isfinite(mean) else None for mean, *_ in found]), ["–"] * len(found)
    if any(_is_tiny(half, *one) for half, one in zip(halves, found, strict=True)):
        return [rounded_mean(*one) for one in found], [interval(low, high) for _, low, high in found]
    places = column_places(halves)
    bounds = [bound for _, low, high in found if low * high > 0 for bound in (low, high)]
    while places < 5 and any(round(bound, places) == 0 for bound in bounds):
        places += 1
    means = [with_minus(f"{mean:,.{places}f}") if math.isfinite(mean) else "–" for mean, *_ in found]
    intervals = [
        with_minus(f"{low:,.{places}f} to {high:,.{places}f}") if math.isfinite(half) else "–"
        for (_, low, high), half in zip(found, halves, strict=True)
    ]
    return means, intervals


def confidence_level(alpha: float) -> str:
    """Returns the confidence level of an interval, e.g. `95 %`, `97.9 %` or `99.96 %`: never 100 %."""
    texts = (f"{100 * (1 - alpha):.{digits}g}" for digits in range(3, 12))
    return f"{next((text for text in texts if text != '100'), '100')} %"


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
    while low * high > 0 and decimals < 5 and any(round(value, decimals) == 0 for value in (low, high)):
        decimals += 1
        shown = [with_minus(f"{value:,.{decimals}f}") for value in (low, high)]
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
