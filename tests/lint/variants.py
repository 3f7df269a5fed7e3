"""Rules for variants: formulas, letters, papers, and the record of comparisons."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.lint.problem import ROOT, Problem, at, line_of

CONTROL = "a control"
FORMULA = re.compile(r"[=+*/^<|]|softmax|[Dd]ivide")
# A single letter, but not A or I, a part of a word, a subscript, a place (Canon-B), or a function.
CAPITAL = re.compile(r"(?<![\w^'-])([B-HJ-Z])(?![\w'(-])")
NAME = re.compile(r"[a-z0-9-]+")
RECORD = ROOT / "zoo" / "variants" / "comparisons.json"


def _place(variant: Any) -> tuple[Path, int]:
    """Returns the file and line where a variant's equation is written, else its name: among the
    variants and kinds, or in the code that computes it.
    """
    written = [ROOT / "zoo" / "variants" / "table", ROOT / "zoo" / "config" / "kinds"]
    if isinstance(variant.source, str) and not variant.equation:
        module, _, name = variant.source.partition(":")
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        found = re.search(rf"^(?:class|def) {name}\b", path.read_text(encoding="utf-8"), re.MULTILINE)
        return path, line_of(path.read_text(encoding="utf-8"), found.start())
    for wanted in (variant.equation[:30], f'"{variant.name}"', f'"{variant.name.replace("-", "_")}"'):
        for path in sorted(path for folder in written for path in folder.glob("*.py")):
            text = path.read_text(encoding="utf-8")
            if wanted and wanted in text:
                return path, line_of(text, text.index(wanted))
    return written[0] / "__init__.py", 1


def equations(variants: Iterable[Any]) -> Iterator[Problem]:
    """Finds variants without a formula, and capital letters of equations that neither the text nor the
    legend explains.
    """
    from zoo.variants.notation import defined, legend
    from zoo.variants.variant_page import computes

    for variant in variants:
        text = computes(variant)
        if not FORMULA.search(text):
            yield at(*_told(variant, "its text has no formula"))
        text = " ".join([text, *variant.details])
        explained = {name for entry in legend(text).split("; ") for name in entry.split(":")[0].split(", ")}
        for letter in sorted(set(CAPITAL.findall(text)) - explained - defined(text)):
            yield at(*_told(variant, f"nothing explains the letter {letter} of its equation"))


def _told(variant: Any, text: str) -> tuple[Path, str, int]:
    path, line = _place(variant)
    return path, f"variant {variant.name}: {text}", line


def names(variants: Sequence[Any]) -> Iterator[Problem]:
    """Finds names that occur twice or have other characters than letters, digits and hyphens."""
    found = [variant.name for variant in variants]
    for variant in variants:
        if found.count(variant.name) > 1:
            yield at(*_told(variant, "two variants have this name"))
        if not NAME.fullmatch(variant.name.replace("_", "-")):
            yield at(*_told(variant, "a name has lower-case letters, digits and hyphens"))


def papers(variants: Iterable[Any]) -> Iterator[Problem]:
    """Finds variants and published results without a paper that has authors and a year."""
    from zoo.variants.variant_page import NAMED
    from zoo.variants.variant_page import papers as papers_of

    for variant in variants:
        if not any(
            NAMED.search(paper) or CONTROL in paper or "Team" in paper or "OpenAI" in paper
            for paper in papers_of(variant)
        ):
            yield at(*_told(variant, "no paper with authors and year is named"))
        for line in variant.published:
            if not (NAMED.search(line) or line.startswith("The same")):
                yield at(*_told(variant, f"a published result cites no paper: {line}"))


def recorded_tests(record: Path = RECORD, root: Path = ROOT) -> Iterator[Problem]:
    """Finds lines of the record of comparisons whose test does not exist, and lines out of order."""
    text = record.read_text(encoding="utf-8")
    tests = [entry["test"] for entry in json.loads(text)]
    for before, test in zip(["", *tests], tests, strict=False):
        file, _, function = test.partition("[")[0].partition("::")
        line = line_of(text, text.index(json.dumps(test)))
        if not (root / file).is_file() or f"\ndef {function}(" not in (root / file).read_text(encoding="utf-8"):
            yield at(record, f"there is no {file}::{function}", line, root)
        if test < before:
            yield at(record, f"{test} is out of order; the file is written by tests", line, root)
