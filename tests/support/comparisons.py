"""Comparisons with a reference, asserted and recorded in `zoo/variants/comparisons.json`.

A test calls `compared` with both sides and the config under test. In an ordinary run it fails if it
compares anything that the file does not list, or does not compare what the file lists for it. With
`--record-comparisons` the file is written: lines of the tests that ran are replaced, lines of tests
that are gone are removed.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NUMPY = "numpy in float64, from the equation"
OPTION = "--record-comparisons"
ROOT = Path(__file__).parents[2]
FILE = ROOT / "zoo" / "variants" / "comparisons.json"
NAME = "zoo/variants/comparisons.json"
# Below the resolution of float32 machines do not agree.
RESOLUTION = 1e-7
# A machine may differ from the one that wrote the file.
SLACK = 10
# Numbers that say how large a model is, and not what it computes.
SIZES = {"model.dim", "model.num_layers", "model.vocab_size", "model.ffn.hidden_dim", "model.attention.head_dim"}
# Recorded with any parts: a window has another mask in an encoder, heads are shared only if there
# are more of them, and some choices exist only for an objective.
NUM_HEADS = "model.attention.num_heads"
CONTEXT = ("model.architecture", NUM_HEADS, "objective.kind")
# Numbers that choose a variant unless they are the derived ones; other derived numbers are sizes or
# follow from a choice.
DERIVED = {
    "model.attention.num_kv_heads": lambda flat: flat[NUM_HEADS],
    "model.attention.num_query_heads": lambda flat: flat[NUM_HEADS],
    "model.attention.cross_kv_heads": lambda flat: flat[NUM_HEADS],
    "model.attention.scale": lambda flat: flat["model.attention.head_dim"] ** -0.5,
    "model.attention.lambda_init": lambda flat: "auto",
}

# Comparisons of the running test; None outside of tests.
_noted: list[dict[str, Any]] | None = None


def compared(actual: Any, expected: Any, tolerance: float = 1e-5, **about: Any) -> None:
    """Asserts equality to `tolerance`, relative to the largest expected magnitude, and records it.

    Args:
        actual, expected: arrays of equal shapes.
        tolerance: largest accepted difference; 0 for exact equality.
        **about: `against`, `config`, `parts` and `variants` of `note`.
    """
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape
    scale = np.abs(expected).max(initial=1e-30)
    assert np.isfinite(scale), "the expected values are not finite, and NaN equals NaN"
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance)
    note(float(np.abs(actual - expected).max(initial=0) / scale), tolerance, **about)


def note(
    difference: float,
    tolerance: float,
    config: Mapping[str, Any] | None = None,
    parts: str | tuple[str, ...] = "model",
    against: str = NUMPY,
    variants: tuple[str, ...] = (),
) -> None:
    """Asserts that a relative difference is at most `tolerance`, and records it.

    Args:
        difference: the largest one of everything that was compared.
        tolerance: largest accepted difference.
        config: the resolved config under test, or its `model`.
        parts: paths of fields, or their beginnings: those that the compared code reads.
        against: the reference.
        variants: names of compared variants that no field chooses.
    """
    assert difference <= tolerance
    parts = () if config is None else (parts,) if isinstance(parts, str) else tuple(parts)
    if _noted is not None:
        fields = {} if config is None else pairs(config, parts)
        _noted.append(
            {"against": against, "difference": difference, "tolerance": tolerance, "parts": list(parts)}
            | {"fields": fields, "variants": sorted(variants)}
        )


def pairs(config: Mapping[str, Any], parts: tuple[str, ...]) -> dict[str, Any]:
    """Returns {path: value} of the fields that are read within `parts`, except defaults."""
    from zoo.config import BY_PATH, NOT_RESULT_RELEVANT, field_at
    from zoo.nested import flatten
    from zoo.variants.comparisons import covers

    flat = flatten(config)
    if "model" not in config:
        flat = {f"model.{path}": value for path, value in flat.items()}
    flat = {path: field.default for path, field in BY_PATH.items()} | flat

    def is_recorded(path: str, value: Any) -> bool:
        field = field_at(path)
        if field is None or value == field.default or path in SIZES or path in NOT_RESULT_RELEVANT:
            return False
        if path in CONTEXT:
            return True
        if not covers(parts, path) or not (path not in BY_PATH or field.is_read(flat)):
            return False
        return not field.auto or bool(field.choices) or (path in DERIVED and value != DERIVED[path](flat))

    found = {path: value for path, value in flat.items() if is_recorded(path, value)}
    return {path: list(value) if isinstance(value, tuple) else value for path, value in sorted(found.items())}


def rounded_up(difference: float) -> float:
    """Returns the difference, rounded up to one significant digit; at least `RESOLUTION`, unless it is
    0.
    """
    if difference == 0:
        return 0.0
    difference = max(difference, RESOLUTION)
    exponent = math.floor(math.log10(difference))
    return float(f"{math.ceil(difference / 10.0**exponent - 1e-6)}e{exponent}")


def _key(entry: Mapping[str, Any]) -> str:
    """Returns what identifies a comparison within its test."""
    return json.dumps([entry["against"], entry["parts"], entry["fields"], entry["variants"], entry["tolerance"]])


def _merged(noted: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the comparisons of a test by their key, each with its largest difference."""
    found: dict[str, dict[str, Any]] = {}
    for entry in noted:
        before = found.setdefault(_key(entry), entry)
        before["difference"] = max(before["difference"], entry["difference"])
    return found


