"""The record of comparisons is written by tests and kept true; what has none is "not compared"."""

import itertools
import json
import sys

import pytest

from tests.plugins.plugin_files import loaded
from tests.support.building import ENCODER, tiny
from tests.support.comparisons import FILE, Comparisons, pairs, read, rendered, rounded_up
from zoo.cli.main import main
from zoo.variants import VARIANTS
from zoo.variants.comparisons import NOTHING, Comparison, comparisons_of, parse, recorded

BY_NAME = {variant.name: variant for variant in VARIANTS}

NORM = '''
import jax.numpy as jnp
from zoo import plugin


class MeanAbsoluteNorm(plugin.Norm):
    """Norm(x) = x / mean(|x|) * scale + bias, over the D values of a token."""

    def __call__(self, x, context=None):
        y = x / (jnp.abs(x).mean(axis=-1, keepdims=True) + self.epsilon)
        y = y if self.scale is None else y * self.effective_scale
        return (y if self.bias is None else y + self.effective_bias).astype(x.dtype)


traits = plugin.traits("model.norm.kind", "layernorm")
plugin.register(plugin.Kind("model.norm.kind", "mean_absolute", "divide by the mean magnitude", traits), MeanAbsoluteNorm)
'''
# A test of that norm; its equation is right with the mean and wrong with the maximum.
TEST = """
import numpy as np

from tests.support.building import call, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.layers.norm import make_norm


def test_equation():
    config = tiny({{"model.norm.kind": "mean_absolute"}}).model
    values = random_values(make_norm(config), 1)
    x = np.random.default_rng(2).standard_normal((2, 16)).astype(np.float32)
    expected = x / (np.abs(np.float64(x)).{statistic}(-1, keepdims=True) + config.norm.epsilon)
    expected = expected * values["scale"] + values["bias"]
    compared(call(with_values(make_norm(config), values), x), expected, config=config, parts="model.norm")
"""
COMPARES = """
from tests.support.comparisons import note


def test_one():
    note(3e-7, 1e-5, variants=("one",), against="a reference")


def test_other():
    pass
"""


class Reports:
    """The reports of a session's tests."""

    def __init__(self):
        self.outcomes, self.failures = [], []

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self.outcomes.append(report.outcome)
            self.failures += [str(report.longrepr)] if report.failed else []


@pytest.fixture
def run(tmp_path):
    """Runs tests with a record of their own: run(text of the tests) returns (outcomes, messages)."""
    record, numbers = tmp_path / "record.json", itertools.count()

    def run(text, recording=False, only="test_norm.py"):
        # A folder of its own, because Python recognises a changed file by its size and second.
        folder, reports = tmp_path / str(next(numbers)), Reports()
        folder.mkdir()
        (folder / "test_norm.py").write_text(text)
        (folder / "test_kept.py").write_text("def test_a():\n    pass\n")
        # The third collects garbage five times, which takes seconds on the heap of a long session.
        without = ("terminal", "cacheprovider", "unraisableexception")
        options = [f"-pno:{name}" for name in without] + ["--import-mode=importlib", f"--rootdir={folder}"]
        pytest.main([*options, f"{folder}/{only}"], plugins=[Comparisons(record, recording, folder), reports])
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
        return reports.outcomes, "\n".join(reports.failures)

    run.record = record
    return run


def lines(record):
    return json.loads(record.read_text())


def test_a_norm_is_not_compared_until_a_test_compares_it(run, tmp_path, capsys):
    with loaded(tmp_path / "plugin", NORM):
        assert main(["describe", "mean_absolute"]) == 0
        page = capsys.readouterr().out
        assert page.partition("Checked against\n\n")[2].startswith(f"- {NOTHING}\n")
        assert run(TEST.format(statistic="mean"), recording=True)[0] == ["passed"]
        (norm,) = (variant for variant in VARIANTS if variant.name == "mean-absolute")
        (line,) = comparisons_of(norm, parse(run.record.read_text()))
        assert line.startswith(
            "numpy in float64, from the equation, `test_norm.py::test_equation`: largest difference "
        )
        assert lines(run.record)[0]["fields"] == {"model.norm.kind": "mean_absolute"}
        # A wrong equation is red, and no comparison of it is written.
        outcomes, printed = run(TEST.format(statistic="max"), recording=True)
        assert outcomes == ["failed"]
        assert "Not equal to tolerance" in printed
        assert run(TEST.format(statistic="max"))[0] == ["failed"]


def test_a_comparison_that_is_not_listed_is_red(run):
    outcomes, printed = run(COMPARES)
    assert outcomes == ["failed", "passed"]
    assert printed == (
        "this test compares one with a reference, which zoo/variants/comparisons.json does not list; "
        "run: python -m pytest test_norm.py -m 'not gpu' --record-comparisons"
    )
    assert run(COMPARES, recording=True)[0] == ["passed"] * 2
    assert lines(run.record) == [
        {
            "test": "test_norm.py::test_one",
            "against": "a reference",
            "difference": 3e-7,
            "tolerance": 1e-5,
            "variants": ["one"],
        }
    ]
    assert run(COMPARES)[0] == ["passed"] * 2


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"test": "test_norm.py::test_other"}, "lists one with a reference, which this test does not compare"),
        ({"variants": ["other"]}, "this test compares one with a reference, which"),
        ({"against": "another"}, "this test compares one with a reference, which"),
        ({"tolerance": 1e-6}, "this test compares one with a reference, which"),
        ({"difference": 1e-9}, "one with a reference differs by 3e-07, and"),
        ({"test": "test_norm.py::test_gone"}, "lists test_norm.py::test_gone, which does not exist"),
    ],
    ids=str,
)
def test_a_false_entry_is_red(run, change, line):
    run(COMPARES.replace("3e-7", "3e-6"), recording=True)
    run.record.write_text(json.dumps([lines(run.record)[0] | change]))
    outcomes, printed = run(COMPARES.replace("3e-7", "3e-6"))
    assert "failed" in outcomes
    assert line.replace("3e-07", "3e-06") in printed
    assert "--record-comparisons" in printed


