"""Tables in pages written by hand that are made of data files.

A page says where a table comes from by a comment, and `zoo results` writes the table below it:

    <!-- table: finetuning/scores.csv; columns: data, score; where: score -->

    | data | score |
    ...

    <!-- end of table -->

`columns` selects and orders columns (default: all), `where` leaves out rows whose cell is empty.
Numbers with six decimals or more are rounded to four significant digits.
"""

import csv
import re
from pathlib import Path

from zoo.errors import ConfigError, did_you_mean
from zoo.files import write_atomic
from zoo.lab.formatting import number
from zoo.lab.report.archive.experiment_page import as_cell

_BLOCK = re.compile(r"<!-- table: (?P<options>[^>]*?) -->\n.*?<!-- end of table -->", re.DOTALL)
_LONG = re.compile(r"-?\d+\.\d{6,}")
_OPTIONS = ("columns", "where")


def refresh_tables(page: Path) -> None:
    """Writes the tables of a page anew; a page without such comments stays as it is.

    Raises:
        ConfigError: a comment that is not understood, or a data file that lacks a column.
    """
    text = page.read_text(encoding="utf-8")
    written = _BLOCK.sub(lambda block: _table(page, block), text)
    if written != text:
        write_atomic(page, written)


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
    columns, where = chosen.get("columns", present), chosen.get("where", [])
    if unknown := [column for column in (*columns, *where) if column not in present]:
        raise ConfigError(f"{page}: table {name} has no column {unknown[0]!r}{did_you_mean(unknown[0], present)}")
    lines = [f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for row in rows:
        if all(row[column] for column in where):
            lines.append(f"| {' | '.join(_cell(row[column] or '') for column in columns)} |")
    return "\n".join([block[0].partition("\n")[0], "", *lines, "", "<!-- end of table -->"])


def _cell(text: str) -> str:
    """Returns a cell; a number with many digits is rounded to four."""
    return number(float(text)) if _LONG.fullmatch(text) else as_cell(text)
