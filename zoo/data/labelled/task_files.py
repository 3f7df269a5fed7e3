"""File formats of single tasks: CoNLL (words with tags) and SQuAD (questions about contexts)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from zoo.data.sources.records import numbered_lines
from zoo.data.sources.tables import TABLES, Record, Table
from zoo.data.sources.text_files import find_files
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError


def conll(argument: str, data: Any, kind: str) -> Table:
    """Reads words in lines, one sentence after another: {"words", "tags"}.

    Columns are separated by tabs or spaces, sentences by an empty line. Lines that begin with
    -DOCSTART- are skipped.

    Raises:
        ConfigError: no such files; a column that does not exist.
    """
    files = find_files(argument, kind, "train.conll", ("",))

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            yield from _sentences(path, data.conll, policy)

    return Table(records)


def _sentences(path: Path, columns: Any, policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
    words, tags, begin, width, whole = [], [], 0, 0, True
    for number, content, offset in [*numbered_lines(path), (0, b"", 0)]:
        where = f'"{path}": line {number}'
        line = policy.decode(content, where, offset)
        # Concatenated files may contain byte order marks.
        fields = None if line is None else line.strip("\ufeff\r\n ")
        if fields is not None and (not fields.strip() or fields.startswith("-DOCSTART-")):
            if words and whole:
                yield f'"{path}": line {begin}', {"words": words, "tags": tags}
            words, tags, whole = [], [], True
            continue
        fields = fields and (fields.split("\t") if "\t" in fields else fields.split())
        width = width or len(fields or ())
        if fields and width and not all(-width <= column < width for column in (columns.words, columns.tags)):
            raise ConfigError(
                f"data.conll: {where}: there are {width} columns, 0 to {width - 1}, and words={columns.words}, "
                f"tags={columns.tags} are asked for"
            )
        if not fields or len(fields) != width:
            if fields:
                policy.skip_record(
                    "other number of columns", where, f"{len(fields)} columns, and the first line has {width}"
                )
            whole = False
            continue
        begin = begin if words else number
        words.append(fields[columns.words])
        tags.append(fields[columns.tags].strip())


def squad(argument: str, data: Any, kind: str) -> Table:
    """Reads SQuAD files: {"context", "question", "answers": {"text", "answer_start"}}.

    The format is that of Rajpurkar et al. 2016; 2018.

    Raises:
        ConfigError: no such files.
    """
    files = find_files(argument, kind, "train-v1.1.json", (".json",))

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            try:
                articles = json.loads(path.read_bytes())["data"]
                for article in articles:
                    for paragraph in article["paragraphs"]:
                        for question in paragraph["qas"]:
                            answers = [] if question.get("is_impossible") else question["answers"]
                            yield (
                                f'"{path}": question {question.get("id", question["question"])}',
                                {
                                    "context": paragraph["context"],
                                    "question": question["question"],
                                    "answers": {
                                        name: [answer[name] for answer in answers] for name in ("text", "answer_start")
                                    },
                                },
                            )
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise DataError(
                    f'"{path}": not in the format of SQuAD: {type(error).__name__}: '
                    f"{' '.join(str(error).split())[:100]}"
                ) from error

    return Table(records)


LABELLED_TABLES: dict[str, Callable[[str, Any, str], Table]] = TABLES | {"conll": conll, "squad": squad}
