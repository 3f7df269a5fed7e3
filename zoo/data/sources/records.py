"""Documents from one column of records: JSON objects, Parquet files and other Arrow tables."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from zoo.data.sources.columns import MISSING, kind_of, missing_column, value_at
from zoo.data.sources.documents import Documents, Piece
from zoo.data.sources.file_content import HEAD_BYTES, PARQUET, file_blocks, signature_kind, with_compressed
from zoo.data.sources.json_arrays import array_values, begins_array
from zoo.data.sources.text_files import find_files, numbered_lines
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, one_line

# Records per Arrow batch: few enough for texts of a megabyte each.
BATCH = 256
JSON_ENDINGS = with_compressed(".jsonl", ".ndjson", ".json")
DELIMITED_ENDINGS = with_compressed(".csv", ".tsv")


def json_lines(argument: str, data: Any) -> Documents:
    """Returns the text at `data.column` of JSON objects, one per line or all of them in one array.

    Files are plain or compressed; of a folder, those with an ending of JSON.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, "jsonl", "corpus/*.jsonl.gz", JSON_ENDINGS)

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        for where, record in json_objects(files, policy):
            yield from as_pieces([text_at(record, data.column, where, policy)])

    return Documents(read, source_name(data, files), data.bad_text)


def json_objects(files: Iterable[Path], policy: BadTextPolicy) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (location, object) for the JSON objects of files, which are neither empty nor skipped.

    A file has one object per line, or holds one array of objects.

    Raises:
        DataError: a line that is not UTF-8, not JSON or not an object, unless the policy skips it;
            an array that is not JSON.
    """
    for path in files:
        is_array = begins_array(next(file_blocks(path), b""))
        for where, record in _array_values(path) if is_array else _line_values(path, policy):
            if isinstance(record, dict):
                yield where, record
            else:
                policy.skip_record("not an object", where, f"{kind_of(record)} instead of an object with named values")


def _array_values(path: Path) -> Iterator[tuple[str, Any]]:
    return ((f'"{path}": element {number}', value) for number, value in array_values(path))


def _line_values(path: Path, policy: BadTextPolicy) -> Iterator[tuple[str, Any]]:
    for number, line, offset in numbered_lines(path):
        where = f'"{path}": line {number}'
        content = policy.decode(line, where, offset)
        if content is None or not content.strip():
            continue
        try:
            yield where, json.loads(content)
        except (ValueError, RecursionError) as error:
            lines = "; a value over several lines must be an array of objects" if content.strip() == "{" else ""
            policy.skip_record("not JSON", where, f"not JSON: {error}{lines}")


def text_at(record: Mapping[str, Any], column: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns the text in a column of a record, or None if the record is skipped.

    Raises:
        DataError: no such column, or as `record_text`, unless the policy skips the record.
    """
    value, problem = value_at(record, column)
    if value is not MISSING:
        return record_text(value, column, where, policy)
    policy.skip_record(f'without "{column}"', where, f"data.column: {problem}")
    return None


