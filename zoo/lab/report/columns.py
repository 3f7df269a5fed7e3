"""Columns of numbers: one number of decimal places in each, and the values without rounding for
CSV files.
"""

from collections.abc import Sequence

from zoo.lab.formatting import difference_columns, number_column, plus_minus_column
from zoo.lab.report.html_tables import Cell, numeric
from zoo.lab.statistics.paired import PairedDifference, Spread

# Of the columns whose cells hold two values, in a CSV file.
MEAN_AND_SD = ("mean", "SD")
BOUNDS = ("low", "high")


def number_cells(values: Sequence[float | None], digits: int = 4) -> list[Cell]:
    """Returns a column of values; None is an en dash."""
    return [numeric(text, value) for text, value in zip(number_column(values, digits), values, strict=True)]


def spread_cells(found: Sequence[Spread | None]) -> list[Cell]:
    """Returns a column of means with standard deviations; None is an en dash."""
    pairs = [None if one is None else (one.mean, one.sd) for one in found]
    return [numeric(text, *(pair or (None, None))) for text, pair in zip(plus_minus_column(pairs), pairs, strict=True)]


def difference_cells(found: Sequence[PairedDifference]) -> tuple[list[Cell], list[Cell]]:
    """Returns the columns of the means and of the intervals of differences."""
    means, intervals = difference_columns([(one.mean, one.low, one.high) for one in found])
    return (
        [numeric(text, one.mean) for text, one in zip(means, found, strict=True)],
        [numeric(text, one.low, one.high) for text, one in zip(intervals, found, strict=True)],
    )


def csv_names(title: str, parts: Sequence[str]) -> dict[str, list[str]]:
    """Returns the titles in a CSV file of a column whose cells hold several values, by its title."""
    return {title: [f"{title}, {part}" for part in parts]}