def test_recording_replaces_what_ran_and_keeps_what_did_not(run):
    entry = {"against": "a reference", "difference": 1e-6, "tolerance": 1e-5, "variants": ["one"]}
    tests = ("test_gone.py::test_a", "test_kept.py::test_a", "test_norm.py::test_gone", "test_norm.py::test_one")
    run.record.write_text(json.dumps([{"test": test} | entry for test in tests]))
    run(COMPARES, recording=True)
    # 1e-6 stays: it is a bound that another machine measured.
    assert lines(run.record) == [{"test": test} | entry for test in ("test_kept.py::test_a", "test_norm.py::test_one")]
    # Selected by name, a test tells nothing about the others of its file.
    run(COMPARES, recording=True, only="test_norm.py::test_other")
    assert [entry["test"] for entry in lines(run.record)] == ["test_kept.py::test_a", "test_norm.py::test_one"]


def test_pairs_are_the_fields_that_are_read_and_not_at_their_defaults():
    config = tiny(
        ENCODER | {"model.norm.epsilon": 0.1, "model.head.transform": True, "model.attention.num_kv_heads": 2}
    )
    context = {"model.architecture": "encoder", "objective.kind": "masked"}
    assert pairs(config, ("model.norm",)) == context | {"model.norm.epsilon": 0.1}
    assert pairs(config, ("model.head",)) == context | {"model.head.transform": True}
    assert pairs(config, ("model.attention",)) == context | {"model.attention.num_kv_heads": 2}
    local = tiny(
        {
            "model.layers.pattern": "a,b",
            "model.layers.kinds.a.attention.window": 3,
            "model.layers.kinds.b.residual": True,
        }
    )
    assert pairs(local.model, ("model",)) == {
        "model.layers.kinds.a.attention.window": 3, "model.layers.pattern": ["a", "b"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("difference", "bound"), [(0, 0), (1e-12, 1e-7), (1e-7, 1e-7), (1.01e-7, 2e-7), (9.5e-7, 1e-6), (0.2, 0.2)]
)
def test_differences_are_rounded_up(difference, bound):
    assert rounded_up(difference) == bound


def test_a_variant_is_compared_only_within_the_parts_that_were_read():
    def compares(name, parts, fields, **more):
        comparison = Comparison("tests/a.py::test_a", "a reference", 1e-6, 1e-5, parts, fields, **more)
        return comparisons_of(BY_NAME[name], [comparison]) != [NOTHING]

    norm = {"model.norm.kind": "rmsnorm"}
    assert compares("rmsnorm", ("model.norm",), norm)
    assert not compares("rmsnorm", ("model.attention",), norm)
    assert not compares("layernorm", ("model",), norm)
    assert compares("layernorm", ("model",), {})
    assert not compares("no-head-transform-bias", ("model",), {"model.head.transform": True})
    # Heads are shared only if there are more of them; a window has another mask in an encoder.
    heads = {"model.attention.num_kv_heads": 2}
    assert compares("grouped-query", ("model.attention",), heads | {"model.attention.num_heads": 8})
    assert not compares("grouped-query", ("model.attention",), heads | {"model.attention.num_heads": 2})
    window = {"model.attention.window": 3}
    assert compares("window", ("model.attention",), window)
    assert not compares("symmetric-window", ("model.attention",), window)
    # Kinds of layers that differ in their windows are no layers without positions.
    kinds = {"model.layers.pattern": ("a", "b"), "model.layers.kinds.a.attention.window": 3}
    assert compares("local-global", ("model",), kinds)
    assert not compares("nope-layers", ("model",), kinds | {"model.position.kind": "rope"})
    assert not compares("scalar-mix", ("model", "objective"), {"objective.kind": "classification"})
    assert compares("scalar-mix", (), {}, variants=("scalar-mix",))


def test_lines_count_the_cases_of_a_test():
    found = [
        Comparison(f"tests/a.py::test_a[{number}]", f"reference {number}", 10.0**-number, 1e-3, ("model.norm",), {})
        for number in (5, 6, 7, 8)
    ]
    assert comparisons_of(BY_NAME["layernorm"], found) == [
        "reference 5; reference 6; reference 7 and 1 others, `tests/a.py::test_a` (4 cases): largest difference 1e-05, "
        "tolerance 0.001"
    ]


def test_every_variant_of_the_package_is_compared():
    assert not [variant.name for variant in VARIANTS if comparisons_of(variant) == [NOTHING]]


def test_the_record_is_as_the_tests_write_it():
    assert rendered(read()) == FILE.read_text(encoding="utf-8")
    assert len(recorded()) == len(json.loads(FILE.read_text(encoding="utf-8")))
    assert all(comparison.difference <= comparison.tolerance for comparison in recorded())
