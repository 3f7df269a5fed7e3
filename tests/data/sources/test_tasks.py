"""Tasks built from the standard library, and the library as text: answers are at their offsets, and
parts are disjoint.
"""

import datetime
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import Counter

import pytest

from tests.data.reading import texts_of
from tests.data.sources.test_records import open_documents
from tests.support.small_library import small_standard_library
from zoo.data.sources import builtin_tasks, spelled_dates
from zoo.data.sources.standard_library import library_docstrings, paragraphs
from zoo.errors import ConfigError

PROGRAM = """
import json, sys, sysconfig
sysconfig.get_path = lambda name: sys.argv[1]
from zoo.data.sources import builtin_tasks as tasks
for make in (lambda: tasks.classification(4), tasks.tagging, tasks.extraction, lambda: tasks.translation(3000)):
    task = make()
    print(json.dumps([task.train, task.validation, task.labels]))
"""


GET_PATH = sysconfig.get_path


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    with small_standard_library(tmp_path_factory.mktemp("library")) as folder:
        yield folder


@pytest.fixture(scope="module")
def built_tasks(library):
    return {
        "classification": builtin_tasks.classification(4),
        "tagging": builtin_tasks.tagging(),
        "extraction": builtin_tasks.extraction(),
        "translation": builtin_tasks.translation(3000),
    }


def all_records(task):
    return [*task.train, *task.validation]


CONTENT = {"classification": "text", "tagging": "tokens", "extraction": "context", "translation": "target"}


@pytest.mark.parametrize("name", CONTENT)
def test_parts_are_disjoint_and_of_the_expected_size(built_tasks, name):
    task = built_tasks[name]
    one, other = ({json.dumps(record[CONTENT[name]]) for record in part} for part in (task.train, task.validation))
    assert not one & other
    assert 0.02 < len(task.validation) / len(all_records(task)) < 0.35
    assert len({json.dumps(record) for record in all_records(task)}) == len(all_records(task)) > 150


def test_labels_are_those_listed(built_tasks):
    labels = built_tasks["classification"].labels
    assert len(labels) == 4
    assert (
        {record["label"] for record in built_tasks["classification"].train}
        == set(labels)
        == {"asyncio", "email", "http", "logging"}
    )
    assert list(labels) == sorted(labels)
    assert {tag for record in all_records(built_tasks["tagging"]) for tag in record["tags"]} <= set(builtin_tasks.TAGS)
    assert {tag for record in built_tasks["tagging"].validation for tag in record["tags"]} >= set(
        builtin_tasks.TAGS
    ) - {"comment"}
    with pytest.raises(ConfigError, match=r"classes=99: there are .* modules with docstrings"):
        builtin_tasks.classification(99)


def test_docstrings_shared_by_modules_are_left_out(tmp_path, monkeypatch):
    for name, text in (
        ("a", "only in the first module of all"),
        ("b", "only in the second module of all"),
        ("c", "three words only"),
    ):
        (tmp_path / f"{name}.py").write_text(
            f'"""{text}"""\n\nclass A:\n    """Is there in each and every module."""\n'
        )
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert {record["text"] for record in all_records(builtin_tasks.classification(2))} == {
        "only in the first module of all",
        "only in the second module of all",
    }


def test_tokens_match_their_tags(built_tasks):
    kinds = {
        "keyword": r"[A-Za-z]+",
        "name": r"[^\W\d]\w*",
        "number": r"[\d.].*",
        "comment": "#.*",
        "operator": r"[^\w\s\"'#]+",
    }
    for record in all_records(built_tasks["tagging"]):
        assert len(record["tokens"]) == len(record["tags"])
        for token, tag in zip(record["tokens"], record["tags"], strict=True):
            # From Python 3.12 on, the parts of an f-string are tokens, which may begin with a space.
            assert tag == "string" or re.fullmatch(kinds[tag], token), (token, tag)


def test_answers_are_at_their_offsets(built_tasks):
    records = all_records(built_tasks["extraction"])
    for record in records:
        start = record["start"]
        assert record["context"][start : start + len(record["answer"])] == record["answer"]
        assert record["context"].startswith(("def ", "async def "))
    verbs = Counter(record["question"].partition(" ")[2].partition(" ")[0] for record in records)
    assert min(verbs["is"], verbs["does"]) > 30
    asked = {(record["question"], record["answer"]) for record in records}
    # Which parameters the library's functions have depends on the version of Python.
    assert any(question.startswith("What is the default of ") and answer == "None" for question, answer in asked)
    assert ("What does fill do?", "Fill a single paragraph of text, returning a new string.") in asked


