"""Pairs of texts, source and target, and where they come from.

They are two columns of the tables of `zoo.data.sources.tables`, or two files of lines.
`data.bad_text` applies to each side; a pair with a skipped or blank side is left out as a whole and
counted.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

from zoo.data.sources.builtin_tasks import BuiltinTask, classification, labels_as_text, translation
from zoo.data.sources.columns import MISSING
from zoo.data.sources.records import record_text
from zoo.data.sources.tables import TABLES, Record, Table, column_value, held_out_config
from zoo.data.sources.text_files import numbered_lines, path_suggestion
from zoo.data.sources.text_policy import BadTextPolicy
from zoo.errors import ConfigError, DataError, did_you_mean, user_path

_BOTH_SIDES = re.compile(r"([^{}]*)\{([^{},]+),([^{},]+)\}([^{}]*)")


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Pairs in memory, in a fixed order.

    Attributes:
        sources, targets: texts, none of them blank, without white space at their ends.
        name: human-readable description.
        left_out: how many pairs were skipped or repaired, and why.
    """

    sources: list[str]
    targets: list[str]
    name: str
    left_out: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.sources)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the content: the same pairs in the same order, whatever their files."""
        digest = hashlib.sha256()
        for text in (*self.sources, *self.targets):
            digest.update(hashlib.sha256(text.encode()).digest())
        return digest.hexdigest()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(source, target) of each pair."""
        return list(zip(self.sources, self.targets, strict=True))

    @property
    def bytes(self) -> int:
        """Size of both sides in UTF-8."""
        return sum(len(text.encode()) for text in (*self.sources, *self.targets))

    def split(self, fraction: float) -> tuple[Self, Self]:
        """Returns the training pairs and about this share of held-out pairs.

        The hash of the source text decides, so no source text is in both.

        Raises:
            DataError: one of the parts is empty.
        """
        parts: tuple[tuple[list, list], ...] = ([], []), ([], [])
        for source, target in zip(self.sources, self.targets, strict=True):
            held_out = int(hashlib.sha256(source.encode()).hexdigest()[:8], 16) < fraction * 2**32
            parts[held_out][0].append(source)
            parts[held_out][1].append(target)
        if not all(sources for sources, _ in parts):
            raise DataError(
                f'"{self.name}": {len(self)} pairs are too few to hold out {fraction:g} of them; take more, or name '
                "others in data.held_out"
            )
        train, validation = (
            type(self)(*part, f"{name} part of {self.name}", self.left_out)
            for part, name in zip(parts, ("training", "held-out"), strict=True)
        )
        return train, validation


def read_split_pairs(data: Any) -> tuple[TextPairs, TextPairs]:
    """Returns the training pairs and the held-out pairs of a config.

    Held-out pairs are those of `data.held_out`; if that is empty, those that the source holds out,
    or a share of it.

    Args:
        data: the `data` part of a config.

    Raises:
        ConfigError: unknown source, no such file, column or split.
        DataError: no pairs, or bad ones.
    """
    kind, _, argument = str(data.source).partition(":")
    if kind == "stdlib":
        task = _builtin(argument, data)
        train, validation = (
            _pairs(_numbered(part, data), data, BadTextPolicy(data.bad_text)) for part in (task.train, task.validation)
        )
        return train, validation
    found = read_pairs(data)
    if not data.held_out:
        return found.split(data.validation_fraction)
    try:
        return found, read_pairs(held_out_config(data))
    except ConfigError as error:
        raise ConfigError([problem.replace("data.source", "data.held_out", 1) for problem in error.problems]) from error


def read_pairs(data: Any) -> TextPairs:
    """Reads all pairs of `data.source`. Raises as `read_split_pairs`."""
    kind, _, argument = str(data.source).partition(":")
    if kind not in PAIR_TABLES:
        raise ConfigError(
            f'data.source: "{data.source}" has no pairs of texts for objective.kind=translation'
            f"{did_you_mean(kind, PAIR_TABLES)}; one of {', '.join(PAIR_TABLES)}"
        )
    policy = BadTextPolicy(data.bad_text)
    return _pairs(PAIR_TABLES[kind](argument, data, kind).records(policy), data, policy)


