"""Aligns the numbers of a column at their decimal points.

A column such as "0.17", "−0.050" is right-aligned. Digits that would follow or precede a shorter
number are there, but not visible, so that the points stand below each other in any font whose digits
have one width.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from zoo.lab.formatting import MINUS

NUMBER = re.compile(r"(?P<sign>[−+-]?)(?P<whole>\d[\d,]*)(?:\.(?P<decimals>\d+))?(?![\de.])")
FIGURE_SPACE, PUNCTUATION_SPACE = "\u2007", "\u2008"


class TextPart(NamedTuple):
    """A part of a text: visible, or only as wide as it would be."""

    text: str
    visible: bool


def align(texts: Sequence[str]) -> list[list[TextPart]]:
    """Returns the parts of each text of a right-aligned column.

    Only texts with as many numbers as most of them are aligned; the others, such as an en dash, stay
    as they are.
    """
    found = [list(NUMBER.finditer(text)) if "e" not in text else [] for text in texts]
    counts = [len(numbers) for numbers in found if numbers]
    count = max(set(counts), key=counts.count) if counts else 0
    used = [numbers for numbers in found if count and len(numbers) == count]
    shapes = [
        (
            max(len(numbers[place]["sign"]) for numbers in used),
            max(len(numbers[place]["whole"]) for numbers in used),
            max(len(numbers[place]["decimals"] or "") for numbers in used),
        )
        for place in range(count if used else 0)
    ]
    return [
        _parts(text, numbers, shapes) if shapes and len(numbers) == count else [TextPart(text, True)]
        for text, numbers in zip(texts, found, strict=True)
    ]


def _parts(text: str, numbers: list[re.Match[str]], shapes: list[tuple[int, int, int]]) -> list[TextPart]:
    parts, end = [], 0
    for place, (number, (signs, wholes, decimals)) in enumerate(zip(numbers, shapes, strict=True)):
        before = MINUS * (signs - len(number["sign"])) + "0" * (wholes - len(number["whole"])) if place else ""
        own = number["decimals"] or ""
        after = ("." if decimals and not own else "") + "0" * (decimals - len(own))
        parts += [
            TextPart(text[end : number.start()], True),
            TextPart(before, False),
            TextPart(number[0], True),
            TextPart(after, False),
        ]
        end = number.end()
    return [part for part in [*parts, TextPart(text[end:], True)] if part.text]


def with_spaces(parts: list[TextPart]) -> str:
    """Returns the text with spaces as wide as digits in place of the invisible parts."""
    return "".join(
        part.text if part.visible else re.sub(r"[0−]", FIGURE_SPACE, part.text).replace(".", PUNCTUATION_SPACE)
        for part in parts
    )
