"""Tasks with labels made from the standard library: data for fine-tuning without a download.

With Python 3.11.7 there are (training / validation):

    classification   {text: a docstring, label: its module (the 16 largest)}       3,200 / 368
    pairs            {text, second: paragraphs, label: follows or random}          1,718 / 351
    similarity       {text, second, label: share of common words, 0 to 5}          5,683 / 661
    tagging          {tokens of a line of code, tags: their kinds (6)}             21,595 / 2,992
    extraction       {context: head of a function, question, answer, start}        6,300 / 1,866
    translation      {source: a date in words, target: the date as 1992-03-05}     18,032 / 1,968

Records from the standard library depend on the version of Python, but are the same in every
process. A module's code is in one of the two parts, and texts of the training part are removed from
validation. A date is in one of the two parts, however it is written.
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

from zoo.data.sources.spelled_dates import spell_date
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
_WORDS_OF_A_SOURCE = 24
_FIRST_DAY, _DAYS = datetime.date(1900, 1, 1), 73049  # to 2099-12-31


@dataclass(frozen=True)
class BuiltinTask:
    """Records in two parts that share none.

    Attributes:
        train, validation: the records.
        labels: all labels or tags, in the order of their ids; empty if answers are text.
    """

    train: tuple[Record, ...]
    validation: tuple[Record, ...]
    labels: tuple[str, ...] = ()


def classification(classes: int = 16) -> BuiltinTask:
    """Makes records of a docstring and its module: {"text", "label"}.

    Labels are the `classes` modules with the most docstrings; a package counts as one module.
    Docstrings of fewer than five words, and those that several modules share, are left out. The
    text decides which part a record is in.
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
    """Makes pairs of paragraphs: {"text", "second", "label"}, "follows" or "random".

    Each label has half of the pairs. A random second paragraph is one that follows another
    paragraph elsewhere; which pairs have one is drawn.
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
    """Makes pairs of texts and the share of their words in common: {"text", "second", "label"}.

    The label is 5 |A and B| / |A or B| for the sets of words A and B. The second text is the first
    with some words replaced, from none to all.
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
    """Makes lines of code and the kind of each token: {"tokens", "tags"}, lists of equal length.

    Lines have 4 to 48 tokens.
    """
    return _split_by_key(
        ((module, record) for module, code in library_modules(library_root()) for record in _lines(code)),
        ("tokens",),
        TAGS,
    )


def extraction() -> BuiltinTask:
    """Makes questions with answers in a context: {"context", "question", "answer", "start"}.

    `start` counts characters. A context is a function's head and docstring; questions ask for the
    default of a parameter, or the docstring's first line.
    """
    return _split_by_key(
        ((module, record) for module, code in library_modules(library_root()) for record in _questions(code)),
        ("context",),
    )


def translation(count: int = 20000, seed: int = 0) -> BuiltinTask:
    """Makes dates from 1900 to 2099 in words and in ISO 8601: {"source", "target"}.

    An example is "the third of May, two thousand and one" and "2001-05-03". No date occurs twice;
    each is in one of five spellings.
    """
    if not 0 < count <= _DAYS:
        raise ConfigError(f"count={count}: there are {_DAYS} dates, from 1900 to 2099")
    draws = np.random.PCG64(seed).random_raw(2 * _DAYS)
    days, spellings = np.argsort(draws[:_DAYS], kind="stable")[:count], draws[_DAYS:] % 5
    dates = [(_FIRST_DAY + datetime.timedelta(days=day), int(spellings[day])) for day in days.tolist()]
    return _split_by_key(
        ((str(date), {"source": spell_date(date, spelling), "target": str(date)}) for date, spelling in dates),
        ("target",),
    )


def labels_as_text(task: BuiltinTask) -> BuiltinTask:
    """Returns a task of classification as pairs of texts: {"source", "target"}.

    The target is the label's name, as an encoder-decoder writes it (Raffel et al. 2020, section 2.4);
    the source is the text's beginning.
    """

    def pairs_of(records: tuple[Record, ...]) -> tuple[Record, ...]:
        return tuple(
            {"source": " ".join(record["text"].split()[:_WORDS_OF_A_SOURCE]), "target": record["label"]}
            for record in records
        )

    return BuiltinTask(pairs_of(task.train), pairs_of(task.validation))


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
    """Splits records by the hash of their keys and drops duplicates.

    Args:
        records: (key, record).
        content: names of the values that the two parts must not share.
        labels: labels of the task.
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
    """Yields the first logical lines of a file with the kinds of their tokens."""
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
    """Returns one of `TAGS`, or None if a reader would not see a token."""
    name = tokenize.tok_name[token.type]
    if name == "NAME":
        return "keyword" if keyword.iskeyword(token.string) else "name"
    # Since Python 3.12 the tokenizer returns a formatted string in parts.
    kinds = {"NUMBER": "number", "OP": "operator", "COMMENT": "comment"}
    return "string" if name == "STRING" or "STRING_" in name else kinds.get(name)


def _questions(code: str) -> Iterator[Record]:
    """Yields questions about each function of a file that has a docstring and is short enough."""
    lines = code.splitlines(keepends=True)
    starts = np.cumsum([0, *map(len, lines)]).tolist()

    def place(line: int, column: int) -> int:
        # The syntax tree counts UTF-8 bytes.
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    tree = parse_or_none(code)
    # splitlines() ends a line at a form feed or a lone carriage return, and Python does not.
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
