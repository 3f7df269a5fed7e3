"""Records with named columns: csv, tsv, lines of JSON, Parquet and data sets of other libraries."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_collections
import numpy as np

from zoo.data.sources.columns import MISSING, value_at
from zoo.data.sources.delimited_records import delimited_records
from zoo.data.sources.file_content import with_compressed
from zoo.data.sources.hubs import open_hugging_face, open_tfds, tfds_rows
from zoo.data.sources.records import BATCH, JSON_ENDINGS, import_optional, json_objects, parquet_file, record_text
from zoo.data.sources.text_files import find_files
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, ZooError, listed, one_line

Record = Mapping[str, Any]
COLUMN_FIELDS = ("column", "second_column", "label_column", "source_column", "target_column")


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
    """Reads lines of fields: csv with commas and quotes, tsv with tabs only; plain or compressed.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, f"train.{kind}", with_compressed(f".{kind}"))
    wanted = [name for field in COLUMN_FIELDS if (name := getattr(data, field, ""))]

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            yield from delimited_records(path, kind, data.header, policy, wanted)

    return Table(records)


def json_records(argument: str, data: Any, kind: str) -> Table:
    """Reads one JSON object per line, or one array of objects per file; plain or compressed.

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
                number = 1
                for batch in file.iter_batches(BATCH):
                    yield from _arrow_rows(batch, f'"{path}"', number, policy)
                    number += batch.num_rows

    return Table(records)


def _arrow_rows(batch: Any, path: str, first: int, policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
    """Yields the rows of an Arrow batch; `first` is the number of its first row."""
    try:
        yield from ((f"{path}: row {number}", record) for number, record in enumerate(batch.to_pylist(), first))
        return
    except UnicodeDecodeError:
        if policy.policy != "skip":
            raise
    for index in range(batch.num_rows):
        where = f"{path}: row {first + index}"
        try:
            (record,) = batch.slice(index, 1).to_pylist()
        except UnicodeDecodeError as error:
            policy.skip_record("not UTF-8", where, f"not UTF-8: {error}")
        else:
            yield where, record


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
            raise DataError(f'"{data.source}": {one_line(error)}') from error

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


def column_value(record: Record, column: str, path: str, where: str, policy: BadTextPolicy) -> Any:
    """Returns a record's value in a column, which may be nested; `MISSING` if the record is skipped.

    Args:
        record: the record.
        column: its name.
        path: the config field that names the column, for errors.
        where: location of the record.
        policy: may skip a record without the column.

    Raises:
        ConfigError: there is no such column, unless the policy skips it; names those that exist.
    """
    value, problem = value_at(record, column)
    if value is MISSING:
        policy.skip_without_column(column, ConfigError(f"{path}: {where}: {problem}"))
    return value


def column_text(record: Record, column: str, path: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns the text of a record, or None if the record is skipped.

    Raises:
        ConfigError: as `column_value`.
        DataError: no text, or an empty one, unless the policy skips it.
    """
    value = column_value(record, column, path, where, policy)
    if value is MISSING:
        return None
    value = record_text(value, column, where, policy)
    if value is not None and not value.strip():
        policy.skip_record(f'nothing at "{column}"', where, f'the text at "{column}" is empty')
        return None
    return value


def label_text(value: Any, names: Iterable[str], column: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns a label as its name, or None if the record is skipped.

    Numbers of named classes become their names.
    """
    names = tuple(names)
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    # NaN stands for what is missing.
    number = isinstance(value, int | float) and value == value
    if names and number and 0 <= value < len(names) and int(value) == value:
        return names[int(value)]
    if names and number:
        policy.skip_record("without a label", where, f'class {value} at "{column}" is none of {listed(names)}')
        return None
    if not (isinstance(value, str) or number) or not str(value).strip():
        policy.skip_record("without a label", where, f'no label at "{column}"')
        return None
    if isinstance(value, float) and value.is_integer():
        # pandas stores a column of whole numbers as floats where a value is missing.
        value = int(value)
    return str(value).strip().lower() if isinstance(value, bool) else str(value).strip()
