"""`python -m publication performance`: the page shows exactly the measurements."""

import re
from pathlib import Path

import pytest

from publication import performance_page
from publication.__main__ import main

ROOT = Path(__file__).parents[2]
DEVICE = {"platform": "gpu", "kind": "NVIDIA H200", "count": 1}


def line(stage, cell, **fields):
    ms = {"mean": 100.0, "p10": 99.0, "p50": 100.0, "p90": 101.0}
    return {"stage": stage, "cell": cell, "tiny": False, "ms": ms, "tokens": 64, "device": DEVICE,
            "versions": {"jax": "0.11.2"}, "commit": "0123456789abcdef"} | fields  # fmt: skip


def test_the_page_without_results_has_no_numbers():
    for results in ([], [line("probe", "a") | {"tiny": True}], [line("probe", "a", error="a typo")]):
        text = performance_page.section(results)
        assert text.startswith("No GPU has been measured yet.")
        assert not re.search(r"\d", text)


def test_tables_have_only_measured_columns():
    fast = line("step124", "fast", mfu=0.375, tokens_per_second=400000.0, peak_bytes=3 * 2**30, compile_s=30.0)
    cached = line("step124", "slow", mfu=0.3, tokens_per_second=1234.0, compile_s=1.0, from_cache=True)
    rows = performance_page.section([fast, cached]).splitlines()
    assert "Measured on 1 x NVIDIA H200 with jax 0.11.2, at 0123456789ab" in rows[0]
    table = [row for row in rows if row.startswith("|")]
    assert table == [
        "|  | ms | p10 to p90 | tokens per second | MFU | peak GiB | compiled in s |",
        "|---|---|---|---|---|---|---|",
        "| fast | 100 | 99 to 101 | 400,000 | 37.5% | 3.0 | 30 |",
        "| slow | 100 | 99 to 101 | 1,234 | 30.0% |  |  |",
    ]


def test_calls_of_fused_attention_and_days_are_shown():
    calls = {"__cudnn$fmhaSoftmax": 24, "__cudnn$fmhaSoftmaxBackward": 12}
    fused = line("step124", "fused", fused_calls=calls, temporary_bytes=2**29, peak_bytes=0, finished=86400.0)
    other = line("step124", "other", fused_calls={}, finished=3 * 86400.0)
    rows = performance_page.section([fused, other]).splitlines()
    assert "on 1970-01-02 and 1970-01-04 by" in rows[0]
    assert [row for row in rows if row.startswith("| ")] == [
        "|  | ms | p10 to p90 | temporaries GiB | cuDNN calls |",
        "| fused | 100 | 99 to 101 | 0.5 | 24 + 12 |",
        "| other | 100 | 99 to 101 |  | none |",
    ]


def test_missing_measurements_are_listed_with_reasons():
    results = [
        line("step124", "good"),
        line("step124", "large", out_of_memory=True),
        line("step124", "bad", error="ValueError in /home/somebody"),
        line("torch", "64 rows", skipped="PyTorch is not installed"),
    ]
    text = performance_page.section(results)
    assert "* large: out of memory\n* bad: failed\n" in text
    assert "* 64 rows: not measured, PyTorch is not installed" in text
    assert "somebody" not in text
    assert text.count("| good |") == 1


def test_variants_are_compared_with_the_plain_model():
    slow = line("variants", "ALiBi", ms={"mean": 150.0, "p10": 1.0, "p50": 1.0, "p90": 1.0})
    text = performance_page.section([line("variants", "plain"), slow, line("variants", "other rows", tokens=128)])
    assert [row.split("|")[2].strip() for row in text.splitlines() if row.startswith("| ")] == [
        "time / plain",
        "1.00",
        "1.50",
        "",
    ]


def test_a_page_shows_one_kind_of_device():
    other = line("probe", "b", device=DEVICE | {"kind": "NVIDIA L4"})
    with pytest.raises(ValueError, match="one kind of accelerator"):
        performance_page.section([line("probe", "a"), other])
    with pytest.raises(ValueError, match="one kind of accelerator"):
        performance_page.section([line("probe", "a", device={"platform": "cpu", "kind": "cpu", "count": 1})])


def test_only_the_text_between_the_markers_changes(tmp_path, capsys):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{performance_page.BEGIN}\nold\n{performance_page.END}\nafter\n")
    performance_page.lines.append(tmp_path, line("probe", "a", error="first"))
    performance_page.lines.append(tmp_path, line("probe", "a"))
    for _ in range(2):
        assert main(["performance", str(tmp_path), "--page", str(path)]) == 0
        text = path.read_text()
        assert text.startswith(f"before\n{performance_page.BEGIN}\nMeasured on")
        assert text.endswith(f"\n{performance_page.END}\nafter\n")
        assert "old" not in text
        assert text.count("| a |") == 1
    path.write_text("no markers")
    assert main(["performance", str(tmp_path), "--page", str(path)]) == 2
    assert "once each" in capsys.readouterr().err
    assert main(["performance", str(tmp_path / "none")]) == 2
    assert "none has no lines.jsonl" in capsys.readouterr().err
    assert path.read_text() == "no markers"


def test_the_committed_page_has_the_markers():
    text = (ROOT / "docs" / "performance.md").read_text()
    assert performance_page.written(text, "x").count("\nx\n") == 1
