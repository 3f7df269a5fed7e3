"""Values and fitted curves from the record of another sweep (`zoo run --tuned-as`)."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tuned_norms import CURVES, FLAGS, GRID, POST, PRE, RATE, experiment, fake, rate_of
from zoo.errors import ConfigError
from zoo.lab.experiment import Tune
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.tuned_as import with_values_of
from zoo.lab.planning.tuning import tuned_elsewhere_warnings
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.tuning_grid import GridPoint, load_tuning_grid
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.tuning_curve import curve_record, fit_tuning_curve


@pytest.mark.parametrize("record", ["experiment.json", "result.json"])
def test_values_tuned_at_another_size_are_mapped_by_their_place_in_the_bracket(tmp_path, monkeypatch, record):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    other = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": {PRE: 0.4, POST: math.sqrt(0.02)}}
    (tmp_path / record).write_text(json.dumps({"name": "norms", "tuning": other}))
    plan = make_plan(with_values_of(experiment(), tmp_path))
    assert {arm.name: arm.config.optimizer.learning_rate for arm in plan.arms} == {PRE: 0.01, POST: 0.00173}
    expected = {"tuned_at": "norms", "chosen": {PRE: 0.01, POST: 0.00173}}
    assert plan.record()["tuning"] | expected == plan.record()["tuning"]
    assert any("was not tuned in this sweep" in warning and "norms" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("tune", "bracket", "value", "expected"),
    [
        (Tune("optimizer.beta2", (0.9, 0.99, 0.999), distance_to_one=True), [0.99, 0.999, 0.9999], 0.9996, 0.996),
        (Tune("optimizer.beta2", (0.9, 0.99, 0.999), distance_to_one=True), [0.99, 0.999, 0.9999], 0.99999, 0.9999),
        (Tune("model.ffn.hidden_dim", (16, 32, 64)), [64, 128, 256], 91, 23),
    ],
    ids=["a distance to 1", "beyond the bracket", "a whole number"],
)
def test_mapped_values_are_those_that_a_search_could_try(tmp_path, tune, bracket, value, expected):
    tuned = {"field": tune.field, "values": bracket, "chosen": {PRE: value, POST: bracket[0]}}
    (tmp_path / "result.json").write_text(json.dumps({"name": "norms", "tuning": tuned}))
    found = with_values_of(experiment(tune=tune), tmp_path)
    assert found.tuned_values == {PRE: {tune.field: expected}, POST: {tune.field: tune.values[0]}}
    assert type(found.tuned_values[PRE][tune.field]) is type(expected)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"values": [0.1, 0.2]}, "has 2 values and that of .* 3"),
        ({"chosen": {PRE: 0.4}}, f"no tuned value for {POST}; its arms are {PRE}"),
        ({"chosen": {PRE: 0.4, POST: -1}}, rf"edited or is damaged: -1 of {POST} is not a number above 0"),
        ({"field": "optimizer.beta2"}, f"no tuned {RATE}; it tuned optimizer.beta2"),
        ({"chosen": {}}, f"no tuned {RATE}"),
        ({"values": 3}, "not readable as a sweep"),
        ({"chosen": 3}, "not readable as a sweep"),
        ({"values": [0.1, None, 0.4]}, "not readable as a sweep"),
        (None, "neither a sweep nor an archived result"),
    ],
)
def test_unusable_tuning_of_another_size_is_refused(tmp_path, changes, text):
    other = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": {PRE: 0.4, POST: 0.1}}
    if changes is not None:
        (tmp_path / "result.json").write_text(json.dumps({"name": "norms", "tuning": {**other, **changes}}))
    with pytest.raises(ConfigError, match=text):
        with_values_of(experiment(), tmp_path)


def test_a_value_far_beyond_its_bracket_has_no_place_in_another(tmp_path):
    tuned = {"field": "optimizer.beta2", "values": [0.9, 0.99, 0.999], "chosen": {PRE: 0.75, POST: 0.9}}
    (tmp_path / "result.json").write_text(json.dumps({"name": "norms", "tuning": tuned}))
    tune = Tune("optimizer.beta2", (0.5, 0.9, 0.99), distance_to_one=True)
    with pytest.raises(ConfigError, match=rf"0\.75 of {PRE} lies so far beyond its bracket"):
        with_values_of(experiment(tune=tune), tmp_path)


def test_a_record_without_a_name_is_refused(tmp_path):
    tuned = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": {PRE: 0.4, POST: 0.1}}
    (tmp_path / "result.json").write_text(json.dumps({"tuning": tuned}))
    with pytest.raises(ConfigError, match="not readable as a sweep"):
        with_values_of(experiment(), tmp_path)


def test_values_tuned_at_another_size_need_no_tuning_runs(zoo, tmp_path):
    chosen = {f"norm={norm},warm-up={steps}": rate for norm, rate in (("pre", 0.4), ("post", 0.1)) for steps in (0, 10)}
    other = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": chosen}
    (tmp_path / "result.json").write_text(json.dumps({"name": "norms", "tuning": other}))
    flags = ("--seeds", "2", "--tune", f"{RATE}=0.001,0.003,0.01", "--tuned-as", str(tmp_path))
    assert zoo(*flags, "--tune-seeds", "2")[0] == 2
    code, _, err = zoo(*flags, curves=CURVES)
    assert code == 0, err
    assert not Path("runs/norms/tuning").exists()
    assert (rate_of(f"{PRE}-seed0"), rate_of(f"{POST}-seed0")) == (0.01, 0.001)
    assert "--tuned-as" in json.loads(Path("runs/norms/experiment.json").read_text())["command"]


def archived(folder, **meta):
    """Archives the sweep in runs/norms, whose runs have their identities as if they were trained, and
    further entries of meta.json; returns the folder of its result.
    """
    for run in json.loads(Path("runs/norms/experiment.json").read_text())["runs"]:
        written = {"identity": run["identity"], "commit": "a" * 40, **meta}
        Path("runs/norms", run["folder"], "meta.json").write_text(json.dumps(written))
    return archive_results(load_sweep("runs/norms"), folder, allow_dirty=True)


def test_an_archived_result_of_the_same_arms_gives_its_curves_and_no_tuning_is_repeated(tuned, tmp_path):
    before, verdict = load_tuning_grid("runs/norms", load_sweep("runs/norms").tuning), judge(load_sweep("runs/norms"))
    result = archived(tmp_path, data={"fingerprint": "one"})
    shutil.rmtree("runs")
    code, _, err = tuned(*FLAGS[:2], "--tuned-as", str(result), curves=CURVES, figures=True)
    assert (code, err) == (0, "")
    assert not Path("runs/norms/tuning").exists()
    sweep = load_sweep("runs/norms")
    assert judge(sweep).outcomes[0].difference == verdict.outcomes[0].difference
    assert judge(sweep).claims == verdict.claims
    assert any(
        "the tuning runs are those of an earlier sweep" in line and "aaaaaaaa)" in line for line in sweep.warnings
    )
    grid = load_tuning_grid("runs/norms", sweep.tuning)
    assert (grid.chosen, grid.curves) == (before.chosen, before.curves)
    assert grid.arms[POST][0].scores == pytest.approx(before.arms[POST][0].scores)
    table, record = (result / "tuning.csv").read_text(), json.loads((result / "result.json").read_text())
    # Archived over the first result by other code: the tuning keeps its commits, and the verdict is
    # kept too.
    assert archived(tmp_path, commit="b" * 40, data={"fingerprint": "two"}) == result
    again = json.loads((result / "result.json").read_text())
    assert (result / "tuning.csv").read_text() == table
    assert (again["tuned"], again["commits"], again["tuning"]["commits"]) == ("fitted", ["b" * 40], ["a" * 40])
    assert again["verdicts_before"][-1]["paragraph"] == record["paragraph"]
    assert "the tuning runs, which were taken over, read other data" in again["warnings"]
    third = with_values_of(experiment(tune=Tune(RATE, GRID, (1000, 1001)), seeds=(0, 1, 2)), result)
    assert third.archived_tuning["commits"] == ["a" * 40]


def test_a_single_arm_takes_its_curve_over_from_an_archived_result(zoo, tmp_path):
    one = {"factors": {}, "contrasts": (), "tune": Tune(RATE, GRID, (1000, 1001)), "seeds": (0, 1)}
    curve = fit_tuning_curve({rate: {1000: (math.log(rate) + 6) ** 2 + rate} for rate in (0.001, 0.002, 0.004, 0.008)})
    chosen = {"norms": 0.0024}
    plan = make_plan(replace(experiment(**one), tuned_values={"norms": {RATE: 0.0024}}))
    scores = {"": {"0.001": {"1000": 2.5, "1001": None}, "0.002": {"1000": 2.0}}}
    entry = {"field": RATE, "factor": "learning_rate", "values": list(GRID), "seeds": [1000, 1001], "chosen": chosen}
    record = {
        "name": "norms",
        "metric": "eval/loss",
        "seeds": [0, 1],
        "arms": [{"configs": [run.identity for run in plan.runs]}],
        "tuning": entry | {"curves": {"norms": curve_record(curve)}, "scores": scores},
    }
    (tmp_path / "result.json").write_text(json.dumps(record))
    taken = with_values_of(experiment(**one), tmp_path)
    assert taken.tuning_curves == {"norms": {RATE: curve}}
    grid = load_tuning_grid(tmp_path, make_plan(taken).record()["tuning"])
    assert grid.arms == {"": [GridPoint(0.001, {1000: 2.5, 1001: math.inf}), GridPoint(0.002, {1000: 2.0})]}
    assert (grid.chosen, grid.curves) == ({"": 0.0024}, {"": curve})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda record: record["arms"][0]["configs"].pop(), "its runs have other configs"),
        (
            lambda record: record.update(metric="eval/accuracy"),
            "they are of eval/accuracy, and the metric is eval/loss",
        ),
        (lambda record: record.update(uncommitted=True), "uncommitted changes"),
        (lambda record: record["tuning"].update(further=[{"field": "optimizer.beta2"}]), "several numbers"),
        (lambda record: record["tuning"].pop("scores"), ""),
        (lambda record: record["tuning"]["curves"].pop(POST), "arms lack a curve"),
        (lambda record: record["tuning"]["curves"][POST].update(values=None), "damaged"),
        (lambda record: record["tuning"]["scores"].update({POST: {"fast": {"1000": 2.0}}}), "damaged"),
        (lambda record: record["tuning"]["scores"].update({POST: 3}), "damaged"),
        (lambda record: record.update(arms=3), "damaged"),
        (lambda record: record.update(seeds="two"), "damaged"),
        (lambda record: record.update(commits=3), "damaged"),
    ],
)
def test_curves_of_another_archived_result_are_not_taken_over_and_the_plan_says_why(tuned, tmp_path, change, reason):
    result = archived(tmp_path)
    record = json.loads((result / "result.json").read_text())
    same = experiment(tune=Tune(RATE, GRID, (1000, 1001)), seeds=(0, 1))
    assert with_values_of(same, result).archived_tuning
    change(record)
    (result / "result.json").write_text(json.dumps(record))
    other = with_values_of(same, result)
    assert (other.archived_tuning, other.tuned_at) == ({}, "norms")
    assert reason in other.curves_not_taken
    (warning,) = tuned_elsewhere_warnings(other)
    assert ("are not taken over, because" in warning) == bool(reason)


@pytest.mark.parametrize("flags", [("--seeds", "0,7"), ("--until-decided", "--max-seeds", "9")])
def test_seeds_that_tuned_an_archived_result_are_refused_for_its_final_runs(tuned, tmp_path, flags):
    result = archived(tmp_path)
    record = json.loads((result / "result.json").read_text())
    record["tuning"]["seeds"] = [7, 1001]
    (result / "result.json").write_text(json.dumps(record))
    code, _, err = tuned(*FLAGS[:2], "--tuned-as", str(result), *flags, "--output", "runs/other", curves=CURVES)
    assert (code, "tune: seed 7 is also a seed of the experiment" in err) == (2, True)
    assert not Path("runs/other").exists()
