"""Examples before tokenisation, and where they come from: the two parts that a config names."""

import functools
import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from zoo.data.labelled.task_files import LABELLED_TABLES
from zoo.data.sources import builtin_tasks
from zoo.data.sources.tables import Record, Table, column_text, column_value, held_out_config, label_text
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, did_you_mean


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
    if kind == "stdlib":
        examples = _builtin(argument, objective)
    else:
        policy = BadTextPolicy(data.bad_text)
        train, labels = _read(data, objective, policy)
        if data.held_out:
            held_out, _ = _read(held_out_config(data), objective, policy)
        else:
            train, held_out = split_by_hash(train, data.validation_fraction)
        described = data.source + (f", held out {data.held_out}" if data.held_out else "")
        examples = ExampleSplit(tuple(train), tuple(held_out), labels, described, policy.counts)
    for part, there in (("training", examples.train), ("held-out", examples.held_out)):
        if not there:
            raise DataError(
                f"{examples.description}: there are no {part} examples; take another source, data.held_out or "
                "data.validation_fraction"
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
    for where, record in table.records(policy):
        texts = _texts(record, data, where, policy)
        value = column_value(record, data.label_column, "data.label_column", where)
        label = label_text(value, table.names.get(data.label_column, ()), data.label_column, where, policy)
        if texts is not None and label is not None:
            yield LabelledText(*texts, label)


def _numbers(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[LabelledText]:
    """Yields texts, or pairs, with numbers."""
    for where, record in table.records(policy):
        texts = _texts(record, data, where, policy)
        value = column_value(record, data.label_column, "data.label_column", where)
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            policy.skip_record(
                "without a number", where, f'what is at "{data.label_column}" is {value!r}, not a number'
            )
        elif texts is not None:
            yield LabelledText(*texts, number)


def _texts(record: Record, data: Any, where: str, policy: BadTextPolicy) -> tuple[str, str | None] | None:
    first = column_text(record, data.column, "data.column", where, policy)
    second = (
        column_text(record, data.second_column, "data.second_column", where, policy) if data.second_column else None
    )
    return None if first is None or (data.second_column and second is None) else (first, second)


def _tagged(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[TaggedWords]:
    """Yields lists of words and of tags."""
    named = data.source.startswith("conll:")
    column, label_column = ("words", "tags") if named else (data.column, data.label_column)
    for where, record in table.records(policy):
        words, tags = (
            column_value(record, column, "data.column", where),
            column_value(record, label_column, "data.label_column", where),
        )
        if (
            isinstance(words, str)
            or isinstance(tags, str)
            or not hasattr(words, "__len__")
            or not hasattr(tags, "__len__")
        ):
            policy.skip_record(
                "no lists",
                where,
                f'what is at "{column}" and "{label_column}" must be lists, of words and of their tags',
            )
        elif len(words) != len(tags) or not len(words):
            policy.skip_record("not as many tags as words", where, f"{len(words)} words and {len(tags)} tags")
        else:
            names = table.names.get(label_column, ())
            found = [label_text(tag, names, label_column, where, policy) for tag in tags]
            texts = [word.decode() if isinstance(word, bytes) else str(word) for word in words]
            if None not in found:
                yield TaggedWords(tuple(texts), tuple(found))


def _questions(table: Table, data: Any, policy: BadTextPolicy) -> Iterator[Question]:
    """Yields contexts, questions and answers."""
    named = data.source.startswith("squad:")
    columns = ("context", "question", "answers") if named else (data.column, data.second_column, data.label_column)
    for where, record in table.records(policy):
        context = column_text(record, columns[0], "data.column", where, policy)
        question = column_text(record, columns[1], "data.second_column", where, policy)
        answers = column_value(record, columns[2], "data.label_column", where)
        if not isinstance(answers, dict) or not {"text", "answer_start"} <= answers.keys():
            policy.skip_record(
                "no answers", where, f'"{columns[2]}" must be {{"text": [...], "answer_start": [...]}}, as in SQuAD'
            )
            continue
        texts = [text.decode() if isinstance(text, bytes) else str(text) for text in answers["text"]]
        pairs = tuple(zip(texts, map(int, answers["answer_start"]), strict=True))
        wrong = [
            (text, start)
            for text, start in pairs
            if context and not (text and context[start : start + len(text)] == text)
        ]
        if wrong:
            policy.skip_record(
                "answer not in its place",
                where,
                f'the answer "{wrong[0][0]}" does not stand at character {wrong[0][1]}',
            )
        elif context is not None and question is not None:
            yield Question(context, question, tuple(dict.fromkeys(pairs)))


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