def test_answer_offsets_count_characters_and_not_bytes(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text('def f(é="äöü", *, ß=(1, 2)):\n    """Größer als.\n\n    More."""\n')
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    found = [
        (record["question"].split()[-1], record["answer"], record["start"])
        for record in all_records(builtin_tasks.extraction())
    ]
    assert found == [("é?", '"äöü"', 8), ("ß?", "(1, 2)", 20), ("do?", "Größer als.", 36)]


def test_dates_in_words():
    words = {
        (datetime.date(1992, 3, 5), 0): "the fifth of March, nineteen ninety-two",
        (datetime.date(2001, 5, 3), 0): "the third of May, two thousand and one",
        (datetime.date(1900, 1, 21), 3): "January the twenty-first nineteen hundred",
        (datetime.date(1905, 12, 12), 4): "Tuesday the 12th of December nineteen oh five",
        (datetime.date(2000, 2, 29), 4): "Tuesday the 29th of February two thousand",
        (datetime.date(2024, 6, 30), 1): "Sunday, June 30th, 2024",
        (datetime.date(2024, 6, 22), 1): "Saturday, June 22nd, 2024",
        (datetime.date(2013, 8, 11), 2): "11 Aug 2013",
        (datetime.date(2013, 8, 20), 3): "August the twentieth twenty thirteen",
    }
    for (date, spelling), text in words.items():
        assert spelled_dates.spell_date(date, spelling) == text


def test_dates_are_distinct_and_depend_on_the_seed(built_tasks):
    records = all_records(built_tasks["translation"])
    assert all(str(datetime.date.fromisoformat(record["target"])) == record["target"] for record in records)
    assert len({record["target"] for record in records}) == len({record["source"] for record in records}) == 3000
    spellings = (
        r"the [a-z-]+ of \w+, [a-z -]+",
        r"\w+day, \w+ \d+\w\w, \d{4}",
        r"\d+ \w{3} \d{4}",
        r"\w+ the [a-z-]+ [a-z -]+",
        r"\w+day the \d+\w\w of \w+ [a-z -]+",
    )
    counts = [sum(bool(re.fullmatch(spelling, record["source"])) for record in records) for spelling in spellings]
    assert sum(counts) == 3000
    assert min(counts) > 500
    assert builtin_tasks.translation(3000, seed=1).train != built_tasks["translation"].train
    # A date is in the same part for every seed.
    held_out = {record["target"] for record in builtin_tasks.translation(3000, seed=1).validation}
    assert not held_out & {record["target"] for record in built_tasks["translation"].train}
    with pytest.raises(ConfigError, match="there are 73049 dates"):
        builtin_tasks.translation(80000)


@pytest.mark.promise(reason="several processes build the tasks")
def test_every_process_builds_the_same_tasks(library, built_tasks):
    # This process has another hash seed, which is random.
    command, environment = [sys.executable, "-c", PROGRAM, str(library)], os.environ | {"PYTHONHASHSEED": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here = built_tasks.values()
    assert done.stdout.splitlines() == [json.dumps([one.train, one.validation, one.labels]) for one in here]


def test_docstrings_as_text(library):
    documents = open_documents("stdlib:docstrings")
    texts = texts_of(documents)
    assert texts == texts_of(open_documents("stdlib:docstrings"))
    assert "docstrings of the standard library of Python" in documents.description
    lines = [line for text in texts for line in text.split("\n")]
    assert "Fill a single paragraph of text, returning a new string." in lines
    assert any(
        line.startswith("Reformat the single paragraph in 'text' to fit in lines of no more than") for line in lines
    )
    assert not any(">>>" in line or "  " in line for line in lines)
    # Each document is a module, and no docstring is repeated.
    assert len(texts) <= len({docstring.module for docstring in library_docstrings(library)})
    with pytest.raises(ConfigError, match=r'takes no argument but "docstrings", got "stdlib:docs"'):
        open_documents("stdlib:docs")


def test_paragraphs_are_prose():
    docstring = """Return the sum of both.

    >>> add(1, 2)
    3

    This is a paragraph
    of two lines. It has two sentences.

    Arguments:
      one: is a number.

    - a list of a few words.
    no capital at the beginning.

    add(a, b) adds a to b.

    No stop at the end of it

    | a table | of some words. |

    Short one."""
    lines = "\n".join(line.removeprefix("    ") for line in docstring.split("\n"))
    assert paragraphs(lines) == ["Return the sum of both.", "This is a paragraph of two lines. It has two sentences."]


@pytest.mark.promise(reason="the whole standard library is read")
def test_the_whole_library_gives_enough_examples(monkeypatch):
    # The fixture `library` may have replaced it by a small one.
    monkeypatch.setattr(sysconfig, "get_path", GET_PATH)
    for make, least in (
        (builtin_tasks.classification, 2000),
        (builtin_tasks.tagging, 10000),
        (builtin_tasks.extraction, 4000),
        (builtin_tasks.translation, 15000),
    ):
        task = make()
        assert len(task.train) > least
        assert len(task.validation) > least / 20
    assert open_documents("stdlib:docstrings").characters > 400_000
