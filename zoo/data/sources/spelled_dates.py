"""Dates in English words."""

import datetime

_MONTHS = ("January", "February", "March", "April", "May", "June", "July",
           "August", "September", "October", "November", "December")  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ONES = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
         "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
         "eighteen", "nineteen")  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
    "twenty": "twentieth",
    "thirty": "thirtieth",
}


def spell_date(date: datetime.date, spelling: int) -> str:
    """Writes a date in one of five spellings, 0 .. 4."""
    month, year, weekday = _MONTHS[date.month - 1], _year(date.year), _WEEKDAYS[date.weekday()]
    suffix = "th" if 10 < date.day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(date.day % 10, "th")
    return (
        f"the {_ordinal(date.day)} of {month}, {year}",
        f"{weekday}, {month} {date.day}{suffix}, {date.year}",
        f"{date.day} {month[:3]} {date.year}",
        f"{month} the {_ordinal(date.day)} {year}",
        f"{weekday} the {date.day}{suffix} of {month} {year}",
    )[spelling]


def _cardinal(number: int) -> str:
    """Writes a number from 1 to 99 in words."""
    tens, ones = divmod(number, 10)
    return _ONES[number] if number < 20 else "-".join(filter(None, (_TENS[tens], _ONES[ones])))


def _ordinal(number: int) -> str:
    head, dash, last = _cardinal(number).rpartition("-")
    return head + dash + _ORDINALS.get(last, f"{last}th")


def _year(year: int) -> str:
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return "two thousand" + (f" and {_cardinal(rest)}" if rest else "")
    return f"{_cardinal(century)} " + (
        "hundred" if not rest else f"oh {_cardinal(rest)}" if rest < 10 else _cardinal(rest)
    )
