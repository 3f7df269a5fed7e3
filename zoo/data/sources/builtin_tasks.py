"""Tasks with labels, made from what every Python brings along: data for fine-tuning without a
download.

| task | a record | of Python 3.11.7: training / validation |
| --- | --- | --- |
| classification | text: a docstring, label: the module it is from (16 largest) | 3,200 / 368 |
| pairs | text, second: two paragraphs, label: whether they follow each other in a docstring (2) | 1,718 / 351 |
| similarity | text, second: two texts, label: the share of words they have in common, from 0 to 5 | 5,683 / 661 |
| tagging | tokens of a line of code, tags: their kinds (6) | 21,595 / 2,992 |
| extraction | context: head of a function, question, answer, start | 6,300 / 1,866 |
| translation | source: a date in words, target: the date as 1992-03-05 | 18,032 / 1,968 |

What comes from the standard library differs between versions of Python, and is the same in every
process. A module's code is in one of the two parts, and what training holds is taken out of
validation; dates are in one of the two parts, however they are written.
"""

import ast
import datetime
import hashlib
import io
import itertools
import json
import keyword
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.data.sources.standard_library import (
    library_docstrings,
    library_modules,
    library_root,
    paragraphs,
    parse_or_none,
)
from zoo.errors import ConfigError

Record = dict[str, Any]

TAGS = ("keyword", "name", "number", "string", "operator", "comment")
# Share of modules, texts or dates that is held out.
HELD_OUT = 0.1
_LINES_OF_A_MODULE, _LEAST_TOKENS, _MOST_TOKENS = 80, 4, 48
_LONGEST_CONTEXT = 800
_FIRST_DAY, _DAYS = datetime.date(1900, 1, 1), 73049  # to 2099-12-31


@dataclass(frozen=True)
class BuiltinTask:
    """Records in two parts that share none.

    Attributes:
        train, validation: the records.
        labels: what labels or tags there are, in the order of their numbers; empty where answers
            are text.
    """

    train: tuple[Record, ...]
    validation: tuple[Record, ...]
    labels: tuple[str, ...] = ()


def classification(classes: int = 16) -> BuiltinTask:
    """Which module a docstring is from: {"text", "label"}, of the `classes` modules with the most
    docstrings.

    A package counts as one module. Docstrings of fewer than five words, and such as several modules
    have, are left out; which part one is in depends on its text.
    """
    modules: dict[str, set[str]] = {}
    for module, text in library_docstrings(library_root()):
        modules.setdefault(" ".join(text.split()), set()).add(module.partition(".")[0])
    labelled = [(text, *names) for text, names in modules.items() if len(names) == 1 and text.count(" ") >= 4]
    counts = Counter(label for _, label in labelled)
    if not 2 <= classes <= len(counts):
        raise ConfigError(
            f"classes={classes}: there are {len(counts)} modules with docstrings; from 2 to that many can be told apart"
        )
    labels = tuple(sorted(sorted(counts, key=lambda label: (-counts[label], label))[:classes]))
    return _split_by_key(
        ((text, {"text": text, "label": label}) for text, label in labelled if label in labels), ("text",), labels
    )


def pairs(seed: int = 0) -> BuiltinTask:
    """Whether a paragraph follows another in a docstring: {"text", "second", "label"}, "follows" or
    "random", each of half of the pairs.

    A random second paragraph is one that follows somewhere else; which pairs have one is drawn.
    """
    found = dict.fromkeys(
        (module, *pair)
        for module, text in library_docstrings(library_root())
        for pair in itertools.pairwise(paragraphs(text))
    )
    known = list(found)
    draws = np.random.PCG64(seed).random_raw(2 * len(known))
    records = []
    for (module, first, second), half, other in zip(known, draws[::2].tolist(), draws[1::2].tolist(), strict=True):
        random = known[other % len(known)][2] if half % 2 else second
        records.append(
            (module, {"text": first, "second": random, "label": "follows" if random == second else "random"})
        )
    return _split_by_key(records, ("text",), ("follows", "random"))


