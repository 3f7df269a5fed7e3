"""`benchmarks/measure_claims.py`: verdicts follow from the rows, and pages show the measurements."""

import functools
import json

import pytest

from publication.claims_table import read_claims, read_measured


@pytest.fixture
def measuring(benchmark_module):
    return benchmark_module("measure_claims")


def timed(ms, ratio, **others):
    """Returns a row whose quartiles are 1 % away from the median."""
    return {"ms": ms, "ms_low": 0.99 * ms, "ms_high": 1.01 * ms} | {
        "ratio": ratio, "ratio_low": 0.99 * ratio, "ratio_high": 1.01 * ratio, **others
    }  # fmt: skip


def contexts(cached, again):
    return [
        timed(ms, 1, context=context, by=name, growth=growth)
        for name, growths in (("cache", (1, cached)), ("recomputation", (1, again)))
        for context, growth, ms in zip((64, 512), growths, (1, 1), strict=True)
    ]


def heads(grouped, size):
    return [
        timed(ratio, ratio, batch=1, context=64, heads=name, **{"kv heads": count, "cache bytes": held})
        for name, count, ratio, held in (
            ("multi-head", 8, 1, 800), ("grouped-query", 2, grouped, size), ("multi-query", 1, 0.5, 100)
        )
    ]  # fmt: skip


def windows(growth, ratio):
    return [
        timed(1, of, length=4096, window=name, MiB=size, **{"time growth": times, "memory growth": times})
        for name, of, size, times in (("full", 1, 8, 4), ("128", ratio, 1, growth))
    ]


def biases(first, last):
    return [
        timed(ratio, ratio, length=length, positions=name)
        for length, t5 in ((128, first), (2048, last))
        for name, ratio in (("RoPE", 1), ("ALiBi", 1.1), ("T5's bias", t5))
    ]


def forms(ratio, size):
    return [
        timed(1, of, length=128, form=name, MiB=held)
        for name, of, held in (("elementwise", 1, 1), ("sparse product", ratio, size), ("dense product", 9, 9))
    ]


def recurrences(growth):
    return [
        timed(1, 1, length=1024, model=model, growth=factor)
        for model, factor in (("recurrent", growth), ("encoder", 2), ("decoder", 2.5))
    ]


def norms(step):
    return [
        timed(1, ratio, what=what, width=64, norm="RMSNorm")
        for what, ratio in (("norm alone", 0.5), ("training step", step))
    ]


CASES = {
    "cache_contexts": (contexts(1.2, 6), contexts(1.6, 6), contexts(1.2, 3.9)),
    "cache_heads": (heads(0.8, 200), heads(1.0, 200), heads(0.8, 201), heads(0.8, 0)),
    "windows": (windows(2, 0.5), windows(3, 0.5), windows(2, 1.0)),
    "position_bias": (biases(1.2, 1.6), biases(1.6, 1.6), biases(0.8, 1.05)),
    "rope_forms": (forms(2, 2), forms(1.005, 2), forms(2, 1)),
    "recurrence": (recurrences(2.6), recurrences(2.4)),
    "norm_time": (norms(0.9), norms(1.2)),
}


def test_every_rule_can_be_supported_and_rejected(measuring):
    assert set(CASES) == set(measuring.CLAIMS)
    for name, (holds, *fails) in CASES.items():
        judge = measuring.CLAIMS[name].judge
        assert judge(holds).verdict == "supported", name
        assert {judge(rows).verdict for rows in fails} == {"not supported"}, name
    assert measuring.CLAIMS["norm_time"].judge(norms(0.995)).verdict == "undecided"


def test_turns_on_a_busy_machine_are_discarded(benchmark_module, monkeypatch):
    turns = benchmark_module("claims.turns")
    busy = iter(range(1000))
    monkeypatch.setattr(turns, "busy_seconds", lambda: next(busy))
    with pytest.raises(SystemExit, match="0 of 2 turns were clean"):
        turns.take_turns({"work": lambda: None}, turns.Settings(rounds=2, calls=1))


def test_the_order_of_functions_rotates(benchmark_module):
    turns, called = benchmark_module("claims.turns"), []
    functions = {name: functools.partial(called.append, name) for name in "abc"}
    times = turns.take_turns(functions, turns.Settings(rounds=3, calls=1, foreign=1e9))
    assert "".join(called) == "abc" + "abc" + "bca" + "cab"
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3, "c": 3}


def test_pages_can_be_rewritten_from_their_measurements(measuring, tmp_path, benchmark_module):
    settings = benchmark_module("claims.turns").Settings(1, 1, 100.0, smoke=True)
    saving, claim = benchmark_module("claims.measured_claim"), measuring.CLAIMS["rope_forms"]
    folder = tmp_path / "measured" / claim.name
    saving.save_measurements(claim, claim.measure(settings), settings, folder)
    text = (folder / "README.md").read_text()
    assert claim.rule.split(",")[0] in text
    assert "![" in text
    (found,) = read_measured(tmp_path)["P12"]
    assert found["name"] == "rope_forms"
    record = json.loads((folder / "measured.json").read_text())
    assert found["verdict"] == record["verdict"]
    assert record["verdict"] in ("supported", "not supported")
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    saving.rewrite_page(claim, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first
    (folder / "measured.json").write_text(json.dumps(record | {"rule": "another"}))
    with pytest.raises(SystemExit, match="another rule"):
        saving.rewrite_page(claim, folder)


def test_a_claim_about_accelerators_is_not_testable_on_a_cpu(measuring, benchmark_module):
    saving, claim = benchmark_module("claims.measured_claim"), measuring.CLAIMS["recurrence"]
    rows = saving.read_rows(measuring.FOLDER / "recurrence")
    assert saving.not_testable(claim, rows, "1 x cpu")["verdict"] == "not testable"
    assert saving.not_testable(claim, rows, "1 x NVIDIA H100 80GB HBM3") == {}
    assert saving.not_testable(measuring.CLAIMS["rope_forms"], rows, "1 x cpu") == {}


def test_committed_pages_match_their_tables(measuring, benchmark_module):
    saving, ids = (
        benchmark_module("claims.measured_claim"),
        {claim["id"] for claim in read_claims(measuring.FOLDER.parent).claims},
    )
    for name, claim in measuring.CLAIMS.items():
        folder = measuring.FOLDER / name
        record, rows = json.loads((folder / "measured.json").read_text()), saving.read_rows(folder)
        assert claim.id in ids
        assert record["rule"] == claim.rule
        by_rule = claim.judge(rows).verdict
        assert record["verdict"] == ("not testable" if claim.accelerator else by_rule)
        assert [one["verdict"] for one in record.get("verdicts_before", ())] == [by_rule] * claim.accelerator
        assert record["effect"] == claim.judge(rows).effect
        assert (folder / "README.md").read_text() == saving.page(claim, record, rows)
