"""Examples before tokenisation, and where they come from: the two parts that a config names."""

import functools
import hashlib
import json
import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoo.data.labelled.task_files import LABELLED_TABLES
from zoo.data.sources import builtin_tasks
from zoo.data.sources.columns import MISSING
from zoo.data.sources.records import record_text
from zoo.data.sources.tables import Record, Table, column_text, column_value, held_out_config, label_text
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, did_you_mean, shortened, shown

# Types in which libraries of data sets return a list.
LISTS = (list, tuple, np.ndarray)


class LabelledText(NamedTuple):
    """A text, or a pair, with a label's name or a number."""

    text: str
    second: str | None
    label: str | float


class TaggedWords(NamedTuple):
    """Words, each with a tag."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class Question(NamedTuple):
    """A question about a context.

    `answers` are all accepted answers with the character where each begins; empty if there is none.
    """

    context: str
    question: str
    answers: tuple[tuple[str, int], ...]


Example = LabelledText | TaggedWords | Question


@dataclass(frozen=True)
class ExampleSplit:
    """The examples of a config's source.

    Attributes:
        train, held_out: the two parts.
        labels: names in their order, if the source has one; else empty.
        description: one-line description.
        left_out: how many records were skipped, and why.
    """

    train: tuple[Example, ...]
    held_out: tuple[Example, ...]
    labels: tuple[str, ...]
    description: str
    left_out: Counter[str]

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) of all examples, in their order and parts."""
        return hashlib.sha256(json.dumps([self.train, self.held_out]).encode()).hexdigest()


def read_examples(config: Any) -> ExampleSplit:
    """Reads both parts of the source of a task.

    Args:
        config: resolved.

    Raises:
        ConfigError: a source, file or column that does not exist.
        DataError: bad records, or an empty part.
    """
    data, objective = config.data, config.objective.kind
    kind, _, argument = data.source.partition(":")
    policy = BadTextPolicy(data.bad_text)
    if kind == "stdlib":
        examples = _builtin(argument, objective)
    else:
        train, labels = _read(data, objective, policy)
        if data.held_out:
            held_out, _ = _read(held_out_config(data), objective, policy)
        else:
            train, held_out = split_by_hash(train, data.validation_fraction)
        described = data.source + (f", held out {data.held_out}" if data.held_out else "")
        examples = ExampleSplit(tuple(train), tuple(held_out), labels, described, policy.counts)
    for part, there in (("training", examples.train), ("held-out", examples.held_out)):
        if not there:
            if policy.missing_column is not None:
                raise policy.missing_column
            raise DataError(
                f"{examples.description}: there are no {part} examples{policy.summary()}; take another source, "
                "data.held_out or data.validation_fraction"
            )
    return examples


def _read(data: Any, objective: str, policy: BadTextPolicy) -> tuple[list[Example], tuple[str, ...]]:
    """Returns the examples of a source, and the names of its labels in order, if it has one."""
    kind, _, argument = data.source.partition(":")
    table = LABELLED_TABLES[kind](argument, data, kind)
    return list(CONVERTERS[objective](table, data, policy)), table.names.get(data.label_column, ())


def split_by_hash(examples: Sequence[Example], fraction: float) -> tuple[list[Example], list[Example]]:
    """Splits examples into (training, held out) by the hash of what a model reads.

    So equal texts, and all questions about a context, are in one part.
    """
    parts: tuple[list[Example], list[Example]] = [], []
    for example in examples:
        read = example.context if isinstance(example, Question) else example[:-1]
        number = int(hashlib.sha256(json.dumps(read).encode()).hexdigest()[:12], 16)
        parts[number < fraction * 16**12].append(example)
    return parts


def subsample(examples: Sequence[Example], count: int) -> tuple[Example, ...]:
    """Returns the `count` examples with the smallest hashes, in their order.

    A larger subsample contains a smaller one, whatever the order of the file.
    """
    hashes = [hashlib.sha256(json.dumps(example).encode()).digest() for example in examples]
    chosen = sorted(range(len(examples)), key=lambda place: (hashes[place], place))[:count]
    return tuple(examples[place] for place in sorted(chosen))


