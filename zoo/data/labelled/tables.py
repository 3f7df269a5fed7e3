"""Records with named columns: lines of tsv, csv and JSON, Parquet files, and the data sets of other libraries."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zoo.data.files import find_files
from zoo.data.hubs import open_hugging_face, open_tfds
from zoo.data.records import numbered_lines, package
from zoo.data.text import TextPolicy
from zoo.errors import ConfigError, DataError, did_you_mean

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """Records in a fixed order.

    Attributes:
        records: begins a pass over (where one stands, the record).
        names: of columns that hold numbers of named classes, the names.
    """

    records: Callable[[TextPolicy], Iterator[tuple[str, Record]]]
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def separated(argument: str, data: Any, kind: str) -> Table:
    """Lines of fields: `csv` with commas and quotes, `tsv` with tabs and nothing else; plain or .gz.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, f"train.{kind}", (f".{kind}", f".{kind}.gz"))

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            yield from _fields(path, kind, data.header, policy)

    return Table(records)


def _fields(path: Path, kind: str, header: bool, policy: TextPolicy) -> Iterator[tuple[str, Record]]:
    def lines() -> Iterator[str]:
        for number, content, offset in numbered_lines(path):
            text = policy.decode(content, f'"{path}": line {number}', offset)
            if text is not None:
                # In quotes a field goes on in the next line.
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
                    raise ConfigError(f'"{path}": two columns of one name in its first line; if that is no header, set data.header=false')
                if header:
                    continue
            where = f'"{path}": line {reader.line_num}'
            if len(row) != len(names):
                policy.leave_out("other number of fields", where, f"{len(row)} fields, and the first line has {len(names)}")
                continue
            yield where, dict(zip(names, row, strict=True))
    except csv.Error as error:
        raise DataError(f'"{path}": line {reader.line_num}: {error}') from error


