"""Every rule of the linter finds a wrong text, at its line, and accepts the right one."""

import json
from dataclasses import replace

import pytest

from tests.lint import docstrings, pages, variants
from tests.lint.problem import ROOT
from zoo.variants import VARIANTS

BY_NAME = {variant.name: variant for variant in VARIANTS}


@pytest.fixture
def written(tmp_path):
    """Writes files of a small repository; returns its root."""

    def write(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/").replace("_md", ".md").replace("_py", ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def told(problems):
    return [str(problem) for problem in problems]


def test_docstrings_without_a_subject_are_found(written):
    text = '"""Norms."""\n\n\ndef kept(x):\n    """What a decoder keeps."""\n\n\nclass Whatever:\n    """Whatever it is."""\n'
    root = written(zoo__norm_py=text)
    assert told(docstrings.openings(root / "zoo", root)) == [
        'zoo/norm.py:5: a docstring opens with "What": What a decoder keeps.'
    ]


@pytest.mark.parametrize(("stated", "found"), [("small 124,439,808", 0), ("small 124,439,809", 1), ("124,439,808", 1)])
def test_docstrings_without_their_parameter_counts_are_found(written, stated, found):
    root = written(configs__gpt2_py=f'"""GPT-2: {stated}."""\nCOUNT = "small 124,439,808"\n')
    assert len(told(docstrings.parameter_counts({"gpt2:small": 124_439_808}, root / "configs", root))) == found


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("", "", ""),
        ("N1", "N2", "the docstring lacks the claim, N1"),
        ("0.1", "0.2", "the docstring lacks the margin of"),
        ("norm_placement.py", "norm.py", "the docstring lacks the command, zoo run experiments/norm_placement.py"),
    ],
)
def test_experiments_without_their_margins_are_found(tmp_path, old, new, problem):
    path = tmp_path / "experiments" / "norm_placement.py"
    path.parent.mkdir()
    _, described, code = (ROOT / "experiments" / "norm_placement.py").read_text().split('"""', 2)
    assert old in described
    path.write_text(f'"""{described.replace(old, new) if old else described}"""{code}')
    found = told(docstrings.margins([path], tmp_path))
    assert all(problem in line for line in found) if problem else not found
    assert bool(found) == bool(problem)


def test_experiments_without_a_row_are_found(written):
    path = ROOT / "experiments" / "norm_placement.py"
    root = written(docs__experiments_md="| N1 post-norm | [norm_placement.py](x) | |\n", docs__pretraining_md="")
    assert not told(docstrings.documented_claims([path], root))
    root = written(docs__experiments_md="| N11 post-norm | [norm_placement.py](x) | |\n")
    assert told(docstrings.documented_claims([path], root)) == [
        "docs/experiments.md:1: no row of a table names norm_placement.py for claim N1"
    ]


def test_links_to_nothing_are_found(written):
    root = written(README_md="zoo\n\n[a](docs/a.md#part), [b](docs/b.md), [c](https://c.org)\n", docs__a_md="a")
    written(CONTRIBUTING_md="", AGENTS_md="[w](../../actions/workflows/gone.yml)")
    assert told(pages.links(root)) == [
        "README.md:3: there is no docs/b.md",
        "AGENTS.md:1: there is no ../../actions/workflows/gone.yml",
    ]


def test_pages_outside_of_the_navigation_are_found(written):
    root = written(docs__a_md="", docs__b_md="", docs__api__c_md="")
    (root / "mkdocs.yml").write_text("site: x\nnav:\n  - A: a.md\n  - API: api/\n  - D: d.md\n")
    assert told(pages.navigation(root)) == [
        "docs/b.md:1: the navigation in mkdocs.yml lacks this page",
        "mkdocs.yml:5: there is no docs/d.md",
    ]


def test_other_versions_are_found(written):
    root = written(CHANGELOG_md="# Changes\n\n## 1.2 (soon)\n")
    (root / "CITATION.cff").write_text("title: zoo\nversion: 1.3\n")
    assert told(pages.versions("1.3", root)) == ["CHANGELOG.md:3: states version 1.2, and the package has 1.3"]


def test_notebooks_that_were_not_run_are_found(tmp_path):
    code = [{"cell_type": "code", "source": [], "execution_count": count} for count in (1, None)]
    cells = [{"cell_type": "markdown", "source": ["no title"]}, *code]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "pictures": " " * pages.MAX_NOTEBOOK}))
    assert [problem.text.split(";")[0] for problem in pages.notebooks(tmp_path, tmp_path)] == [
        "the first text of the notebook is no title",
        "the cells were not run in order",
        "the notebook has more than 100,000 bytes",
    ]


def test_letters_without_an_explanation_and_texts_without_a_formula_are_found():
    wrong = replace(BY_NAME["grouped-query"], equation="out = softmax(q k^T) v, over Q heads", details=())
    assert [problem.text for problem in variants.equations([wrong, replace(wrong, equation="shared heads")])] == [
        "variant grouped-query: nothing explains the letter Q of its equation",
        "variant grouped-query: its text has no formula",
    ]
    assert not told(variants.equations([BY_NAME["grouped-query"]]))


def test_names_that_occur_twice_are_found():
    one, other = BY_NAME["rope"], replace(BY_NAME["alibi"], name="Ali bi")
    assert [problem.text for problem in variants.names([one, one, other])] == [
        "variant rope: two variants have this name",
        "variant rope: two variants have this name",
        "variant Ali bi: a name has lower-case letters, digits and hyphens",
    ]


def test_variants_and_results_without_a_paper_are_found():
    results = ("9 of 10", "9 of 10 (Ainslie et al. 2023)")
    wrong = replace(BY_NAME["grouped-query"], paper="a well-known paper", published=results)
    assert [problem.text for problem in variants.papers([wrong])] == [
        "variant grouped-query: no paper with authors and year is named",
        "variant grouped-query: a published result cites no paper: 9 of 10",
    ]


def test_recorded_tests_that_do_not_exist_are_found(written):
    root = written(tests__test_a_py="\ndef test_b():\n    pass\n")
    record = root / "record.json"
    lines = [
        json.dumps({"test": f"tests/{name}"}) for name in ("test_a.py::test_b[2]", "test_a.py::test_b", "z.py::test_c")
    ]
    record.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    assert told(variants.recorded_tests(record, root)) == [
        "record.json:3: tests/test_a.py::test_b is out of order; the file is written by tests",
        "record.json:4: there is no tests/z.py::test_c",
    ]
