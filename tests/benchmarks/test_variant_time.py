"""`benchmarks/variant_time.py`: every variant resolves, and the page shows the table."""

import csv

import pytest

from zoo import config as configs
from zoo.config.kinds import OPTIMIZER_KINDS


@pytest.fixture
def timing(benchmark_module):
    return benchmark_module("variant_time")


def row(part, variant, ratio, **others):
    return {"part": part, "variant": variant, "ms": 30.0 * ratio, "ratio_low": ratio - 0.01, "ratio": ratio,
            "ratio_high": ratio + 0.01, "flops": 1.0} | others  # fmt: skip


SETUP = {
    "rounds": 7,
    "calls": 3,
    "smoke": 0,
    "device": "1 x cpu",
    "processor": "a processor",
    "jax": "1.2",
    "commit": "0a1",
}


def test_every_variant_resolves_and_differs_from_the_baseline(timing):
    default, changes = configs.default(), timing.changes_by_part()
    everything = [fields for part in changes.values() for fields in part.values()]
    assert all(fields for fields in everything)
    for fields in everything:
        configs.resolve(configs.override(default, {"model.vocab_size": 258, **fields}))
    assert set(OPTIMIZER_KINDS.by_name) - set(changes["optimizer"]) == {"adamw"}


def test_the_page_shows_the_table(timing, tmp_path):
    rows = [
        row(part, name, ratio) | SETUP
        for part, name, ratio in (
            ("optimizer", "baseline", 1.0),
            ("optimizer", "baseline again", 1.004),
            ("optimizer", "muon", 1.456),
        )
    ]
    timing.write_table(rows, tmp_path)
    timing.write_page(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "| optimizer | muon | 1.46 | 1.45 | 1.47 | 1.00 | 43.68 |" in text
    assert (
        "* optimizer: 7 turns of 3 steps on 1 x cpu (a processor), jax 1.2, at commit 0a1; the ratio of the baseline"
        in (" ".join(text.split()))
    )
    assert "between 0.99 and 1.01" in " ".join(text.split())
    assert all(str(SETUP[name]) in text for name in ("processor", "commit", "jax", "device"))
    assert "trial" not in text
    with open(tmp_path / "measurements.csv", newline="") as file:
        assert [line["commit"] for line in csv.DictReader(file)] == ["0a1"] * 3


def test_pages_repeat_the_figures_of_the_table(timing):
    with open(timing.FOLDER / timing.TABLE, newline="") as file:
        ratio = {line["variant"]: float(line["ratio"]) for line in csv.DictReader(file)}
    measured, states = (
        " ".join((timing.FOLDER.parents[2] / name).read_text().split()) for name in ("measured.md", "recurrences.md")
    )
    assert (
        "A step takes {muon:.2f} times as long with Muon as with AdamW, and {soap:.2f} times".format(**ratio)
        in measured
    )
    assert (
        f"{ratio['hyper-connections']:.1f} times as long with hyper-connections, "
        f"{ratio['manifold-hyper-connections']:.1f} times with those of mHC, and {ratio['depth-attention']:.1f} times with"
    ) in measured
    assert (
        f"from {ratio['linear-attention']:.1f} (linear attention) to {ratio['kimi-delta-attention']:.1f} times"
    ) in measured
    assert (
        f"{ratio['linear-attention']:.1f} times as long with linear attention, {ratio['mamba2']:.1f} with Mamba-2, "
        f"{ratio['gated-deltanet']:.1f} with Gated DeltaNet, {ratio['rwkv7']:.1f} with RWKV-7 and "
        f"{ratio['kimi-delta-attention']:.1f} with"
    ) in states


def test_smoke_runs_do_not_replace_the_table(timing, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["variant_time.py", "--smoke"])
    with pytest.raises(SystemExit):
        timing.main()
    assert "name another folder with --output" in capsys.readouterr().err


def test_other_parts_are_kept_and_the_page_tells_them_apart(timing, tmp_path):
    rows = [
        row(part, name, ratio) | SETUP | {"jax": version}
        for part, ratio, version in (("position", 1.03, "1.2"), ("optimizer", 1.1, "1.3"))
        for name in ("baseline", "baseline again")
    ]
    timing.write_table(rows, tmp_path)
    assert [line["part"] for line in timing.other_parts(["optimizer"], tmp_path)] == ["position", "position"]
    assert timing.other_parts(["position", "optimizer"], tmp_path) == []
    timing.write_page(tmp_path)
    text = " ".join((tmp_path / "README.md").read_text().split())
    assert (
        "position: 7 turns of 3 steps on 1 x cpu (a processor), jax 1.2, at commit 0a1; the ratio of the baseline"
        in text
    )
    assert "itself lies between 1.02 and 1.04 (quartiles). * optimizer: 7 turns" in text
    assert "jax 1.3, at commit 0a1; the ratio of the baseline to itself lies between 1.09 and 1.11" in text


@pytest.mark.slow(reason="a benchmark is run")
def test_a_part_is_measured(timing, benchmark_module):
    settings = benchmark_module("claims.turns").Settings(1, 1, 100.0, smoke=True)
    rows = timing.measure_part("head and objective", {"z-loss": {"objective.z_loss": 1e-4}}, settings)
    assert [line["variant"] for line in rows] == ["baseline", "baseline again", "z-loss"]
    assert rows[0]["ratio"] == 1
    assert all(line["ms"] > 0 for line in rows)
