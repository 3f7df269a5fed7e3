"""Records of csv and tsv files."""

import csv
import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from zoo.data.sources.text_files import numbered_lines
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, listed

# Characters; the default of the csv module is 128 KiB. The module takes a C long, of 32 bits on
# some systems.
LONGEST_FIELD = 2**31 - 1
_NUMBER = re.compile(r"[-+]?\d+([.,]\d+)?")


class _Lines:
    """Lines of a file that remember those of the current record, to be read again.

    Attributes:
        record: (number, text) of the lines since it was last set.
    """

    def __init__(self, path: Path, policy: BadTextPolicy):
        self.record: list[tuple[int, str]] = []
        self._again: deque[tuple[int, str]] = deque()
        self._lines = self._read(path, policy)

    @staticmethod
    def _read(path: Path, policy: BadTextPolicy) -> Iterator[tuple[int, str]]:
        for number, content, offset in numbered_lines(path):
            text = policy.decode(content, f'"{path}": line {number}', offset)
            if text is not None:
                # A quoted field may continue in the next line.
                yield number, text.removesuffix("\r") + "\n"

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        self.record.append(self._again.popleft() if self._again else next(self._lines))
        return self.record[-1][1]

    def drop_first(self) -> None:
        """Goes back to the second line of the record."""
        self._again.extendleft(reversed(self.record[1:]))


def delimited_records(
    path: Path, kind: str, header: bool, policy: BadTextPolicy, wanted: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (location, {column: field}) for each record of a file.

    Where quotes are wrong and the policy skips records, reading goes on in the line after the
    record's first.

    Args:
        path: the file, plain or compressed.
        kind: "csv", with commas and quotes, or "tsv", with tabs only.
        header: whether the first record names the columns; otherwise they are numbered from 0.
        policy: for records that cannot be read.
        wanted: names of columns that are looked for.

    Raises:
        ConfigError: two columns have the same name; the first record has none of the wanted columns
            and looks like data.
        DataError: quotes or a number of fields that are wrong, unless the policy skips the record.
    """
    csv.field_size_limit(LONGEST_FIELD)
    style = {"quoting": csv.QUOTE_NONE, "delimiter": "\t"} if kind == "tsv" else {"strict": True}
    lines, names = _Lines(path, policy), None
    reader = csv.reader(lines, **style)
    while True:
        lines.record = []
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number, problem = _quote_problem(lines.record, error)
            policy.skip_record("wrong quotes", f'"{path}": line {number}', problem)
            lines.drop_first()
            reader = csv.reader(lines, **style)
            continue
        if not any(row):
            continue
        if names is None:
            names = row if header else [str(number) for number in range(len(row))]
            if len(set(names)) < len(names):
                raise ConfigError(
                    f'"{path}": two columns of one name in its first line; if that is no header, set data.header=false'
                )
            if header and wanted and not set(wanted) & set(names) and _looks_like_data(names):
                raise ConfigError(
                    f'"{path}": the first line names no column "{wanted[0]}"; there are {listed(names)}; if it is no '
                    "header, set data.header=false, which calls the columns 0, 1, 2 ..."
                )
            if header:
                continue
        where = f'"{path}": line {lines.record[-1][0]}'
        if len(row) != len(names):
            policy.skip_record(
                "other number of fields", where, f"{len(row)} fields, and the first line has {len(names)}"
            )
            continue
        yield where, dict(zip(names, row, strict=True))


def _looks_like_data(names: Sequence[str]) -> bool:
    """Returns whether a first record holds a number, an empty field or a text, which name nothing."""
    return any(not name.strip() or len(name.split()) > 2 or _NUMBER.fullmatch(name.strip()) for name in names)


def _quote_problem(record: list[tuple[int, str]], error: csv.Error) -> tuple[int, str]:
    """Returns (number of a line, what is wrong there) for a record that csv refuses.

    Args:
        record: (number, text) of the lines up to the error.
        error: the error.
    """
    opened = last = None
    for number, text in record:
        for quote in re.finditer('"', text):
            before = text[quote.start() - 1] if quote.start() else "\n"
            if opened is not None:
                opened = None
            elif before == '"':  # Two quotes stand for one.
                opened = last
            elif before in ",\n":
                opened = last = number
    if opened is not None:
        return opened, "the quote that opens here is not closed"
    begin, end = record[0][0], record[-1][0]
    if "new-line" in str(error):
        return begin, "a carriage return outside quotes; lines end at LF or CRLF, so convert the file"
    return last or begin, str(error) + (f" in line {end}; the quote opens here" if end != (last or begin) else "")
