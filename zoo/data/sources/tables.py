"""Records with named columns: csv, tsv, lines of JSON, Parquet and data sets of other libraries."""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_collections

from zoo.data.sources.hubs import open_hugging_face, open_tfds, tfds_rows
from zoo.data.sources.records import (
    BATCH,
    JSON_ENDINGS,
    import_optional,
    json_objects,
    numbered_lines,
    one_line_message,
    parquet_file,
)
from zoo.data.sources.text_files import find_files
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, ZooError, did_you_mean

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Records in a fixed order.

    Attributes:
        records: starts a pass that yields (location, record).
        names: the class names of columns that hold class numbers.
    """

    records: Callable[[BadTextPolicy], Iterator[tuple[str, Record]]]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def delimited(argument: str, data: Any, kind: str) -> Table:
    """Reads lines of fields: csv with commas and quotes, tsv with tabs only; plain or .gz.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, f"train.{kind}", (f".{kind}", f".{kind}.gz"))

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            yield from _fields(path, kind, data.header, policy)

    return Table(records)


def _fields(path: Path, kind: str, header: bool, policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
    def lines() -> Iterator[str]:
        for number, content, offset in numbered_lines(path):
            text = policy.decode(content, f'"{path}": line {number}', offset)
            if text is not None:
                # A quoted field may continue in the next line.
                yield text.removesuffix("\r") + "\n"

    style = {"quoting": csv.QUOTE_NONE, "delimiter": "\t"} if kind == "tsv" else {"strict": True}
    reader, names = csv.reader(lines(), **style), None
    try:
        for row in reader:
            if not any(row):
                continue
            if names is None:
                names = row if header else [str(number) for number in range(len(row))]
                if len(set(names)) < len(names):
                    raise ConfigError(
                        f'"{path}": two columns of one name in its first line; if that is no header, set '
                        "data.header=false"
                    )
                if header:
                    continue
            where = f'"{path}": line {reader.line_num}'
            if len(row) != len(names):
                policy.skip_record(
                    "other number of fields", where, f"{len(row)} fields, and the first line has {len(names)}"
                )
                continue
            yield where, dict(zip(names, row, strict=True))
    except csv.Error as error:
        raise DataError(f'"{path}": line {reader.line_num}: {error}') from error


def json_records(argument: str, data: Any, kind: str) -> Table:
    """Reads one JSON object per line; files are plain or .gz.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, "train.jsonl", JSON_ENDINGS)
    return Table(lambda policy: json_objects(files, policy))


def parquet_records(argument: str, data: Any, kind: str) -> Table:
    """Reads the rows of Parquet files.

    Raises:
        ConfigError: no such files; no pyarrow.
    """
    files = find_files(argument, kind, "train.parquet", (".parquet", ".pq"))
    import_optional("pyarrow", "parquet")

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            with parquet_file(path) as file:
                rows = (row for batch in file.iter_batches(BATCH) for row in batch.to_pylist())
                for number, record in enumerate(rows, 1):
                    yield f'"{path}": row {number}', record

    return Table(records)


def hub_records(argument: str, data: Any, kind: str) -> Table:
    """Reads a data set of Hugging Face `datasets`, with its class names.

    Raises:
        ConfigError: as `zoo.data.sources.hubs.open_hugging_face`.
    """
    opened = open_hugging_face(argument, data)

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        try:
            for number, record in enumerate(opened, 1):
                yield f'"{data.source}": record {number}', record
        except ZooError:
            raise
        except Exception as error:  # whatever a library of many formats and transports raises
            raise DataError(f'"{data.source}": {one_line_message(error)}') from error

    return Table(records, dict(_class_names(opened.features or {})))


def tfds_records(argument: str, data: Any, kind: str) -> Table:
    """Reads a data set of TFDS, with its class names.

    Raises:
        ConfigError: as `zoo.data.sources.hubs.open_tfds`.
    """
    builder, opened = open_tfds(argument, data, ())

    return Table(lambda policy: tfds_rows(opened, data.source), dict(_class_names(builder.info.features)))


def _class_names(features: Mapping[str, Any], outer: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, feature in features.items():
        if isinstance(feature, Mapping):
            yield from _class_names(feature, f"{outer}{name}.")
            continue
        inner = getattr(feature, "feature", None)
        if names := getattr(feature, "names", None) or getattr(inner, "names", None):
            yield outer + name, tuple(names)


# By the part of `data.source` before the ":".
TABLES: dict[str, Callable[[str, Any, str], Table]] = {
    "csv": delimited,
    "tsv": delimited,
    "jsonl": json_records,
    "parquet": parquet_records,
    "hf": hub_records,
    "tfds": tfds_records,
}


def held_out_config(data: Any) -> Any:
    """Returns the `data` part of a config with `data.held_out` as its source.

    `data.held_out` is a source, or `split:NAME` of the same source.
    """
    kind, _, argument = data.held_out.partition(":")
    changed = ml_collections.ConfigDict(data)
    if kind == "split":
        changed.hub.split = argument
    else:
        changed.source = data.held_out
    return changed


def column_value(record: Record, column: str, path: str, where: str) -> Any:
    """Returns a record's value in a column, which may be nested.

    "translation.en" is the value at "en" of the value at "translation".

    Args:
        record: the record.
        column: its name.
        path: the config field that names the column, for errors.
        where: location of the record.

    Raises:
        ConfigError: there is no such column; names those that exist.
    """
    value: Any = record
    for name in (column,) if column in record else column.split("."):
        if not isinstance(value, Mapping) or name not in value:
            there = list(columns_of(record))
            raise ConfigError(
                f'{path}: {where}: no column "{column}"{did_you_mean(column, there)}; there are {", ".join(there)}'
            )
        value = value[name]
    return value


def columns_of(record: Record, outer: str = "") -> Iterator[str]:
    """Yields the columns of a record, including nested ones."""
    for name, value in record.items():
        yield f"{outer}{name}"
        if isinstance(value, Mapping):
            yield from columns_of(value, f"{outer}{name}.")


def column_text(record: Record, column: str, path: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns the text of a record, or None if the record is skipped.

    Raises:
        ConfigError: as `column_value`.
        DataError: no text, or an empty one, unless the policy skips it.
    """
    value = column_value(record, column, path, where)
    if isinstance(value, bytes):
        value = policy.decode(value, where)
    elif isinstance(value, str):
        value = policy.check(value, where)
    else:
        policy.skip_record(
            f'no text at "{column}"', where, f'what is at "{column}" is {type(value).__name__}, not text'
        )
        return None
    if value is not None and not value.strip():
        policy.skip_record(f'nothing at "{column}"', where, f'the text at "{column}" is empty')
        return None
    return value


def label_text(value: Any, names: Iterable[str], column: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns a label as its name, or None if the record is skipped.

    Numbers of named classes become their names.
    """
    names = tuple(names)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if names and not isinstance(value, str):
        number = int(value)
        if 0 <= number < len(names):
            return names[number]
        policy.skip_record("without a label", where, f'class {number} at "{column}" is none of {", ".join(names)}')
        return None
    if value is None or isinstance(value, list | dict) or not str(value).strip():
        policy.skip_record("without a label", where, f'no label at "{column}"')
        return None
    return str(value).strip().lower() if isinstance(value, bool) else str(value).strip()
