"""Tables as HTML. All text from files passes through `html.escape`."""

import html
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from zoo.lab.declarations import BETWEEN_LEVELS
from zoo.lab.report.alignment import align
from zoo.nested import flatten


@dataclass(frozen=True)
class Cell:
    """One table cell: text to be escaped, or escaped HTML in `markup`.

    Attributes:
        raw: its values as a CSV file has them, one for each column there; empty for the text itself.
    """

    text: str = ""
    kind: str = ""
    markup: str | None = None
    raw: tuple[float | str | None, ...] = ()


def escape(value: Any) -> str:
    return html.escape(str(value), quote=True)


MAX_UNBROKEN_LENGTH = 30
_HYPHEN_IN_WORD = re.compile(r"\w-\w")


def unbroken(text: Any) -> str:
    """Returns escaped text whose lines do not break at the hyphens of names such as warm-up=50."""
    words = [
        f'<span class="short">{word}</span>'
        if _HYPHEN_IN_WORD.search(word) and len(word) <= MAX_UNBROKEN_LENGTH
        else word
        for word in escape(text).split(" ")
    ]
    return " ".join(words)


def numeric(text: str, *raw: float | None) -> Cell:
    """Returns a right-aligned cell; `raw` are its values without rounding."""
    return Cell(text, "number", raw=tuple(value if _is_known(value) else None for value in raw))


def _is_known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def arm_cell(label: str) -> Cell:
    """Returns an arm's label that may break between factors but not at a hyphen within one."""
    parts = label.split(BETWEEN_LEVELS)
    shown = [part + (BETWEEN_LEVELS if index < len(parts) - 1 else "") for index, part in enumerate(parts)]
    return Cell(
        markup=f'<span data-arm-label="{escape(label)}">'
        + "<wbr>".join(
            f'<span class="part{" short" if len(part) <= MAX_UNBROKEN_LENGTH else ""}">{escape(part)}</span>'
            for part in shown
        )
        + "</span>"
    )


def state_cell(word: str) -> Cell:
    return Cell(word, markup=f'<span class="state {escape(word.replace(" ", "-"))}">{escape(word)}</span>')


def table(
    caption: str,
    header: list[str],
    rows: Iterable[list[Cell]],
    numeric_columns: Iterable[int] = (),
    csv_names: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Returns a table whose first column names the row.

    Args:
        caption: read out and shown.
        header: a title for each column.
        rows: of cells.
        numeric_columns: indices of the columns that are aligned at their decimal points.
        csv_names: titles in a CSV file of the columns whose cells hold several values, by title.
    """
    right, rows = set(numeric_columns), [list(row) for row in rows]
    for column in right:
        _align(rows, column)
    head = "".join(
        f'<th scope="col"{_head_class(rows, i, i in right)}{_csv(csv_names.get(text, ()))}>{unbroken(text)}</th>'
        for i, text in enumerate(header)
    )
    body = []
    for row in rows:
        cells = []
        for index, cell in enumerate(row):
            inner = escape(cell.text) if cell.markup is None else cell.markup
            tag = 'th scope="row"' if index == 0 else "td"
            kind = f' class="{cell.kind}"' if cell.kind else ""
            kind += f' data-text="{escape(cell.text)}"' if cell.kind == "number" and cell.markup is not None else ""
            cells.append(f"<{tag}{kind}{_csv(cell.raw)}>{inner}</{tag[:2]}>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _head_class(rows: list[list[Cell]], column: int, right: bool) -> str:
    kind = "number" if right else "factor" if rows and rows[0][column].kind == "factor" else ""
    return f" class={kind}" if kind else ""


def _csv(values: Sequence[float | str | None]) -> str:
    return f' data-csv="{escape(json.dumps(list(values)))}"' if values else ""


def _align(rows: list[list[Cell]], column: int) -> None:
    """Aligns the numbers of a column at their decimal points."""
    places = [row for row in rows if row[column].kind == "number" and row[column].markup is None]
    for row, parts in zip(places, align([row[column].text for row in places]), strict=True):
        if not all(part.visible for part in parts):
            markup = "".join(
                escape(part.text) if part.visible else f'<span class="pad" aria-hidden="true">{part.text}</span>'
                for part in parts
            )
            row[column] = replace(row[column], markup=markup)


def facts_table(caption: str, facts: dict[str, Any]) -> str:
    """Returns a table of keys and values."""
    rows = [
        [Cell(key), Cell(value if isinstance(value, str) else json.dumps(value))]
        for key, value in flatten(facts).items()
    ]
    return table(caption, ["", "value"], rows)


def samples_table(caption: str, rows: list[dict[str, str]]) -> str:
    """Returns a table of generated texts, line breaks included."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    cells = [
        [Cell(str(index)), *(Cell(row.get(key, "–"), "sample") for key in header)]
        for index, row in enumerate(rows, start=1)
    ]
    return table(caption, ["", *header], cells)