def json_records(argument: str, data: Any, kind: str) -> Table:
    """One JSON object per line; files are plain or .gz.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, "train.jsonl", (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz"))

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            for number, line, offset in numbered_lines(path):
                where = f'"{path}": line {number}'
                content = policy.decode(line, where, offset)
                if content is None or not content.strip():
                    continue
                try:
                    record = json.loads(content)
                except (ValueError, RecursionError) as error:
                    policy.leave_out("not JSON", where, f"not JSON: {error}")
                    continue
                if isinstance(record, dict):
                    yield where, record
                else:
                    policy.leave_out("not an object", where, f"{type(record).__name__} instead of an object")

    return Table(records)


def parquet_records(argument: str, data: Any, kind: str) -> Table:
    """The rows of Parquet files.

    Raises:
        ConfigError: no such files; no pyarrow.
    """
    files = find_files(argument, kind, "train.parquet", (".parquet", ".pq"))
    package("pyarrow", "parquet")

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        import pyarrow
        import pyarrow.parquet

        for path in files:
            try:
                rows = pyarrow.parquet.read_table(path).to_pylist()
            except (pyarrow.ArrowException, OSError) as error:
                raise DataError(f'"{path}": not a complete Parquet file: {" ".join(str(error).split())[:200]}') from error
            for number, record in enumerate(rows, 1):
                yield f'"{path}": row {number}', record

    return Table(records)


def hub_records(argument: str, data: Any, kind: str) -> Table:
    """A data set of Hugging Face's `datasets`, whose classes have names.

    Raises:
        ConfigError: as `zoo.data.hubs.open_hugging_face`.
    """
    opened = open_hugging_face(argument, data)

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        return ((f'"{data.source}": record {number}', record) for number, record in enumerate(opened, 1))

    return Table(records, _class_names(opened.features or {}))


def tfds_records(argument: str, data: Any, kind: str) -> Table:
    """A data set of TFDS, whose classes have names.

    Raises:
        ConfigError: as `zoo.data.hubs.open_tfds`.
    """
    builder, opened = open_tfds(argument, data, ())

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        return ((f'"{data.source}": record {number + 1}', opened[number]) for number in range(len(opened)))

    return Table(records, _class_names(builder.info.features))


def conll(argument: str, data: Any, kind: str) -> Table:
    """Words in lines, with columns between tabs or spaces, and an empty line after each sentence: {"words", "tags"}.

    Lines that begin with -DOCSTART- are left out.

    Raises:
        ConfigError: no such files; a column that there is not.
    """
    files = find_files(argument, kind, "train.conll", ("",))

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            yield from _sentences(path, data.conll, policy)

    return Table(records)


def _sentences(path: Path, columns: Any, policy: TextPolicy) -> Iterator[tuple[str, Record]]:
    words, tags, begin, width, whole = [], [], 0, 0, True
    for number, content, offset in [*numbered_lines(path), (0, b"", 0)]:
        where = f'"{path}": line {number}'
        line = policy.decode(content, where, offset)
        # A byte order mark may stand where files were put together.
        fields = None if line is None else line.strip("\ufeff\r\n ")
        if fields is not None and (not fields.strip() or fields.startswith("-DOCSTART-")):
            if words and whole:
                yield f'"{path}": line {begin}', {"words": words, "tags": tags}
            words, tags, whole = [], [], True
            continue
        fields = fields and (fields.split("\t") if "\t" in fields else fields.split())
        width = width or len(fields or ())
        if fields and width and not all(-width <= column < width for column in (columns.words, columns.tags)):
            raise ConfigError(f"data.conll: {where}: there are {width} columns, 0 to {width - 1}, and words={columns.words}, "
                              f"tags={columns.tags} are asked for")
        if not fields or len(fields) != width:
            if fields:
                policy.leave_out("other number of columns", where, f"{len(fields)} columns, and the first line has {width}")
            whole = False
            continue
        begin = begin if words else number
        words.append(fields[columns.words])
        tags.append(fields[columns.tags].strip())


def squad(argument: str, data: Any, kind: str) -> Table:
    """Files as SQuAD has them (Rajpurkar et al. 2016; 2018): {"context", "question", "answers": {"text", "answer_start"}}.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, "train-v1.1.json", (".json",))

    def records(policy: TextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            try:
                articles = json.loads(path.read_bytes())["data"]
                for article in articles:
                    for paragraph in article["paragraphs"]:
                        for question in paragraph["qas"]:
                            answers = [] if question.get("is_impossible") else question["answers"]
                            yield f'"{path}": question {question.get("id", question["question"])}', {
                                "context": paragraph["context"], "question": question["question"],
                                "answers": {name: [answer[name] for answer in answers] for name in ("text", "answer_start")}}
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataError(f'"{path}": not as SQuAD has it: {type(error).__name__}: {" ".join(str(error).split())[:100]}') from error

    return Table(records)


def _class_names(features: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found = {}
    for column, feature in features.items():
        inner = getattr(feature, "feature", None)
        names = getattr(feature, "names", None) or getattr(inner, "names", None)
        if names:
            found[column] = tuple(names)
    return found


TABLES: dict[str, Callable[[str, Any, str], Table]] = {
    "csv": separated, "tsv": separated, "conll": conll, "squad": squad, "jsonl": json_records,
    "parquet": parquet_records, "hf": hub_records, "tfds": tfds_records}


def value_at(record: Record, column: str, path: str, where: str) -> Any:
    """What a record has in a column.

    Args:
        record: one.
        column: its name.
        path: the field of the config that names it, for errors.
        where: where the record stands.

    Raises:
        ConfigError: there is no such column, naming those that there are.
    """
    if column not in record:
        raise ConfigError(f'{path}: {where}: no column "{column}"{did_you_mean(column, map(str, record))}; there are '
                          f"{', '.join(map(str, record))}")
    return record[column]


def text_at(record: Record, column: str, path: str, where: str, policy: TextPolicy) -> str | None:
    """The text of a record, or None where the record is left out.

    Raises:
        ConfigError: as `value_at`.
        DataError: no text, or an empty one, unless the policy is another.
    """
    value = value_at(record, column, path, where)
    if isinstance(value, bytes):
        value = policy.decode(value, where)
    elif isinstance(value, str):
        value = policy.check(value, where)
    else:
        policy.leave_out(f'no text at "{column}"', where, f'what is at "{column}" is {type(value).__name__}, not text')
        return None
    if value is not None and not value.strip():
        policy.leave_out(f'nothing at "{column}"', where, f'the text at "{column}" is empty')
        return None
    return value


def label_text(value: Any, names: Iterable[str], column: str, where: str, policy: TextPolicy) -> str | None:
    """A label as its name, or None where the record is left out; numbers of named classes become their names."""
    names = tuple(names)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if names and not isinstance(value, str):
        number = int(value)
        if 0 <= number < len(names):
            return names[number]
        policy.leave_out("without a label", where, f'class {number} at "{column}" is none of {", ".join(names)}')
        return None
    if value is None or isinstance(value, list | dict) or not str(value).strip():
        policy.leave_out("without a label", where, f'no label at "{column}"')
        return None
    return str(value).strip().lower() if isinstance(value, bool) else str(value).strip()
