"""The record of comparisons: which values of fields a test of zoo compared with which reference.

Tests write it (CONTRIBUTING.md says how) and fail where it differs from their own comparisons.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.config import BY_PATH
from zoo.config.fields import IGNORED_BY
from zoo.variants.variant import Variant, has_variant

FILE = Path(__file__).with_name("comparisons.json")
NOTHING = "not compared"
ARCHITECTURE = "model.architecture"


@dataclass(frozen=True)
class Comparison:
    """One comparison of a test with a reference.

    Attributes:
        test: the test, as pytest names it: "tests/layers/test_norm.py::test_norm[rmsnorm]".
        against: the reference, e.g. "numpy in float64, from the equation".
        difference: bound on the largest difference, relative to the largest expected magnitude.
        tolerance: the largest accepted difference; 0 for exact equality.
        parts: the fields that the compared code reads, by their paths or the beginnings of these.
        fields: {path: value} of these fields where the value is not the default, and of the
            architecture, the objective and the number of heads.
        variants: names of variants that are compared although no field chooses them.
    """

    test: str
    against: str
    difference: float
    tolerance: float
    parts: tuple[str, ...] = ()
    fields: Mapping[str, Any] = None
    variants: tuple[str, ...] = ()

    @property
    def function(self) -> str:
        """The test without the parameters of its case."""
        return self.test.partition("[")[0]


def parse(text: str) -> list[Comparison]:
    """Returns the comparisons of a file's text."""
    return [
        Comparison(
            **{name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
            | {"fields": entry.get("fields", {})}
        )
        for entry in json.loads(text)
    ]


@functools.cache
def recorded() -> tuple[Comparison, ...]:
    """Returns the comparisons that the package records."""
    return tuple(parse(FILE.read_text(encoding="utf-8")))


def covers(parts: Iterable[str], path: str) -> bool:
    """Returns whether a path is one of `parts`, or below one."""
    return any(path == part or path.startswith(f"{part}.") for part in parts)


def compares(comparison: Comparison, variant: Variant) -> bool:
    """Returns whether a comparison ran with every value that makes the variant."""
    if variant.name in comparison.variants:
        return True
    chosen = variant.chosen
    architecture = comparison.fields.get(ARCHITECTURE, BY_PATH[ARCHITECTURE].default)
    unread = IGNORED_BY.get(architecture, ())
    if not chosen or any(not covers(comparison.parts, path) or path.startswith(unread) for path in chosen):
        return False
    if variant.baseline == "elmo" != architecture:
        return False
    return has_variant({path: field.default for path, field in BY_PATH.items()} | comparison.fields, variant)


def comparisons_of(variant: Variant, found: Iterable[Comparison] | None = None) -> list[str]:
    """Returns a line for each test that compares the variant: its references, the number of its
    cases, the largest difference and the tolerance; `NOTHING` without a test.

    Args:
        variant: the variant.
        found: the comparisons; None for the recorded ones.
    """
    by_test: dict[str, list[Comparison]] = {}
    for comparison in recorded() if found is None else found:
        if compares(comparison, variant):
            by_test.setdefault(comparison.function, []).append(comparison)
    return [_line(test, comparisons) for test, comparisons in by_test.items()] or [NOTHING]


# More references than these are counted.
NAMED = 3


def _line(test: str, comparisons: list[Comparison]) -> str:
    references = list(dict.fromkeys(comparison.against for comparison in comparisons))
    others = f" and {len(references) - NAMED} others" if len(references) > NAMED else ""
    cases = len({comparison.test for comparison in comparisons})
    return (
        f"{'; '.join(references[:NAMED])}{others}, `{test}`"
        f"{f' ({cases} cases)' if cases > 1 else ''}: largest difference "
        f"{max(comparison.difference for comparison in comparisons):.0e}, tolerance "
        f"{max(comparison.tolerance for comparison in comparisons):g}"
    )
