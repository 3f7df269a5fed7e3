"""Tables that fit a terminal: columns are dropped by name, and those that tell rows apart stay."""

from collections.abc import Sequence

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

# Far more columns than any table needs.
UNLIMITED = 100_000
# Characters of a column that is cut for which another one is left out.
SHORTEST = 20


def print_fitted(
    console: Console, table: Table, dropped_first: Sequence[str], where: str = "--json has them", cut: str = ""
) -> None:
    """Prints a table without the columns that do not fit, and a line that names them.

    Other columns are folded at the width of the console, so that nothing of them is lost.

    Args:
        console: whose width decides.
        table: the table.
        dropped_first: headers of the columns that may be left out, the least important first.
        where: where the columns can be read, for the line.
        cut: header of a column whose texts are cut to the room that there is, or to `SHORTEST`, before
            any column is left out.
    """
    left_out, texts = [], [column for column in table.columns if _header(column.header) == cut]
    for column in texts:
        column.max_width = SHORTEST
    for name in dropped_first:
        if _width(console, table) <= console.width:
            break
        kept = [column for column in table.columns if _header(column.header) != name]
        left_out += [name] if len(kept) < len(table.columns) else []
        table.columns[:] = kept
    for column in texts:
        room = console.width - _width(console, table) + SHORTEST
        column.no_wrap, column.overflow, column.max_width = True, "crop", max(SHORTEST, room)
    # Neither changes how wide a table is without wrapping, which takes long to measure.
    too_wide = _width(console, table) > console.width
    for column in table.columns:
        if column in texts:
            continue
        column.overflow = "fold"
        if too_wide:
            column.no_wrap = False
    console.print(table)
    if left_out:
        console.print(
            Text(f"not shown at {console.width} columns: {', '.join(left_out)} ({where})", "dim"), soft_wrap=True
        )


def _header(header: object) -> str:
    return header.plain if isinstance(header, Text) else str(header)


def _width(console: Console, table: Table) -> int:
    """Returns how wide a table is without any wrapping."""
    return Measurement.get(console, console.options.update_width(UNLIMITED), table).maximum