def record_text(value: Any, column: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns a record's text, or None if it is skipped; bytes are decoded.

    Raises:
        DataError: not text, or bad text, unless the policy allows it.
    """
    if isinstance(value, bytes):
        return policy.decode(value, where)
    if not isinstance(value, str):
        policy.skip_record(f'no text at "{column}"', where, f'what is at "{column}" is {kind_of(value)}, not text')
        return None
    return policy.check(value, where)


def as_pieces(texts: Iterable[str | None]) -> Iterator[Piece]:
    """Makes a document of each text that is not skipped."""
    return (Piece(True, text) for text in texts if text is not None)


def parquet(argument: str, data: Any) -> Documents:
    """Returns the text in column `data.column` of Parquet files, which are read in batches of rows.

    Raises:
        ConfigError: no such files; no pyarrow.
    """
    files = find_files(argument, "parquet", "corpus/*.parquet", (".parquet", ".pq"))
    import_optional("pyarrow", "parquet")

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        for path in files:
            with parquet_file(path) as file:
                check_column(data.column, file.schema_arrow, f'"{path}"')
                tables = file.iter_batches(BATCH, columns=[data.column])
                yield from table_pieces(
                    tables, data.column, lambda number, path=path: f'"{path}": row {number}', policy
                )

    return Documents(read, source_name(data, files), data.bad_text)


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """Opens a Parquet file; errors while it is read become one line.

    Raises:
        ConfigError: it cannot be opened.
        DataError: not a Parquet file, or a damaged one.
    """
    import pyarrow
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except UnicodeDecodeError as error:
        raise DataError(f'"{path}": a text in it is not UTF-8: {one_line(error)}') from error
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.strerror and error.errno:
            raise ConfigError(f'cannot read "{path}": {error.strerror}') from error
        with open(path, "rb") as opened:
            other = signature_kind(opened.read(HEAD_BYTES))
        what = f"it is {other}" if other and other != PARQUET else one_line(error)
        raise DataError(f'"{path}": not a complete Parquet file: {what}') from error


def check_column(column: str, schema: Any, where: str) -> None:
    """Checks that an Arrow schema has a column of text, which may be nested.

    Raises:
        ConfigError: naming the columns that exist.
    """
    columns = list(_columns(schema))
    kinds = dict(columns)
    if (times := [name for name, _ in columns].count(column)) > 1:
        raise ConfigError(f'data.column: {where}: {times} columns have the name "{column}"; rename all but one')
    if column not in kinds:
        outer = column
        while outer := outer.rpartition(".")[0]:
            if outer in kinds:
                break
        problem = missing_column(column, kinds)
        if outer and not _is_struct(kinds[outer]):
            problem = f'no column "{column}": "{outer}" holds {kinds[outer]}, which has no fields'
        raise ConfigError(f"data.column: {where}: {problem}")
    if not _is_text(kinds[column]):
        texts = [name for name, kind in kinds.items() if _is_text(kind)]
        others = f"; columns of text: {', '.join(texts)}" if texts else "; no column does"
        raise ConfigError(f'data.column: {where}: "{column}" holds {kinds[column]}, not text{others}')


def _columns(fields: Iterable[Any], outer: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (name, type) of Arrow fields, including nested ones."""
    for field in fields:
        yield f"{outer}{field.name}", field.type
        if _is_struct(field.type):
            yield from _columns(field.type, f"{outer}{field.name}.")


def _is_struct(kind: Any) -> bool:
    from pyarrow import types

    return types.is_struct(kind)


def table_pieces(
    tables: Iterable[Any], column: str, where: Callable[[int], str], policy: BadTextPolicy
) -> Iterator[Piece]:
    """Yields the documents of a column of Arrow tables or batches.

    Args:
        tables: all with the column.
        column: its name.
        where: describes the record of a number, counted from 1.
        policy: for bad text.
    """
    import pyarrow
    import pyarrow.compute

    number = 0
    for table in tables:
        outer, *inner = [column] if column in table.schema.names else column.split(".")
        values = table.column(outer)
        if inner:
            values = pyarrow.compute.struct_field(values, inner)
        if pyarrow.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        # As bytes: Arrow does not check that text is UTF-8, and would fail without saying where.
        for value in values.cast(pyarrow.large_binary()).to_pylist():
            number += 1
            yield from as_pieces([record_text(value, column, where(number), policy)])


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_binary,
        types.is_large_binary,
        types.is_null,
    )
    return any(test(kind) for test in tests)


def source_name(data: Any, files: list[Path]) -> str:
    """Returns a human-readable name of a source of files."""
    return (
        str(data.source)
        + (f" in {len(files)} files" if len(files) > 1 else "")
        + (f", {data.column}" if data.column != "text" else "")
    )


def import_optional(module: str, kind: str, name: str = "") -> Any:
    """Imports an optional package.

    Args:
        module: name of the module.
        kind: kind of the source that needs it.
        name: name of the package, if it differs.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = name or module if error.name == module else error.name
        raise ConfigError(f'data.source: "{kind}" needs the package {missing}: pip install {missing}') from error