def similarity(seed: int = 0) -> BuiltinTask:
    """How many words two texts share: {"text", "second", "label"}, 5 * |A and B| / |A or B| of
    their sets of words A and B.

    The second text is the first with words in the place of others, from none to all.
    """
    texts = dict.fromkeys(paragraph for _, text in library_docstrings(library_root()) for paragraph in paragraphs(text))
    words = [words for text in texts if 5 <= len(words := text.split()) <= 30]
    generator, records = np.random.PCG64(seed), []
    for first in words:
        draws = generator.random_raw(len(first) + 2)
        kept, other = draws[0] / 2**64, words[int(draws[1]) % len(words)]
        second = [
            word if draw / 2**64 < kept else other[place % len(other)]
            for place, (word, draw) in enumerate(zip(first, draws[2:]))
        ]
        share = len(set(first) & set(second)) / len({*first, *second})
        text = " ".join(first)
        records.append((text, {"text": text, "second": " ".join(second), "label": round(5 * share, 3)}))
    return _split_by_key(records, ("text",))


def tagging() -> BuiltinTask:
    """The kind of each token of a line of code: {"tokens", "tags"}, both lists of the same length;
    lines of 4 to 48 tokens.
    """
    return _split_by_key(
        ((module, record) for module, code in library_modules(library_root()) for record in _lines(code)),
        ("tokens",),
        TAGS,
    )


def extraction() -> BuiltinTask:
    """Where the answer to a question stands: {"context", "question", "answer", "start"}; `start`
    counts characters.

    A context is a function's head and docstring; asked for is the default of a parameter, or the
    docstring's first line.
    """
    return _split_by_key(
        ((module, record) for module, code in library_modules(library_root()) for record in _questions(code)),
        ("context",),
    )


def translation(count: int = 20000, seed: int = 0) -> BuiltinTask:
    """Dates from 1900 to 2099 in words and as ISO 8601 writes them: {"source", "target"}, e.g. "the
    third of May, two thousand and one" and "2001-05-03". Each is another date, in one of five
    spellings.
    """
    if not 0 < count <= _DAYS:
        raise ConfigError(f"count={count}: there are {_DAYS} dates, from 1900 to 2099")
    draws = np.random.PCG64(seed).random_raw(2 * _DAYS)
    days, spellings = np.argsort(draws[:_DAYS], kind="stable")[:count], draws[_DAYS:] % 5
    dates = [(_FIRST_DAY + datetime.timedelta(days=day), int(spellings[day])) for day in days.tolist()]
    return _split_by_key(
        ((str(date), {"source": spelled(date, spelling), "target": str(date)}) for date, spelling in dates), ("target",)
    )


BUILTIN_TASKS = {
    "classification": classification,
    "pairs": pairs,
    "similarity": similarity,
    "tagging": tagging,
    "extraction": extraction,
    "translation": translation,
}


def _split_by_key(
    records: Iterable[tuple[str, Record]], content: tuple[str, ...], labels: tuple[str, ...] = ()
) -> BuiltinTask:
    """Divides records by the hash of their keys; `content` names what no two parts may share, and
    records come once.
    """
    parts: tuple[dict[str, Record], dict[str, Record]] = {}, {}
    seen: tuple[set[str], set[str]] = set(), set()
    for key, record in records:
        held_out = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16) < HELD_OUT * 2**32
        parts[held_out].setdefault(json.dumps(record), record)
        seen[held_out].add(json.dumps([record[name] for name in content]))
    validation = [
        record for record in parts[1].values() if json.dumps([record[name] for name in content]) not in seen[0]
    ]
    return BuiltinTask(tuple(parts[0].values()), tuple(validation), labels)


