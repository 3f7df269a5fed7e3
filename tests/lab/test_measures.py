"""Measures of trained runs: their values against plain computations, their requirements, and when
they are computed again.
"""

import dataclasses
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config, data
from zoo.analysis.activations import record_activations
from zoo.analysis.measured_run import FUNCTIONS, MeasuredRun, pairwise_divergence
from zoo.analysis.run_measures import main as run_measures
from zoo.analysis.run_measures import measure_run
from zoo.cli.main import main
from zoo.errors import ConfigError
from zoo.files import read_json, write_json
from zoo.lab import measures
from zoo.lab.experiment import Side, Tune, required_measures
from zoo.lab.measures import MEASURES, compute_missing_measures, find_measure, missing_measures, read_measured
from zoo.lab.metrics import higher_is_better, is_known_metric, unit_suffix
from zoo.lab.planning import arm_resolution, tuning
from zoo.lab.planning.plan import make_plan
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.report.result_tables import measured_table
from zoo.lab.results.run_records import load_run
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.verdict import judge
from zoo.training.trained_run import load_trained

fake = config.import_file(Path(__file__).with_name("fake_run.py"), "helper")
GROWTH, START = "measured/residual_growth", "measured/residual_growth@initial"


def run_with_dynamics(folder, *lines):
    (folder / "dynamics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return MeasuredRun(folder)


def test_every_measure_has_a_function_a_direction_and_a_unit():
    find_measure("longer_parity")  # Another test may have loaded this plug-in.
    assert set(FUNCTIONS) == set(MEASURES)
    assert is_known_metric(GROWTH)
    assert is_known_metric(START)
    assert not is_known_metric("measured/loss")
    assert not is_known_metric("eval/residual_growth")
    assert not is_known_metric("measured/spikes@initial")
    higher = {name for name, measure in MEASURES.items() if higher_is_better(f"measured/{name}") and not measure.task}
    assert higher == {"gradient_kept", "head_divergence", "longer_parity"}
    assert higher_is_better("measured/probe_recall")
    assert (unit_suffix("measured/spikes"), unit_suffix("measured/head_divergence@initial"), unit_suffix(GROWTH)) == (
        " spikes",
        " nats",
        "",
    )


def test_measures_of_the_dynamics(tmp_path):
    first = {
        "step": 1,
        "residual_rms": {"embedding": 0.1, "layer 0": 2.0, "layer 1": 3.0},
        "gradient_norm": {
            "embedding": 9.0,
            "layer 0 attention": 3.0,
            "layer 0 feed-forward": 4.0,
            "layer 0 norms": 7.0,
            "layer 1 attention": 6.0,
            "layer 1 feed-forward": 8.0,
            "head": 1.0,
        },
    }
    last = {
        "step": 9,
        "residual_rms": {"embedding": 0.1, "layer 0": 2.0, "layer 1": 8.0},
        "gradient_norm": first["gradient_norm"] | {"layer 0 attention": None},
    }
    jump = {"step": 10, "spikes": {"loss": 7.5}}
    subject = run_with_dynamics(tmp_path, first, last, jump, jump | {"step": 12})
    assert FUNCTIONS["residual_growth"](subject) == {"": 4.0, "@initial": 1.5}
    kept = FUNCTIONS["gradient_kept"](subject)
    assert kept["@initial"] == pytest.approx(0.5)
    assert math.isnan(kept[""])
    assert FUNCTIONS["spikes"](subject) == {"": 2.0}
    # Without a record of the start there is no value at @initial.
    assert FUNCTIONS["residual_growth"](run_with_dynamics(tmp_path, last)) == {"": 4.0}
    with pytest.raises(ConfigError, match="has no residual_rms"):
        FUNCTIONS["residual_growth"](run_with_dynamics(tmp_path, jump))


def test_divergence_of_heads():
    maps = np.random.default_rng(0).dirichlet(np.ones(5), (2, 3, 4))
    maps[:, :, 0] = np.eye(5)[0]
    filled = np.ones((2, 4), bool)
    filled[1, 3] = False

    def kl(p, q):
        return (p * np.log(p / q)).sum()

    found = []
    for one, other in itertools.combinations(range(3), 2):
        for row, query in itertools.product(range(2), range(1, 4)):
            if filled[row, query]:
                p, q = maps[row, one, query], maps[row, other, query]
                found.append((kl(p, (p + q) / 2) + kl(q, (p + q) / 2)) / 2)
    assert pairwise_divergence(maps, filled) == pytest.approx(np.mean(found))
    apart = np.eye(4)[None, [0, 1], None].repeat(2, 2)
    assert pairwise_divergence(apart, np.ones((1, 2), bool)) == pytest.approx(math.log(2))
    assert math.isnan(pairwise_divergence(maps[:, :1], filled))


@pytest.fixture(scope="module")
def learned_run(tmp_path_factory):
    return untrained(
        tmp_path_factory.mktemp("learned") / "run", small(model__position__kind="learned", data__sequence_length=16)
    )


def test_measures_of_a_checkpoint(learned_run):
    found = measure_run(learned_run, ["head_divergence"])
    assert 0 < found["measured/head_divergence@initial"] < found["measured/head_divergence"] < math.log(2)
    again = load_run(learned_run)
    assert {metric: again.final(metric) for metric in found} == found


def test_pretraining_loss_is_that_of_the_run_started_from(writer):
    first = writer.run("pre-trained", final=2.5)
    fine_tuned = writer.run("tuned", final=0.5, config={"training": {"start_from": str(first)}})
    assert measure_run(fine_tuned, ["pretraining_loss"]) == {"measured/pretraining_loss": 2.5}
    write_json(first / "status.json", read_json(first / "status.json") | {"state": "running"})
    with pytest.raises(ConfigError, match="has no eval/loss of its end"):
        measure_run(fine_tuned, ["pretraining_loss"])
    alone = writer.run("alone", config={"training": {"start_from": ""}})
    with pytest.raises(ConfigError, match="alone started from no other run"):
        measure_run(alone, ["pretraining_loss"])


def test_measures_expire_when_the_run_or_the_definition_changes(learned_run, monkeypatch):
    measure_run(learned_run, ["position_locality"])
    status = read_json(learned_run / "status.json")
    assert missing_measures(learned_run, ["position_locality"]) == []
    for change in ({"step": 3}, {"parameters_sha256": "other"}, {"state": "running"}):
        assert read_measured(learned_run, status | change) == {}
    monkeypatch.setitem(
        MEASURES, "position_locality", MEASURES["position_locality"]._replace(definition="something else")
    )
    assert missing_measures(learned_run, ["position_locality"]) == ["position_locality"]
    monkeypatch.undo()
    write_json(learned_run / "status.json", status | {"step": 3})
    assert missing_measures(learned_run, ["position_locality"]) == ["position_locality"]
    assert load_run(learned_run).final("measured/position_locality") is None
    write_json(learned_run / "status.json", status | {"state": "preempted"})
    assert missing_measures(learned_run, ["position_locality"]) == []
    with pytest.raises(ConfigError, match="preempted; only runs that are done can be measured"):
        measure_run(learned_run, ["position_locality"])
    write_json(learned_run / "status.json", status)


def test_measured_values_do_not_replace_logged_metrics(writer):
    folder = writer.run("one", final=2.5)
    find_measure("position_locality")
    # Values under other names and values that are not numbers are ignored.
    entry = {"from": measures.measure_provenance(folder, read_json(folder / "status.json"), "position_locality")}
    write_json(
        folder / "measured.json",
        {
            "position_locality": entry
            | {
                "values": {
                    "measured/position_locality": None,
                    "eval/loss": 0.0,
                    "measured/position_locality@initial": "x",
                }
            }
        },
    )
    first, second = load_run(folder), load_run(folder)
    assert math.isnan(first.final("measured/position_locality"))
    assert first.final("measured/position_locality@initial") is None
    assert second.final("eval/loss") == 2.5
    (folder / "measured.json").write_text("{")
    assert load_run(folder).final("measured/position_locality") is None


@pytest.fixture
def fake_cost(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)


def experiment_with_metric(metric=GROWTH, other=None, changes=None, **more):
    declared = fake.experiment(**more)
    contrast = dataclasses.replace(
        declared.contrasts[0],
        a=Side(declared.contrasts[0].a.arm, metric),
        b=Side(declared.contrasts[0].b.arm, other or metric),
    )
    base = config.override(declared.base, {"training.dynamics_every": 10} | (changes or {}))
    return dataclasses.replace(declared, contrasts=(contrast,), base=base)


@pytest.mark.usefixtures("fake_cost")
def test_plans_record_measures_and_tuning_omits_them():
    declared = experiment_with_metric(other=START, measures=("spikes",))
    assert make_plan(declared).record()["measures"] == ["residual_growth", "spikes"]
    assert "measures" not in make_plan(fake.experiment()).record()
    with_tuning = dataclasses.replace(declared, tune=Tune("optimizer.learning_rate", (0.1, 0.2)))
    trials = {arm: {0.1: (1000,)} for arm in tuning.arm_names(with_tuning)}
    assert required_measures(tuning.tuning_experiment(with_tuning, with_tuning.tune, trials)) == []


@pytest.mark.usefixtures("fake_cost")
@pytest.mark.parametrize(
    ("metric", "changes", "reason"),
    [
        (GROWTH, {"training.dynamics_every": 0}, "it is read from dynamics.jsonl; set training.dynamics_every"),
        (GROWTH, {"training.dynamics_every": 15}, "training.dynamics_every=15 does not divide training.steps=40"),
        ("measured/pretraining_loss", {}, "training.start_from is empty"),
        ("measured/head_divergence", {"model.attention.kind": "performer"}, "it needs model.attention.kind=softmax or"),
        (
            "measured/head_divergence",
            {"objective.kind": "prefix", "objective.prefix_length": 4},
            "it needs objective.kind=causal or .*, and this run has prefix",
        ),
        (
            "measured/head_divergence",
            {"data.isolate_documents": True},
            "it reads rows as one segment from position 0, and this run sets data.isolate_documents",
        ),
        (
            GROWTH,
            {"model.architecture": "encoder_decoder", "objective.kind": "prefix"},
            "it is defined for a single stack of layers",
        ),
    ],
)
def test_measures_that_a_run_cannot_have_are_refused_by_the_plan(metric, changes, reason):
    with pytest.raises(ConfigError, match=reason):
        make_plan(experiment_with_metric(metric, changes=changes))


@pytest.mark.parametrize(
    ("metric", "other", "message"),
    [
        ("measured/spikez", None, r'unknown metric .measured/spikez. \(did you mean "measured/spikes"\?\)'),
        (GROWTH, "eval/loss", "measured/residual_growth and eval/loss are different metrics"),
    ],
)
def test_unknown_and_mixed_metrics_are_refused(metric, other, message):
    with pytest.raises(ConfigError, match=message):
        experiment_with_metric(metric, other)


@pytest.mark.promise(reason="whole runs are trained and measured")
def test_measures_are_computed_once_and_judged(tmp_path, capsys):
    """Measures two runs, then the second one again after it has been retrained."""
    names = ("norm=pre", "norm=post")
    for name in names:
        folder = untrained(tmp_path / name, small(model__norm__placement=name[5:]))
        growth = 3.0 if name == names[0] else 1.0
        run_with_dynamics(
            folder,
            *({"step": step, "residual_rms": {"layer 0": 2.0, "layer 1": 2.0 * growth + step}} for step in (1, 2)),
        )
    sides = {key: {"arm": name, "metric": GROWTH} for key, name in zip("ab", names[::-1], strict=True)}
    write_json(
        tmp_path / "experiment.json",
        {
            "name": "norms",
            "question": "?",
            "size": "",
            "claim": None,
            "metric": "eval/loss",
            "seeds": [0],
            "warnings": [],
            "factors": {"norm": ["pre", "post"]},
            "measures": ["residual_growth", "head_divergence"],
            "arms": [
                {"name": name, "factors": {"norm": name[5:]}, "overrides": {}, "parameters": {}, "flops_per_token": 1}
                for name in names
            ],
            "runs": [{"folder": name, "arm": name, "seed": 0, "identity": name} for name in names],
            "contrasts": [{"name": "less", **sides, "rule": "superiority", "margin": 0, "expected": ""}],
        },
    )
    messages = []
    compute_missing_measures(tmp_path, messages.append)
    assert messages == ["measuring residual_growth, head_divergence of 2 runs ..."]
    sweep = load_sweep(tmp_path)
    pre, post = (sweep.run(name, 0) for name in names)
    assert (pre.final(START), pre.final(GROWTH), post.final(START), post.final(GROWTH)) == (3.5, 4.0, 1.5, 2.0)
    assert judge(sweep).outcomes[0].difference.mean == -2.0
    # The stored divergence is that of the model on the same rows.
    trained = load_trained(pre.folder)
    batch = next(data.load(trained.config).evaluation_batches(limit_batches=1))
    rows = np.asarray(trained.objective.inputs(batch))[:8]
    maps = record_activations(trained.config, trained.model, trained.params, trained.stats, rows)[""].probabilities[
        "attention"
    ]
    assert pre.final("measured/head_divergence") == pytest.approx(
        np.mean([pairwise_divergence(one, rows >= 0) for one in maps]), rel=1e-5
    )
    # The report and the archive contain the measures, and nothing is measured twice.
    assert "residual growth@initial" in measured_table(sweep)
    kept = archive_results(sweep, tmp_path / "results", allow_dirty=True)
    assert read_json(kept / "result.json")["arms"][0]["measured"][GROWTH]["mean"] == 4.0
    assert ",4,3.5" in (kept / "runs.csv").read_text()
    compute_missing_measures(tmp_path, messages.append)
    assert len(messages) == 1
    status = read_json(post.folder / "status.json")
    write_json(post.folder / "status.json", status | {"parameters_sha256": "of another training"})
    assert main(["report", str(tmp_path)]) == 0
    assert "measuring residual_growth, head_divergence of 1 runs" in capsys.readouterr().err
    assert load_sweep(tmp_path).run(names[1], 0).final(GROWTH) is not None


def test_measures_of_a_sweep_are_those_of_its_experiment(writer, capsys):
    sweep = writer.sweep()
    assert run_measures([str(sweep), "--measures", "residual_growth"]) == 2
    assert "--measures is for single runs" in capsys.readouterr().err


@pytest.mark.promise(reason="whole runs are trained and measured")
def test_a_failing_measure_does_not_stop_the_others(tmp_path, learned_run):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "zoo.analysis.run_measures",
            str(learned_run),
            "--measures",
            "residual_growth,position_locality",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "no residual_growth" in done.stderr
    assert "has no dynamics.jsonl" in done.stderr
    assert "measured/position_locality@initial" in done.stdout
