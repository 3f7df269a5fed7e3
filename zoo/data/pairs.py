"""Pairs of texts, a source and what it is to become: where they come from.

A source of pairs is one function in `PAIR_SOURCES`, looked up by what stands before the ":" of `data.source`. Whatever is read goes through
`data.bad_text`, side by side; a pair of which a side is left out, or is blank, is left out as a whole and counted.
"""

import csv
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import ml_collections

from zoo.data.files import find_files, suggestion
from zoo.data.hubs import hub_records, tensorflow_records
from zoo.data.records import BATCH, columns_of, json_records, numbered_lines, one_line, parquet_file, parquet_files, text_of, value_at
from zoo.data.tasks import translation
from zoo.data.text import TextPolicy
from zoo.errors import ConfigError, DataError, ZooError, did_you_mean

_BOTH_SIDES = re.compile(r"([^{}]*)\{([^{},]+),([^{},]+)\}([^{}]*)")
_SPLIT = "split:"


class Found(NamedTuple):
    """A pair as it is read: what it is in a message, and both sides as text or bytes."""

    where: str
    source: Any
    target: Any


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Pairs in memory, in a fixed order.

    Attributes:
        sources, targets: texts, none of them blank, without white space at their ends.
        name: where they are from, for people.
        left_out: how many pairs were left out or mended, and why.
    """

    sources: list[str]
    targets: list[str]
    name: str
    left_out: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) over the content: the same pairs in the same order, whatever files they came from."""
        digest = hashlib.sha256()
        for text in (*self.sources, *self.targets):
            digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()

    @property
    def bytes(self) -> int:
        """Size of both sides in UTF-8."""
        return sum(len(text.encode()) for text in (*self.sources, *self.targets))

    def split(self, fraction: float) -> tuple[Self, Self]:
        """The pairs to train on and about this share of them to hold out; a source text decides by its hash, so that none is in both.

        Raises:
            DataError: one of the parts is empty.
        """
        parts: tuple[tuple[list, list], ...] = ([], []), ([], [])
        for source, target in zip(self.sources, self.targets, strict=True):
            held_out = int(hashlib.sha256(source.encode()).hexdigest()[:8], 16) < fraction * 2**32
            parts[held_out][0].append(source)
            parts[held_out][1].append(target)
        if not all(sources for sources, _ in parts):
            raise DataError(f'"{self.name}": {len(self)} pairs are too few to hold out {fraction:g} of them; take more, or name others in '
                            "data.held_out")
        train, validation = (type(self)(*part, f"{name} part of {self.name}") for part, name in zip(parts, ("training", "held-out"),
                                                                                                    strict=True))
        return train, validation


def read_parts(data: Any) -> tuple[TextPairs, TextPairs]:
    """The pairs of `data.source`, and those of `data.held_out`; where that is empty, the former split in two.

    Args:
        data: the `data` part of a config.

    Raises:
        ConfigError: unknown source, no such file, column or split.
        DataError: no pairs, or bad ones.
    """
    found = read_pairs(data)
    if not data.held_out:
        return found.split(data.validation_fraction)
    if data.held_out.startswith(_SPLIT):
        other = {"hub": {**data.hub, "split": data.held_out.removeprefix(_SPLIT)}}
    else:
        other = {"source": data.held_out}
    try:
        return found, read_pairs(ml_collections.ConfigDict({**data, **other}))
    except ConfigError as error:
        raise ConfigError([problem.replace("data.source", "data.held_out", 1) for problem in error.problems]) from error


def read_pairs(data: Any) -> TextPairs:
    """All pairs of `data.source`. Raises as `read_parts`."""
    kind, _, argument = str(data.source).partition(":")
    if kind not in PAIR_SOURCES:
        hint, usages = did_you_mean(kind, PAIR_SOURCES), ", ".join(source.usage for source in PAIR_SOURCES.values())
        raise ConfigError(f'data.source: "{data.source}" has no pairs of texts for objective.kind=translation{hint}; one of {usages}')
    policy, sources, targets = TextPolicy(data.bad_text), [], []
    for where, *sides in PAIR_SOURCES[kind].read(argument, data, policy):
        names = data.source_column, data.target_column
        texts = [text_of(value, name, where, policy) for value, name in zip(sides, names, strict=True)]
        if None in texts:
            continue
        source, target = (text.strip() for text in texts)
        if not source or not target:
            policy.counts["with a blank side"] += 1
            continue
        sources.append(source)
        targets.append(target)
    if not sources:
        raise DataError(f'"{data.source}": there are no pairs{policy.summary()}')
    return TextPairs(sources, targets, str(data.source), policy.counts)