def read(file: Path = FILE) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns {test: {key: comparison}} of a file."""
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for entry in json.loads(file.read_text(encoding="utf-8")) if file.exists() else ():
        entry = {"parts": [], "fields": {}, "variants": []} | entry
        found[entry.pop("test")][_key(entry)] = entry
    return dict(found)


def rendered(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Returns the file's text: a line for each comparison, sorted."""
    lines = []
    for test in sorted(found):
        for _, entry in sorted(found[test].items()):
            kept = {name: entry[name] for name in ("against", "difference", "tolerance")}
            kept |= {name: entry[name] for name in ("parts", "fields", "variants") if entry[name]}
            lines.append(json.dumps({"test": test} | kept))
    return "[\n" + ",\n".join(lines) + "\n]\n"


class Comparisons:
    """The hooks of a pytest session that keep a file true, or write it."""

    def __init__(self, file: Path = FILE, recording: bool = False, root: Path = ROOT):
        self.file, self.recording, self.root = file, recording, root
        self.listed = read(file)
        # The comparisons of the tests that ran and passed, and tests in the file that do not exist.
        self.found: dict[str, dict[str, dict[str, Any]]] = {}
        self.gone: set[str] = set()
        self.stale: dict[str, list[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> Iterator[None]:
        existing: dict[str, set[str]] = defaultdict(set)
        for item in items:
            existing[item.nodeid.partition("::")[0]].add(item.nodeid)
        yield
        # Of a file that is named with a test, only that test is collected.
        if any("::" in argument for argument in session.config.args):
            return
        for test in self.listed:
            file = test.partition("::")[0]
            if file in existing and test not in existing[file]:
                self.gone.add(test)
                self.stale.setdefault(file, []).append(test)
        for item in items:
            if lost := self.stale.pop(item.nodeid.partition("::")[0], None):
                item.stash[STALE] = lost

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Iterator[None]:
        global _noted
        before, _noted = _noted, []
        try:
            result = yield
        finally:
            noted, _noted = _noted, before
        self.finish(pyfuncitem, _merged(noted))
        return result

    def finish(self, item: pytest.Item, found: dict[str, dict[str, Any]]) -> None:
        """Keeps or checks what a test that passed has compared."""
        if self.recording:
            self.found[item.nodeid] = found
            return
        if lost := item.stash.get(STALE, None):
            pytest.fail(f"{NAME} lists {lost[0]}, which does not exist; {self.command(item)}", pytrace=False)
        listed = self.listed.get(item.nodeid, {})
        if new := found.keys() - listed.keys():
            pytest.fail(
                f"this test compares {_told(found[min(new)])}, which {NAME} does not list; {self.command(item)}",
                pytrace=False,
            )
        if lost := listed.keys() - found.keys():
            pytest.fail(
                f"{NAME} lists {_told(listed[min(lost)])}, which this test does not compare; {self.command(item)}",
                pytrace=False,
            )
        for key, entry in found.items():
            bound = listed[key]["difference"]
            if entry["difference"] > SLACK * max(bound, RESOLUTION):
                pytest.fail(
                    f"{_told(entry)} differs by {entry['difference']:.0e}, and {NAME} says by at most {bound:.0e}; "
                    f"{self.command(item)}",
                    pytrace=False,
                )

    @staticmethod
    def command(item: pytest.Item) -> str:
        """Returns how the file is written, for the test's own file."""
        return f"run: python -m pytest {item.nodeid.partition('::')[0]} -m 'not gpu' {OPTION}"

    def pytest_sessionfinish(self) -> None:
        if not self.recording:
            return
        kept = {
            test: entries
            for test, entries in self.listed.items()
            if test not in self.gone and (self.root / test.partition("::")[0]).exists()
        }
        for test, entries in self.found.items():
            written = kept.pop(test, {})
            if entries:
                kept[test] = {
                    key: entry | {"difference": _bound(entry, written.get(key))} for key, entry in entries.items()
                }
        self.file.write_text(rendered(kept), encoding="utf-8")


STALE = pytest.StashKey[list[str]]()


def _bound(entry: Mapping[str, Any], written: Mapping[str, Any] | None) -> float:
    """Returns the bound to write: the one that is written if it is true and not far too large."""
    bound = rounded_up(entry["difference"])
    if written and bound <= written["difference"] <= SLACK * max(bound, RESOLUTION):
        return written["difference"]
    return bound


def _told(entry: Mapping[str, Any]) -> str:
    fields = " ".join(f"{path}={value}" for path, value in entry["fields"].items())
    return f"{fields or ' '.join(entry['parts'] or entry['variants'])} with {entry['against']}"
