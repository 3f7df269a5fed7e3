"""The section of docs/parity.md on update rules, measured with the functions that
`tests/training/optimization/` uses.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from tests.training.optimization import (
    test_muon,
    test_parametrization,
    test_schedule_free,
    test_soap,
    test_update_rules,
)

# Name of the rule, class of the reference.
Case = tuple[str, str]
# The reference's library with its version, and the difference.
Figures = Mapping[Case, tuple[str, float]]
ROW = re.compile(r"\| `([^|]+)` \| ([\w.]+), ([\w-]+ [\d.]+) \| (\S+) \|")
TOLERANCE = 1e-3
CLASSES = {
    "adamw": ("AdamW", "torch"),
    "sgd": ("SGD", "torch"),
    "lion": ("Lion", "pytorch-optimizer"),
    "adagrad": ("Adagrad", "torch"),
    "adafactor": ("Adafactor", "transformers"),
    "ademamix": ("AdEMAMix", "pytorch-optimizer"),
    "adopt": ("ADOPT", "pytorch-optimizer"),
    "stable_adamw": ("StableAdamW", "pytorch-optimizer"),
    "lamb": ("Lamb", "pytorch-optimizer"),
}
INTRODUCTION = """
## Update rules

Each rule makes ten updates (SOAP fourteen) of stacked and single matrices, and of vectors where it has them,
at a constant rate; the optimizer of another library makes the same updates with the same gradients and
settings. *Difference* is the largest one of any weight afterwards, relative to the largest change of a weight
of its parameter in these updates (`python -m tests.parity.table optimizers`). All updates are in single
precision except those of SOAP, schedule-free AdamW, muP and CompleteP, which are in double. The last two are
AdamW with a group of parameters for each row of the published table. Which tolerances the tests accept, and where a library had to be told something, is in
`tests/training/optimization/`. `nadamw` and `muonh` have no such partner and are compared with their equations there.

| Rule | Reference | Difference |
| --- | --- | --- |
"""


def cases() -> dict[Case, tuple[str, Callable[[], Iterable[tuple[Any, ...]]]]]:
    """Returns the library of each case, and a function that yields (..., before, ours, theirs)."""
    found = {}
    for name in test_update_rules.WITH_REFERENCE:
        reference, library = CLASSES[test_update_rules.kind_of(name)]
        found[name, reference] = library, functools.partial(test_update_rules.beside_library, name)
    found["lamb with decay", "lamb"] = "optax", test_update_rules.lamb_beside_optax
    for scale in test_muon.ADJUSTED:
        found[f"muon, {scale}", "Muon"] = "torch", functools.partial(_all_shapes, test_muon.beside_pytorch, scale)
    for scale in test_muon.UPDATE_SCALES:
        beside = functools.partial(_all_shapes, test_muon.normuon_beside_pytorch_optimizer, scale)
        found[f"normuon, {scale}", "NorMuon"] = "pytorch-optimizer", beside
    for name, changes in test_soap.WITH_REFERENCE.items():
        found[name, "SOAP"] = "pytorch-optimizer", functools.partial(test_soap.beside_pytorch_optimizer, **changes)
    found["schedule_free", "ScheduleFreeAdamW"] = "pytorch-optimizer", test_schedule_free.beside_pytorch_optimizer
    found["schedule_free", "contrib.schedule_free"] = "optax", test_schedule_free.beside_optax
    for name in test_parametrization.ROWS:
        found[f"adamw, {name}", "AdamW"] = "torch", functools.partial(test_parametrization.beside_pytorch, name)
    return found


def _all_shapes(beside: Callable[..., tuple[Any, ...]], scale: str) -> list[tuple[Any, ...]]:
    return [beside(shape, scale) for shape in test_muon.SHAPES.values()]


def _difference(compared: tuple[Any, ...]) -> float:
    before, ours, theirs = (np.asarray(each, np.float64) for each in compared[-3:])
    change = np.abs(theirs - before).max()
    assert change > 0
    assert np.isfinite(ours).all()
    return float(np.abs(ours - theirs).max() / change)


def measure() -> dict[Case, tuple[str, float]]:
    """Measures the largest difference of every case; adds the library's version."""
    found = {}
    for (name, reference), (library, beside) in cases().items():
        difference = max(map(_difference, beside()))
        print(f"{name}, {reference}: {difference:.0e}", flush=True)
        if not difference <= TOLERANCE:
            raise SystemExit(f"{name} differs by more than {TOLERANCE:g} from {reference}")
        found[name, reference] = f"{library} {version(library).partition('+')[0]}", difference
    return found


def written(text: str) -> dict[Case, tuple[str, float]]:
    """Reads the figures from the text of docs/parity.md."""
    rows = {(name, reference): (library, float(figure)) for name, reference, library, figure in ROW.findall(text)}
    return {case: rows[case] for case in cases() if case in rows}


def section(figures: Figures) -> str:
    """Renders the section, with a line for every case."""
    from tests.parity.table import rounded

    return INTRODUCTION + "".join(
        f"| `{name}` | {reference}, {figures[name, reference][0]} | {rounded(figures[name, reference][1]) if figures[name, reference][1] else 0} |\n"
        for name, reference in cases()
    )
