"""Tables and counts in pages written by hand that are made of data files.

A page says where a table comes from by a comment, and `python -m publication results` writes the
table below it:

    <!-- table: scores.csv; columns: data, score; where: score -->

    | data | score |
    ...

    <!-- end of table -->

`columns` selects and orders columns (default: all), `where` leaves out rows whose cell is empty.
Numbers with five decimals or more are rounded to four significant digits. `by: arm` makes one row of
all rows with the same arm: of numbers the mean and the sample's standard deviation, `0.50 ± 0.02`.

Sentences with counts, which follow from all results, are written between

    <!-- text: counts -->

    70 claims: ...

    <!-- end of text -->
"""

import csv
import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from zoo.errors import ConfigError, did_you_mean
from zoo.files import write_atomic
from zoo.lab.formatting import number, plus_minus
from zoo.lab.report.archive.experiment_page import as_cell

_BLOCK = re.compile(r"<!-- table: (?P<options>[^>]*?) -->\n.*?<!-- end of table -->", re.DOTALL)
_TEXT = re.compile(r"<!-- text: (?P<name>[^>]*?) -->\n.*?<!-- end of text -->", re.DOTALL)
_LONG = re.compile(r"-?\d+\.\d{5,}")
_NEGATIVE = re.compile(r"-[\d.]+")
_OPTIONS = ("columns", "where", "by")


def refresh_page(page: Path, texts: Mapping[str, str] | None = None) -> None:
    """Writes the tables and texts of a page anew; a page without such comments stays as it is.

    Args:
        page: its path.
        texts: {name: sentences}; None leaves the texts of the page as they are.

    Raises:
        ConfigError: a comment that is not understood, or a data file that lacks a column.
    """
    text = page.read_text(encoding="utf-8")
    written = _BLOCK.sub(lambda block: _table(page, block), text)
    if texts is not None:
        written = _TEXT.sub(lambda block: _text(page, block["name"].strip(), texts), written)
    if written != text:
        write_atomic(page, written)


def _text(page: Path, name: str, texts: Mapping[str, str]) -> str:
    if name not in texts:
        raise ConfigError(f"{page}: text {name!r} is not one of {', '.join(texts)}{did_you_mean(name, texts)}")
    return f"<!-- text: {name} -->\n\n{texts[name]}\n\n<!-- end of text -->"


def _table(page: Path, block: re.Match[str]) -> str:
    name, *options = (part.strip() for part in block["options"].split(";"))
    chosen = {}
    for option in options:
        key, _, value = option.partition(":")
        if key not in _OPTIONS:
            raise ConfigError(f"{page}: table {name}: {key!r} is not one of {', '.join(_OPTIONS)}")
        chosen[key] = [column.strip() for column in value.split(",")]
    path = page.parent / name
    try:
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows, present = list(reader), list(reader.fieldnames or ())
    except OSError as error:
        raise ConfigError(f"{page}: table {name}: {path} cannot be read ({error.strerror or error})") from error
    columns, where, by = chosen.get("columns", present), chosen.get("where", []), chosen.get("by", [])
    if unknown := [column for column in (*columns, *where, *by) if column not in present]:
        raise ConfigError(f"{page}: table {name} has no column {unknown[0]!r}{did_you_mean(unknown[0], present)}")
    rows = [row for row in rows if all(row[column] for column in where)]
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for group in _groups(rows, by):
        lines.append(f"| {' | '.join(_cell([row[column] or '' for row in group]) for column in columns)} |")
    return "\n".join([block[0].partition("\n")[0], "", *lines, "", "<!-- end of table -->"])


def _groups(rows: Iterable[Mapping[str, str]], by: list[str]) -> list[list[Mapping[str, str]]]:
    """Returns the rows with equal values of the columns `by` together; without any, each row alone."""
    groups: dict[tuple, list] = {}
    for index, row in enumerate(rows):
        groups.setdefault(tuple(row[column] for column in by) or (index,), []).append(row)
    return list(groups.values())


def _cell(texts: list[str]) -> str:
    """Returns a cell: a number rounded to four digits, or mean ± SD of several numbers."""
    if len(set(texts)) == 1:
        (text,) = set(texts)
        if _LONG.fullmatch(text):
            return number(float(text))
        return f"−{text[1:]}" if _NEGATIVE.fullmatch(text) else as_cell(text)
    try:
        values = [float(text) for text in texts]
    except ValueError:
        return ", ".join(as_cell(text) for text in dict.fromkeys(texts))
    return plus_minus(statistics.fmean(values), statistics.stdev(values))
