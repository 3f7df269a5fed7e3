"""Data sets of Hugging Face `datasets` and of TensorFlow Datasets (without TensorFlow)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from zoo.data.sources.columns import columns_of, missing_column
from zoo.data.sources.documents import Documents, Piece
from zoo.data.sources.records import BATCH, as_pieces, check_column, import_optional, table_pieces, text_at
from zoo.data.sources.text_files import path_suggestion
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, did_you_mean, one_line, user_path

_COMMIT = re.compile("[0-9a-f]{40}")
_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def hugging_face(argument: str, data: Any) -> Documents:
    """Returns the text in column `data.column` of a data set of Hugging Face.

    Raises:
        ConfigError: as `open_hugging_face`.
    """
    records = open_hugging_face(argument, data)
    hub = data.hub

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        if records.features is not None:
            check_column(data.column, records.features.arrow_schema, f'"{data.source}"')
            names = records.features.arrow_schema.names
            tables = records.select_columns([data.column if data.column in names else data.column.split(".")[0]])
        else:
            tables = records
        batches = _checked(tables.with_format("arrow").iter(BATCH), data)
        yield from table_pieces(batches, data.column, lambda number: f'"{data.source}": record {number}', policy)

    details = [
        hub.subset,
        f"split {hub.split}",
        f"commit {hub.revision[:12]}" if hub.revision else "",
        _other_column(data),
    ]
    return Documents(read, f"{data.source} ({', '.join(filter(None, details))})", data.bad_text)


def open_hugging_face(argument: str, data: Any) -> Any:
    """Opens a data set of the hub, a folder of data files, or a data set that was saved to disk.

    Code that comes with a data set is never run.

    Raises:
        ConfigError: no such data set, split or subset; a name on the hub without its commit.
    """
    if not argument:
        raise ConfigError('data.source: "hf" needs a name or a folder, e.g. "hf:HuggingFaceFW/fineweb-edu"')
    hub, folder = data.hub, user_path(argument)
    saved = (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()
    problems = list(_problems(argument, folder, saved, hub))
    if problems:
        raise ConfigError(problems)
    library = import_optional("datasets", "hf")
    try:
        if saved:
            return _of_split(library.load_from_disk(str(folder)), hub.split, argument)
        return library.load_dataset(
            # Of a relative path, "json" would name a reader of the library.
            str(folder.absolute()) if folder.is_dir() else argument,
            hub.subset or None,
            split=hub.split,
            revision=hub.revision or None,
            streaming=hub.streaming,
        )
    except ConfigError:
        raise
    except library.exceptions.DatasetGenerationError as error:
        raise DataError(f'"{data.source}": {one_line(error.__cause__ or error)}') from error
    except Exception as error:  # whatever a library of many formats and transports raises
        raise ConfigError(f'data.source: "{data.source}" cannot be opened: {one_line(error)}') from error


def _problems(argument: str, folder: Path, saved: bool, hub: Any) -> Iterator[str]:
    if folder.is_dir():
        if hub.revision:
            yield f'data.hub.revision: "{argument}" is a folder, which has no commits; leave it empty'
        if saved and hub.subset:
            yield f'data.hub.subset: "{argument}" was saved as one data set, which has no subsets; leave it empty'
        if saved and hub.streaming:
            yield f'data.hub.streaming: "{argument}" is on this disk already; leave it false'
    elif not _HUB_NAME.fullmatch(argument) or argument.startswith("."):
        yield f'data.source: no such folder: "{folder}"{path_suggestion(folder)}'
    elif not hub.revision:
        yield (
            f'data.hub.revision: "{argument}" on the hub may change; to make the run reproducible, name a commit, '
            "40 hex digits (on its page: Files, History)"
        )
    elif not _COMMIT.fullmatch(hub.revision):
        page = f'on the page of "{argument}": Files, History'
        yield f'data.hub.revision: "{hub.revision}" may move; name a commit, 40 hex digits ({page})'


def _of_split(records: Any, split: str, argument: str) -> Any:
    """Returns one split of what `load_from_disk` returned."""
    splits = records if isinstance(records, dict) else {str(records.split or "train"): records}
    if split not in splits:
        raise ConfigError(
            f'data.hub.split: "{argument}" has no split "{split}"{did_you_mean(split, splits)}; one of '
            f"{', '.join(splits)}"
        )
    return splits[split]


def _checked(tables: Iterator[Any], data: Any) -> Iterator[Any]:
    """Checks the column of each table; an error of the library becomes one line."""
    try:
        for table in tables:
            check_column(data.column, table.schema, f'"{data.source}"')
            yield table
    except (ConfigError, DataError):
        raise
    except Exception as error:
        raise DataError(f'"{data.source}": {one_line(error)}') from error


def tensorflow_datasets(argument: str, data: Any) -> Documents:
    """Returns the text in column `data.column` of a data set of TFDS.

    Raises:
        ConfigError: as `open_tfds`.
    """
    builder, records = open_tfds(argument, data, (data.column,))

    def read(policy: BadTextPolicy) -> Iterator[Piece]:
        for where, record in tfds_rows(records, data.source):
            yield from as_pieces([text_at(record, data.column, where, policy)])

    details = [builder.info.full_name, f"split {data.hub.split}", _other_column(data)]
    return Documents(read, f"{data.source} ({', '.join(filter(None, details))})", data.bad_text)


def tfds_rows(records: Any, source: str) -> Iterator[tuple[str, Any]]:
    """Yields (location, record) for the records of `open_tfds`, which are read in batches."""
    for start in range(0, len(records), BATCH):
        numbers = range(start, min(start + BATCH, len(records)))
        for number, record in zip(numbers, records.__getitems__(list(numbers)), strict=True):
            yield f'"{source}": record {number + 1}', record


def open_tfds(argument: str, data: Any, needed: Sequence[str]) -> tuple[Any, Any]:
    """Opens a data set of TFDS by name (prepared on first use) or by the folder of a prepared one.

    Files are ArrayRecord or Parquet. TensorFlow is not imported, unless the builder of an
    unprepared data set does so.

    Args:
        argument: what follows the ":" of the source.
        data: the `data` part of a config.
        needed: required columns.

    Returns:
        (builder, records).

    Raises:
        ConfigError: no such data set, split or column; prepared as TFRecord, which needs
            TensorFlow.
    """
    if not argument:
        raise ConfigError('data.source: "tfds" needs a name or a prepared folder, e.g. "tfds:lm1b:1.1.0"')
    folder, hub = user_path(argument), data.hub
    if folder.is_dir() and hub.folder:
        raise ConfigError(f'data.hub.folder: "{argument}" is a folder itself; leave it empty')
    library = import_optional("tensorflow_datasets", "tfds", "tensorflow-datasets")
    try:
        builder = (
            library.builder_from_directory(str(folder)) if folder.is_dir() else _prepared(library, argument, hub.folder)
        )
        if not builder.info.splits:
            raise ConfigError(f'data.source: "{argument}" has no splits; it is not prepared')
        if hub.split.partition("[")[0] not in (splits := list(builder.info.splits)):
            raise ConfigError(
                f'data.hub.split: "{argument}" has no split "{hub.split}"{did_you_mean(hub.split, splits)}; '
                f"one of {', '.join(splits)}"
            )
        columns = list(columns_of(builder.info.features))
        for column in needed:
            if column not in columns:
                raise ConfigError(f'data.column: "{data.source}": {missing_column(column, columns)}')
        return builder, builder.as_data_source(split=hub.split)
    except ConfigError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(
            f'data.source: preparing "{argument}" needs the package {error.name}: pip install {error.name}'
        ) from error
    except Exception as error:  # whatever a library of many builders raises
        # The library appends a list of all known names, which fills pages.
        problem = one_line(error).partition(" Available datasets")[0]
        raise ConfigError(f'data.source: "{data.source}" cannot be opened: {problem}') from error


def _prepared(library: Any, name: str, folder: str) -> Any:
    builder = library.builder(name, data_dir=folder or None)
    if not builder.is_prepared():
        # The library's default is TFRecord, which needs TensorFlow.
        builder = library.builder(name, data_dir=folder or None, file_format="array_record")
        builder.download_and_prepare()
    return builder


def _other_column(data: Any) -> str:
    return data.column if data.column != "text" else ""