def _lines(code: str) -> Iterator[Record]:
    """The first lines of a file, in the sense of Python's grammar, with the kinds of their tokens."""
    tokens, tags, found = [], [], 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.NEWLINE:
                if _LEAST_TOKENS <= len(tokens) <= _MOST_TOKENS and not any("\n" in text for text in tokens):
                    yield {"tokens": tokens, "tags": tags}
                    found += 1
                if found == _LINES_OF_A_MODULE:
                    return
                tokens, tags = [], []
            elif (tag := _tag(token)) and token.string:
                tokens.append(token.string)
                tags.append(tag)
    except (tokenize.TokenError, SyntaxError):
        return


def _tag(token: tokenize.TokenInfo) -> str | None:
    """One of `TAGS`, or None for what is no token to a reader."""
    name = tokenize.tok_name[token.type]
    if name == "NAME":
        return "keyword" if keyword.iskeyword(token.string) else "name"
    # Since Python 3.12 a formatted string comes in parts.
    kinds = {"NUMBER": "number", "OP": "operator", "COMMENT": "comment"}
    return "string" if name == "STRING" or "STRING_" in name else kinds.get(name)


def _questions(code: str) -> Iterator[Record]:
    """Questions about each function of a file that has a docstring and is short enough."""
    lines = code.splitlines(keepends=True)
    starts = np.cumsum([0, *map(len, lines)]).tolist()

    def place(line: int, column: int) -> int:
        # The syntax tree counts UTF-8 bytes.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    tree = parse_or_none(code)
    # A form feed or a lone carriage return ends a line here, and not for Python.
    if tree is None or any(character in code for character in "\f\v\r\x1c\x1d\x1e\x85\u2028\u2029"):
        return
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node)
    ]
    for function in sorted(functions, key=lambda node: node.lineno):
        begin, described = place(function.lineno, function.col_offset), function.body[0]
        opened, end = (
            place(described.lineno, described.col_offset),
            place(described.end_lineno, described.end_col_offset),
        )
        context = code[begin:end]
        if len(context) > _LONGEST_CONTEXT:
            continue
        for name, default in _defaults(function.args):
            start = place(default.lineno, default.col_offset) - begin
            answer = code[begin + start : place(default.end_lineno, default.end_col_offset)]
            yield {"context": context, "question": f"What is the default of {name}?", "answer": answer, "start": start}
        first = ast.get_docstring(function).split("\n")[0].strip()
        if (start := context.find(first, opened - begin)) >= 0:
            yield {"context": context, "question": f"What does {function.name} do?", "answer": first, "start": start}


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [
        *zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]
    return ((argument.arg, default) for argument, default in pairs if default is not None)


_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ONES = (
    "",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
    "twenty": "twentieth",
    "thirty": "thirtieth",
}


def spelled(date: datetime.date, spelling: int) -> str:
    """A date in one of five spellings, 0 .. 4."""
    month, year, weekday = _MONTHS[date.month - 1], _year(date.year), _WEEKDAYS[date.weekday()]
    suffix = "th" if 10 < date.day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(date.day % 10, "th")
    return (
        f"the {_ordinal(date.day)} of {month}, {year}",
        f"{weekday}, {month} {date.day}{suffix}, {date.year}",
        f"{date.day} {month[:3]} {date.year}",
        f"{month} the {_ordinal(date.day)} {year}",
        f"{weekday} the {date.day}{suffix} of {month} {year}",
    )[spelling]


def _cardinal(number: int) -> str:
    """A number from 1 to 99 in words."""
    tens, ones = divmod(number, 10)
    return _ONES[number] if number < 20 else "-".join(filter(None, (_TENS[tens], _ONES[ones])))


def _ordinal(number: int) -> str:
    head, dash, last = _cardinal(number).rpartition("-")
    return head + dash + _ORDINALS.get(last, f"{last}th")


def _year(year: int) -> str:
    century, rest = divmod(year, 100)
    if 2000 <= year < 2010:
        return "two thousand" + (f" and {_cardinal(rest)}" if rest else "")
    return f"{_cardinal(century)} " + (
        "hundred" if not rest else f"oh {_cardinal(rest)}" if rest < 10 else _cardinal(rest)
    )