def _labelled(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[LabelledText]:
    """Yields texts, or pairs, with labels."""
    names = table.names.get(data.label_column, ())
    for where, (texts, value) in _texts_and_values(table, data, policy):
        if (label := label_text(value, names, data.label_column, where, policy)) is not None:
            yield LabelledText(*texts, label)


def _numbers(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[LabelledText]:
    """Yields texts, or pairs, with numbers."""
    for where, (texts, value) in _texts_and_values(table, data, policy):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number):
            yield LabelledText(*texts, number)
        else:
            problem = f'what is at "{data.label_column}" is {shown(value)}, not a number'
            policy.skip_record("without a number", where, problem)


def _texts_and_values(
    table: Table, data: Any, policy: BadTextPolicy
) -> Iterator[tuple[str, tuple[tuple[str, str | None], Any]]]:
    """Yields (location, ((text, second text or None), what is in the column of labels))."""
    columns = {"data.column": data.column} | ({"data.second_column": data.second_column} if data.second_column else {})
    for where, record in table.records(policy):
        texts = _texts(record, columns, where, policy)
        if texts is None:
            continue
        value = column_value(record, data.label_column, "data.label_column", where, policy)
        if value is not MISSING:
            yield where, ((*texts, None)[:2], value)


def _texts(record: Record, columns: Mapping[str, str], where: str, policy: BadTextPolicy) -> tuple[str, ...] | None:
    """Returns the texts of the columns, or None if the record is skipped, which is counted once."""
    found = []
    for path, column in columns.items():
        if (text := column_text(record, column, path, where, policy)) is None:
            return None
        found.append(text)
    return tuple(found)


def _tagged(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[TaggedWords]:
    """Yields lists of words and of tags."""
    named = data.source.startswith("conll:")
    column, label_column = ("words", "tags") if named else (data.column, data.label_column)
    for where, record in table.records(policy):
        words = column_value(record, column, "data.column", where, policy)
        if words is MISSING:
            continue
        tags = column_value(record, label_column, "data.label_column", where, policy)
        if tags is MISSING:
            continue
        if not isinstance(words, LISTS) or not isinstance(tags, LISTS):
            policy.skip_record(
                "no lists",
                where,
                f'what is at "{column}" and "{label_column}" must be lists, of words and of their tags',
            )
        elif len(words) != len(tags) or not len(words):
            policy.skip_record("not as many tags as words", where, f"{len(words)} words and {len(tags)} tags")
        else:
            names = table.names.get(label_column, ())
            found = _each(lambda tag: label_text(tag, names, label_column, where, policy), tags)  # noqa: B023
            texts = found and _each(lambda word: _word(word, column, where, policy), words)  # noqa: B023
            if texts:
                yield TaggedWords(texts, found)


def _each(convert: Callable[[Any], str | None], values: Iterable[Any]) -> tuple[str, ...] | None:
    """Converts all values; None as soon as one of them cannot be, so that its record counts once."""
    found = []
    for value in values:
        if (converted := convert(value)) is None:
            return None
        found.append(converted)
    return tuple(found)


def _word(value: Any, column: str, where: str, policy: BadTextPolicy) -> str | None:
    """Returns a word, or None if its record is skipped. Numbers are words too."""
    return record_text(str(value) if isinstance(value, numbers.Real) else value, column, where, policy)


def _questions(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[Question]:
    """Yields contexts, questions and answers."""
    named = data.source.startswith("squad:")
    columns = ("context", "question", "answers") if named else (data.column, data.second_column, data.label_column)
    for where, record in table.records(policy):
        texts = _texts(record, {"data.column": columns[0], "data.second_column": columns[1]}, where, policy)
        if texts is None:
            continue
        answers = column_value(record, columns[2], "data.label_column", where, policy)
        if answers is not MISSING and (pairs := _answers(answers, texts[0], columns[2], where, policy)) is not None:
            yield Question(*texts, pairs)


def _answers(
    answers: Any, context: str, column: str, where: str, policy: BadTextPolicy
) -> tuple[tuple[str, int], ...] | None:
    """Returns (text, first character) of each answer once, or None if their record is skipped."""
    texts, starts = (answers.get(name) if isinstance(answers, dict) else None for name in ("text", "answer_start"))
    if not isinstance(texts, LISTS) or not isinstance(starts, LISTS):
        problem = f'"{column}" must be {{"text": [...], "answer_start": [...]}}, as in SQuAD'
        return policy.skip_record("no answers", where, problem)
    if len(texts) != len(starts):
        problem = f'"{column}" has {len(texts)} texts and {len(starts)} numbers where they start'
        return policy.skip_record("not as many starts as answers", where, problem)
    if (decoded := _each(lambda text: record_text(text, column, where, policy), texts)) is None:
        return None
    places: list[int] = []
    for text, start in zip(decoded, starts, strict=True):
        try:
            place = int(start)
        except (TypeError, ValueError, OverflowError):
            problem = f"the answer {shown(text)} starts at {shown(start)}, which is no number"
            return policy.skip_record("an answer without its start", where, problem)
        places.append(place)
        if place < 0 or not text or context[place : place + len(text)] != text:
            problem = f'the answer "{shortened(text)}" does not stand at character {place}'
            return policy.skip_record("answer not in its place", where, problem)
    return tuple(dict.fromkeys(zip(decoded, places, strict=True)))


CONVERTERS: dict[str, Callable[[Table, Any, BadTextPolicy], Iterator[Example]]] = {
    "classification": _labelled,
    "regression": _numbers,
    "tagging": _tagged,
    "extraction": _questions,
}

# Built-in tasks by objective, the default first.
BUILTIN = {
    "classification": ("classification", "pairs"),
    "regression": ("similarity",),
    "tagging": ("tagging",),
    "extraction": ("extraction",),
}


@functools.lru_cache(maxsize=4)
def _builtin(argument: str, objective: str) -> ExampleSplit:
    """Makes a task of `zoo.data.sources.builtin_tasks`."""
    name = argument or BUILTIN[objective][0]
    if name not in BUILTIN[objective]:
        hint = did_you_mean(name, BUILTIN[objective])
        raise ConfigError(
            f'data.source: "stdlib:{argument}" is no task for objective.kind={objective}{hint}; '
            f"one of {', '.join(f'stdlib:{one}' for one in BUILTIN[objective])}"
        )
    task = builtin_tasks.BUILTIN_TASKS[name]()
    train, held_out = (
        tuple(_from_builtin(record, objective) for record in part) for part in (task.train, task.validation)
    )
    return ExampleSplit(train, held_out, task.labels, f"stdlib:{name}", Counter())


def _from_builtin(record: Record, objective: str) -> Example:
    if objective == "tagging":
        return TaggedWords(tuple(record["tokens"]), tuple(record["tags"]))
    if objective == "extraction":
        return Question(record["context"], record["question"], ((record["answer"], record["start"]),))
    return LabelledText(record["text"], record.get("second"), record["label"])