def _dates(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
    """Dates in words and as ISO 8601 writes them; the columns are "source" and "target"."""
    if argument not in ("", "translation"):
        raise ConfigError(f'data.source: of "stdlib" only "stdlib:translation" has pairs of texts, got "{data.source}"')
    task = translation()
    for number, record in enumerate((*task.train, *task.validation), 1):
        yield _of_record(record, data, f'"{data.source}": record {number}')


def _of_record(record: Any, data: Any, where: str) -> Found:
    """Raises ConfigError, naming the columns there are."""
    return Found(where, *(value_at(record, data[name], f"data.{name}", where) for name in ("source_column", "target_column")))


def _table(delimiter: str, kind: str) -> Callable[[str, Any, TextPolicy], Iterator[Found]]:
    """Reader of files of columns: the first line names them, or the columns are given by their numbers, from 1, and no line does.

    Of tab-separated files quotation marks are text; of comma-separated ones they hold fields together (RFC 4180).
    """
    quoting = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL

    def read(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
        columns = data.source_column, data.target_column
        by_number = all(column.isdecimal() for column in columns)
        for path in find_files(argument, kind, f"pairs.{kind}", (f".{kind}", f".{kind}.gz")):
            # Bytes that are no text go on to the policy, which knows what is to become of them.
            lines = (line.decode(errors="surrogateescape") + "\n" for _, line, _ in numbered_lines(path))
            rows = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
            names: list[str] | None = None
            try:
                for row in rows:
                    where = f'"{path}": line {rows.line_num}'
                    if not row:
                        continue
                    if names is None:
                        names = [str(number) for number in range(1, len(row) + 1)] if by_number else row
                        if not by_number:
                            _of_record(dict.fromkeys(names), data, where)
                            continue
                    if len(row) != len(names):
                        policy.leave_out("with too many or too few columns", where, f"{len(row)} columns instead of {len(names)}")
                        continue
                    record = {name: value.encode(errors="surrogateescape") for name, value in zip(names, row, strict=True)}
                    yield _of_record(record, data, where)
            except csv.Error as error:
                raise DataError(f'"{path}": line {rows.line_num}: {error}') from error

    return read


def _json(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
    """Lines of JSON objects; a column may be a path into them, e.g. "translation.en"."""
    for where, record in json_records(argument, policy):
        for name in ("source_column", "target_column"):
            if value_at(record, data[name]) is None:
                policy.leave_out(f'without "{data[name]}"', where, _no_column(f"data.{name}", data[name], record))
                break
        else:
            yield _of_record(record, data, where)


def _no_column(path: str, column: str, record: Any) -> str:
    return f'{path}: no column "{column}"; there is {", ".join(columns_of(record))}'


def _parquet(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
    """Rows of Parquet files."""
    for path in parquet_files(argument):
        with parquet_file(path) as file:
            yield from _rows(file.iter_batches(BATCH), data, f'"{path}": row')


def _rows(tables: Iterator[Any], data: Any, where: str) -> Iterator[Found]:
    number = 0
    for table in tables:
        for record in table.to_pylist():
            number += 1
            yield _of_record(record, data, f"{where} {number}")


def _hugging_face(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
    """A data set of the hub, or a folder; the columns of its "translation" feature are "translation.en" and so on."""
    records, _ = hub_records(argument, data)
    try:
        yield from _rows(records.with_format("arrow").iter(BATCH), data, f'"{data.source}": record')
    except ZooError:
        raise
    except Exception as error:  # whatever a library of many formats and transports raises
        raise DataError(f'"{data.source}": {one_line(error)}') from error


def _tfds(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
    """A data set of TFDS; the columns are its features, e.g. "de" and "en"."""
    records, _ = tensorflow_records(argument, data)
    for start in range(0, len(records), BATCH):
        numbers = range(start, min(start + BATCH, len(records)))
        for number, record in zip(numbers, records.__getitems__(list(numbers)), strict=True):
            yield _of_record(record, data, f'"{data.source}": record {number + 1}')


def _parallel(argument: str, data: Any, policy: TextPolicy) -> Iterator[Found]:
    """Two text files, plain or .gz, of which line n of the one belongs to line n of the other: "train.{en,de}.gz", the source first."""
    match = _BOTH_SIDES.fullmatch(argument)
    if match is None:
        raise ConfigError(f'data.source: "{data.source}" does not name two files; both sides stand in braces, the source first, '
                          'e.g. "parallel:corpus/train.{en,de}.gz"')
    before, *names, after = match.groups()
    paths = [Path(f"{before}{name}{after}").expanduser() for name in names]
    if problems := [f'data.source: no such file: "{path}"{suggestion(path)}' for path in paths if not path.is_file()]:
        raise ConfigError(problems)
    sides = [[line for _, line, _ in numbered_lines(path)] for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise DataError(f'"{paths[0]}" has {len(sides[0]):,} lines and "{paths[1]}" {len(sides[1]):,}; line n of one must belong to line n '
                        "of the other")
    for number, (source, target) in enumerate(zip(*sides, strict=True), 1):
        yield Found(f'"{data.source}": line {number}', source, target)


class PairSource(NamedTuple):
    """How it is written, and the function of (what follows the ":", `data`, the policy for bad text) that reads it."""

    usage: str
    read: Callable[[str, Any, TextPolicy], Iterator[Found]]


PAIR_SOURCES = {
    "stdlib": PairSource("stdlib:translation", _dates),
    "parallel": PairSource("parallel:PATH.{en,de}", _parallel),
    "tsv": PairSource("tsv:PATH", _table("\t", "tsv")),
    "csv": PairSource("csv:PATH", _table(",", "csv")),
    "jsonl": PairSource("jsonl:PATH", _json),
    "parquet": PairSource("parquet:PATH", _parquet),
    "hf": PairSource("hf:NAME_OR_FOLDER", _hugging_face),
    "tfds": PairSource("tfds:NAME", _tfds),
}
