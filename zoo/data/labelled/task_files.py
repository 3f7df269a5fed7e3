"""File formats of single tasks: CoNLL (words with tags) and SQuAD (questions about contexts)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from zoo.data.sources.file_content import file_blocks, with_compressed
from zoo.data.sources.tables import TABLES, Record, Table
from zoo.data.sources.text_files import BYTE_ORDER_MARK, find_files, numbered_lines
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
                f"data.conll: {where}: the file has {width} columns (0 to {width - 1}), but words={columns.words}, "
                f"tags={columns.tags} were requested"
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
    files = find_files(argument, kind, "train-v1.1.json", with_compressed(".json"))

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        for path in files:
            try:
                content = json.loads(b"".join(file_blocks(path)).removeprefix(BYTE_ORDER_MARK))
            except (ValueError, RecursionError) as error:
                problem = " ".join(str(error).split())[:100]
                raise DataError(f'"{path}": not in the format of SQuAD: not JSON: {problem}') from error
            if not isinstance(content, dict) or not isinstance(content.get("data"), list):
                raise DataError(f'"{path}": not in the format of SQuAD: no list at "data"')
            for place, article in enumerate(content["data"], 1):
                where = f'"{path}": article {place}'
                for paragraph in _list_at(article, "paragraphs", where, policy):
                    for question in _list_at(paragraph, "qas", where, policy):
                        yield from _question(question, paragraph, where, policy)

    return Table(records)


def _list_at(value: Any, name: str, where: str, policy: BadTextPolicy) -> list[Any]:
    """Returns the list that an object of JSON has under a name; empty if it is skipped."""
    if isinstance(value, dict) and isinstance(value.get(name), list):
        return value[name]
    policy.skip_record(f'no list at "{name}"', where, f'not in the format of SQuAD: no list at "{name}"')
    return []


def _question(question: Any, paragraph: Any, where: str, policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
    """Yields the record of a question, unless it is skipped."""
    if isinstance(question, dict):
        where = f"{where.rpartition(':')[0]}: question {question.get('id', question.get('question'))}"
    impossible = isinstance(question, dict) and question.get("is_impossible")
    answers = [] if impossible else question.get("answers") if isinstance(question, dict) else None
    if not isinstance(answers, list) or not all(isinstance(answer, dict) for answer in answers):
        policy.skip_record("no answers", where, 'not in the format of SQuAD: no list of objects at "answers"')
        return
    found = {name: [answer.get(name) for answer in answers] for name in ("text", "answer_start")}
    texts = {"context": paragraph.get("context"), "question": question.get("question")}
    yield where, {**texts, "answers": found}


LABELLED_TABLES: dict[str, Callable[[str, Any, str], Table]] = TABLES | {"conll": conll, "squad": squad}
