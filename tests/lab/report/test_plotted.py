"""The numbers that the page's charts are drawn from: thinned, packed, and small enough for big
sweeps.
"""

import base64
import json

import numpy as np
import pytest

import zoo
from zoo.lab.report.heatmaps import MAX_COLUMNS, heatmaps, pack_heatmap, read_spikes, read_statistics
from zoo.lab.report.html_page import render
from zoo.lab.report.plot_data import plot_data, training_flops
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.run_records import load_run
from zoo.lab.results.samples import MAX_ROWS, read_samples
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge


def decode(entry):
    """Decodes the values of a heat map as heat.js does."""
    codes = np.frombuffer(base64.b64decode(entry["codes"]), "<u2").reshape(len(entry["rows"]), len(entry["steps"]))
    values = entry["low"] + codes / 65534 * (entry["high"] - entry["low"])
    return np.where(codes == 65535, np.nan, 10**values if entry["log"] else values)


def write_dynamics(folder, rows):
    (folder / "dynamics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_training_flops_count_the_tokens_of_rows(writer):
    steps, shape = np.array([0, 1, 30]), {"batch_size": 4, "sequence_length": 32}

    def flops_of(name, **run):
        found = training_flops(load_run(writer.run(name, **run)), steps)
        return found if found is None else found.tolist()

    assert flops_of("a", config={"data": shape}) == [0, 4 * 32 * 7.4e6, 30 * 4 * 32 * 7.4e6]
    # One row in each of the first 20 updates, and two in the next five.
    staged = shape | {"batch_stages": [1, 20, 2, 5]}
    assert flops_of("staged", config={"data": staged}) == [0, 32 * 7.4e6, (20 + 2 * 5 + 4 * 5) * 32 * 7.4e6]
    # Without these fields the tokens that the run has counted are used: 1,024 per update.
    assert flops_of("b") == [0, 1024 * 7.4e6, 30 * 1024 * 7.4e6]
    assert flops_of("c", meta={"flops_per_token": "many"}) is None
    assert flops_of("d", stop=0) is None


@pytest.mark.parametrize("log", [False, True])
def test_packed_heatmaps_decode_to_their_values(log):
    values = np.array([[1.0, 2.0, np.nan], [30.0, 4.5, 1000.0 if log else 7.0]])
    entry = pack_heatmap(["a", "b"], [1, 2, 5], values, 100)
    assert entry["log"] is log
    np.testing.assert_allclose(decode(entry), values, rtol=3e-4)
    assert np.isnan(decode(pack_heatmap(["a"], [1], np.array([[np.nan]]), 100))).all()
    np.testing.assert_allclose(decode(pack_heatmap(["a"], [1, 2], np.array([[3.0, 3.0]]), 100)), 3.0)
    np.testing.assert_allclose(
        decode(pack_heatmap(["a"], [1, 2], np.array([[-3.0, 900.0]]), 100)), [[-3, 900]], atol=0.02
    )


def test_many_steps_are_thinned_and_the_last_stays():
    entry = pack_heatmap(["a"], list(range(1001)), np.arange(1001.0)[None], 100)
    assert len(entry["steps"]) <= MAX_COLUMNS + 1
    assert (entry["steps"][0], entry["steps"][-1]) == (0, 1000)
    np.testing.assert_allclose(decode(entry)[0], entry["steps"], atol=0.02)


def test_malformed_dynamics_are_skipped(writer):
    folder = writer.run("a")
    write_dynamics(
        folder,
        [
            {"step": 1, "residual_rms": {"embedding": 0.5, "layer 0": None}},
            {"step": 3, "residual_rms": {"layer 0": 2}, "odd": 3},
            {"step": 3, "dead_units": {"layer 0": True}},
            {"step": "x"},
            [1],
            {"step": 5, "spikes": {"loss": 7.126}},
            {"step": 4, "spikes": {"loss": None}},
        ],
    )
    with open(folder / "dynamics.jsonl", "a") as file:
        file.write('{"step": 9, "resid')
    found = read_statistics(folder)
    assert list(found) == ["residual_rms"]
    labels, steps, values = found["residual_rms"]
    assert (labels, steps) == (["embedding", "layer 0"], [1, 3])
    np.testing.assert_array_equal(values, [[0.5, np.nan], [np.nan, 2]])
    assert read_spikes(folder) == [[4, None], [5, 7.13]]
    maps = heatmaps(load_comparison([folder]))
    assert maps["statistics"] == ["residual_rms"]
    assert maps["runs"][0]["label"] == "a, seed 0"
    assert heatmaps(load_comparison([writer.run("b")])) is None


def test_pages_of_big_sweeps_stay_small(writer):
    arms = [{"name": f"dim={arm}", "factors": {"dim": str(arm)}} for arm in range(8)]
    runs = [{"folder": f"{arm}-{seed}", "arm": f"dim={arm}", "seed": seed} for arm in range(8) for seed in range(25)]
    folder = writer.sweep(folder="big", arms=arms, runs=runs, seeds=list(range(25)), contrasts=[])
    row = {f"layer {layer} head {head}": 1.5 for layer in range(12) for head in range(12)}
    dynamics = "".join(json.dumps({"step": step, "attention_entropy": row}) + "\n" for step in range(6))
    source = writer.run("source", steps=300)
    metrics = (source / "metrics.jsonl").read_text()
    for number, run in enumerate(runs):
        path = folder / run["folder"]
        path.mkdir(exist_ok=True)
        (path / "status.json").write_text(
            json.dumps({"state": ("done", "failed", "running")[number % 3], "step": 300, "steps": 300})
        )
        (path / "meta.json").write_text((source / "meta.json").read_text())
        (path / "metrics.jsonl").write_text(metrics)
        (path / "dynamics.jsonl").write_text(dynamics)
    sweep = load_sweep(folder)
    assert len(sweep.runs) == 200
    assert len(render(sweep, judge(sweep), folder)) < 6e6
    curve = plot_data(sweep)["arms"][0]["runs"][0]["curves"][1]["value"]
    assert 60 <= len(curve) <= 150


def test_samples(writer):
    folder = writer.run("a")
    assert read_samples(folder) is None
    (folder / "translations.jsonl").write_text('{"source": "a", "translation": "b"}\n')
    assert read_samples(folder).rows == [{"source": "a", "translation": "b"}]
    lines = ["nothing", "[1]", *(json.dumps({"text": "x" * 5000, "score": 1.5}) for _ in range(20))]
    (folder / "samples.jsonl").write_text("\n".join(lines))
    found = read_samples(folder)
    assert (found.file, len(found.rows), found.rows[0]["score"]) == ("samples.jsonl", MAX_ROWS - 2, "1.5")
    assert len(found.rows[0]["text"]) == 1501


def test_figures_are_axes(writer):
    found = zoo.figures(writer.sweep(lengths=True), baseline="norm=post+warm-up=0")
    assert list(found) == ["loss_by_step", "loss_by_length", "differences"]
    assert found["loss_by_step"].get_xlabel() == "updates"
    assert found["differences"].get_xlabel().endswith("from norm=post+warm-up=0")
    assert [label.get_text() for label in found["differences"].get_yticklabels()] == [
        "norm=pre+warm-up=0",
        "norm=pre+warm-up=100",
        "norm=post+warm-up=100",
    ]