def _pairs(records: Iterable[tuple[str, Record]], data: Any, policy: BadTextPolicy) -> TextPairs:
    """Returns the two columns of records, without what is skipped."""
    columns = {f"data.{side}": data[side] for side in ("source_column", "target_column")}
    sources, targets = [], []
    for where, record in records:
        if (texts := _sides(record, columns, where, policy)) is None:
            continue
        source, target = texts
        if not source or not target:
            policy.counts["with a blank side"] += 1
            continue
        sources.append(source)
        targets.append(target)
    if not sources and policy.missing_column is not None:
        raise policy.missing_column
    if not sources:
        raise DataError(f'"{data.source}": there are no pairs{policy.summary()}')
    return TextPairs(sources, targets, str(data.source), policy.counts)


def _sides(record: Record, columns: Mapping[str, str], where: str, policy: BadTextPolicy) -> list[str] | None:
    """Returns the text of each column, or None if the record is skipped, which is counted once."""
    texts = []
    for path, column in columns.items():
        value = column_value(record, column, path, where, policy)
        if value is MISSING or (text := record_text(value, column, where, policy)) is None:
            return None
        texts.append(text.strip())
    return texts


def _builtin(argument: str, data: Any) -> BuiltinTask:
    """Returns the built-in pairs that `data.source` names: dates, or labels as texts."""
    if argument in ("", "translation"):
        return translation()
    if argument == "classification":
        return labels_as_text(classification())
    raise ConfigError(
        f'data.source: of "stdlib" only "stdlib:translation" and "stdlib:classification" have pairs of texts, got '
        f'"{data.source}"'
    )


def _numbered(records: Iterable[Record], data: Any) -> Iterator[tuple[str, Record]]:
    return ((f'"{data.source}": record {number}', record) for number, record in enumerate(records, 1))


def _builtin_pairs(argument: str, data: Any, kind: str) -> Table:
    """Returns built-in pairs, such as dates in words and in ISO 8601: {"source", "target"}."""
    task = _builtin(argument, data)
    return Table(lambda policy: _numbered((*task.train, *task.validation), data))


def _parallel(argument: str, data: Any, kind: str) -> Table:
    """Reads two text files whose lines correspond: "train.{en,de}.gz", source first.

    Raises:
        ConfigError: no such files.
    """
    match = _BOTH_SIDES.fullmatch(argument)
    if match is None:
        raise ConfigError(
            f'data.source: "{data.source}" does not name two files; both sides stand in braces, the source first, '
            'e.g. "parallel:corpus/train.{en,de}.gz"'
        )
    before, *names, after = match.groups()
    paths = [user_path(f"{before}{name}{after}") for name in names]
    if problems := [
        f'data.source: no such file: "{path}"{path_suggestion(path)}' for path in paths if not path.is_file()
    ]:
        raise ConfigError(problems)
    if paths[0] == paths[1]:
        raise ConfigError(f'data.source: both sides of "{data.source}" are {paths[0]}: nothing is left to translate')

    def records(policy: BadTextPolicy) -> Iterator[tuple[str, Record]]:
        sides = [[line for _, line, _ in numbered_lines(path)] for path in paths]
        for path, lines in zip(paths, sides, strict=True):
            if len(lines) == 1 and b"\r" in lines[0].removesuffix(b"\r"):
                raise DataError(
                    f'"{path}" has carriage returns and no line feeds: a line of a parallel text ends at a line feed'
                )
        if len(sides[0]) != len(sides[1]):
            raise DataError(
                f'"{paths[0]}" has {len(sides[0]):,} lines and "{paths[1]}" {len(sides[1]):,}; line n of one must '
                "belong to line n of the other"
            )
        for number, (source, target) in enumerate(zip(*sides, strict=True), 1):
            yield f'"{data.source}": line {number}', {"source": source, "target": target}

    return Table(records)


PAIR_TABLES = {"stdlib": _builtin_pairs, "parallel": _parallel} | TABLES
