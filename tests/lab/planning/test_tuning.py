"""Tuning a hyperparameter of each arm: which grids are valid, which value is chosen, and the sweeps
that `zoo run --tune` trains.
"""

import json
import math
import shutil
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from zoo import config
from zoo.cli.main import main
from zoo.errors import ConfigError
from zoo.lab.experiment import Tune, levels
from zoo.lab.launch.process_pool import ProcessPool
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning import arm_resolution, tuning
from zoo.lab.planning.plan import make_plan
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.tuning_grid import choose_best, load_tuning_grid, tuning_choices

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
RATE = "optimizer.learning_rate"
GRID = (0.001, 0.003, 0.01)
PRE, POST = "norm=pre,warm-up=0", "norm=post,warm-up=0"


def experiment(**changes):
    return fake.experiment(
        **{
            "factors": {
                "norm": levels("model.norm.placement", "pre", "post"),
                "warm-up": levels("schedule.warmup_steps", 0),
            },
            "tune": Tune(RATE, GRID),
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("tune", "text"),
    [
        (Tune("optimizer.learning_rat", GRID), "unknown field optimizer.learning_rat (did you mean"),
        (Tune("model.norm.kind", GRID), "is not a number"),
        (Tune("seed", (1, 2)), "is not a number"),
        (Tune("schedule.warmup_steps", (1, 2)), 'varied by the factor "warm-up"'),
        (Tune(RATE, (0.1,)), "at least two different values"),
        (Tune(RATE, (0.1, 0.1)), "at least two different values"),
        (Tune(RATE, ("fast", 0.1)), "not all numbers"),
        (Tune(RATE, GRID, ()), "at least one seed"),
        (Tune(RATE, GRID, (-1,)), "seed -1"),
        (Tune(RATE, GRID, (5, 1)), "seed 1 is also a seed of the experiment"),
    ],
)
def test_bad_grids_are_refused(tune, text):
    with pytest.raises(ConfigError, match=text.replace("(", r"\(")):
        experiment(tune=tune)


def test_tuning_trains_every_arm_at_every_value_on_other_seeds():
    search = tuning.tuning_experiment(experiment())
    assert list(search.factors) == ["norm", "warm-up", "learning_rate"]
    assert [level[RATE] for level in search.factors["learning_rate"].values()] == list(GRID)
    assert (search.seeds, search.contrasts, search.claim) == ((1000,), (), None)
    name_in_use = experiment(factors={"learning_rate": levels("model.norm.placement", "pre", "post")}, contrasts=())
    assert list(tuning.tuning_experiment(name_in_use).factors) == ["learning_rate", RATE]


@pytest.fixture
def zoo(command_line):
    return partial(command_line, "run", "norms.py")


# Pre-norm is best at 0.01. Post-norm is best at 0.003, where its two seeds disagree but their mean
# is lowest.
LOSSES = {
    f"norm={norm},warm-up={warmup},learning_rate={rate}-seed{seed}": loss
    for norm, by_rate in {
        "pre": {0.001: (2.5, 2.5), 0.003: (2.2, 2.2), 0.01: (2.0, 2.0)},
        "post": {0.001: (2.6, 2.6), 0.003: (2.0, 2.8), 0.01: (9.0, 9.0)},
    }.items()
    for rate, pair in by_rate.items()
    for seed, loss in zip((1000, 1001), pair, strict=True)
    for warmup in (0, 10)
}
FLAGS = ("--tune", f"{RATE}=0.01,0.001,3e-3", "--tune-seeds", "2", "--jobs", "4")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder in which the finished sweep of `tuned` is kept for other tests."""
    return tmp_path_factory.mktemp("tuned") / "runs"


@pytest.fixture
def tuned(zoo, kept):
    """`zoo run` in a folder with the finished sweep of `FLAGS` and `LOSSES`."""
    if kept.exists():
        shutil.copytree(kept, "runs")
    else:
        assert zoo(*FLAGS, losses=LOSSES)[0] == 0
        shutil.copytree("runs", kept)
    return zoo


def rate_of(folder):
    return json.loads((Path("runs/norms") / folder / "config.json").read_text())["optimizer"]["learning_rate"]


def test_each_arm_trains_at_its_best_rate_on_seeds_not_used_for_tuning(zoo):
    code, out, err = zoo(*FLAGS, losses=LOSSES, figures=True)
    assert (code, err) == (0, "")
    trials = load_sweep("runs/norms/tuning")
    assert sorted({run.seed for run in trials.runs}) == [1000, 1001]
    assert len(trials.runs) == 4 * 3 * 2
    main = load_sweep("runs/norms")
    assert {run.seed for run in main.runs} == {0, 1}
    assert [rate_of(f"{arm}-seed{seed}") for arm in (PRE, POST) for seed in (0, 1)] == [0.01, 0.01, 0.003, 0.003]
    record = json.loads(Path("runs/norms/experiment.json").read_text())["tuning"]
    assert record["chosen"] == {PRE: 0.01, "norm=pre,warm-up=10": 0.01, POST: 0.003, "norm=post,warm-up=10": 0.003}
    assert (record["field"], record["values"], record["seeds"]) == (RATE, list(GRID), [1000, 1001])
    # Post-norm's best rate is inside the grid, pre-norm's at its edge.
    edge = next(line for line in main.warnings if "at its edge" in line)
    assert f"0.01 in {PRE}" in edge
    assert POST not in edge
    rates = load_tuning_grid("runs/norms", main.tuning)
    assert [one.mean for one in rates.arms[POST]] == [2.6, pytest.approx(2.4), 9.0]
    assert rates.differences_at_same_value(PRE)[POST][0.003].differences == {
        1000: pytest.approx(-0.2),
        1001: pytest.approx(0.6),
    }
    page = Path("runs/norms/report.html").read_text()
    assert f"eval/loss by {RATE}, over the tuning seeds (1000, 1001)" in page
    assert f"eval/loss at the same {RATE}, minus that of norm=pre, warm-up=0" in page
    assert Path("runs/norms/report/loss_by_rate.png").stat().st_size > 1000
    code, out, _ = zoo(*FLAGS)
    assert code == 0
    assert "24 of 24 runs were done already" in out
    assert "8 of 8 runs were done already" in out


def test_values_of_diverged_runs_are_never_chosen(zoo):
    losses = {name: 3.0 for name in LOSSES}
    losses |= {f"{PRE},learning_rate={rate}-seed1000": loss for rate, loss in zip(GRID, (1.5, 1.0, 1.6), strict=True)}
    code, _, _ = zoo(
        "--tune",
        f"{RATE}=0.001,0.003,0.01",
        "--jobs",
        "4",
        losses=losses,
        behaviours={f"{PRE},learning_rate=0.003-seed1000": ["diverge"]},
    )
    assert code == 0
    assert rate_of(f"{PRE}-seed0") == 0.001


@pytest.mark.usefixtures("tuned")
def test_the_best_value_follows_the_direction_of_the_metric():
    found = tuning_choices(experiment(), load_sweep("runs/norms/tuning"))
    assert found[PRE].value == 0.01
    assert [one.mean for one in found[PRE].tried] == [2.5, 2.2, 2.0]
    assert choose_best(list(found[PRE].tried), True).value == 0.001


def test_no_value_is_chosen_while_tuning_runs_are_missing(zoo):
    code, out, _ = zoo(*FLAGS, losses=LOSSES, behaviours={f"{POST},learning_rate=0.01-seed1001": ["fail"]})
    assert code == 1
    assert "the disk is full" in out
    assert not Path("runs/norms/experiment.json").exists()
    with pytest.raises(ConfigError, match=r"learning_rate=0\.01-seed1001: failed, without eval/loss"):
        tuning_choices(experiment(), load_sweep("runs/norms/tuning"))
    assert zoo(*FLAGS, losses=LOSSES)[0] == 0
    assert rate_of(f"{POST}-seed0") == 0.003


def test_dry_runs_and_bad_flags_write_nothing(zoo):
    code, out, err = zoo(*FLAGS, "--dry-run")
    assert (code, err) == (0, "")
    assert "24 of 24 runs would be trained" in out
    assert "8 of 8 runs would be trained" in out
    # The arms have no rate yet.
    assert out.count("adamw with the best") == 4
    assert not Path("runs").exists()
    for flags, text in [
        (("--tune", "learning_rate"), "expected FIELD=VALUE"),
        (("--tune-seeds", "2"), "needs --tune"),
        (("--tune", f"{RATE}=1e-3,fast"), "not all numbers"),
        (("--tune", f"{RATE}=1e-3,2e-3", "--tune-seeds", "0,7"), "seed 0"),
        (("--tune", f"{RATE}=1e-3,2e-3", "--tune-seeds", "7,", "--until-decided"), "seed 7"),
        (("--tune", f"{RATE}=1e-3,-1"), RATE),
    ]:
        code, _, err = zoo(*flags)
        assert code == 2, flags
        assert text in err
        assert not Path("runs").exists()


def test_fresh_moves_the_tuning_runs_too(tuned):
    code, out, _ = tuned(*FLAGS, "--fresh", losses={**LOSSES, f"{PRE},learning_rate=0.003-seed1000": 0.0})
    assert code == 0
    assert "the earlier sweep is in runs/norms.1" in out
    assert (rate_of(f"{PRE}-seed0"), rate_of(f"../norms.1/{PRE}-seed0")) == (0.003, 0.01)


def test_tuning_is_refused_after_runs_without_tuning(zoo):
    assert zoo(losses={})[0] == 0
    for more in ((), ("--dry-run",)):
        code, out, err = zoo(*FLAGS, *more)
        assert (code, out) == (2, "")
        assert "and 7 more in runs/norms were trained without tuning" in err
        assert "use another --output, or --fresh" in err
    assert not Path("runs/norms/tuning").exists()


def test_the_folder_is_checked_before_tuning(zoo):
    Path("runs/norms").mkdir(parents=True)
    Path("runs/norms/status.json").write_text("{}")
    for more in ((), ("--fresh",)):
        code, _, err = zoo(*FLAGS, *more)
        assert code == 2
        assert "is the folder of a single run" in err
    assert [path.name for path in Path("runs/norms").iterdir()] == ["status.json"]
    Path("runs/norms/status.json").unlink()
    # The folder is locked by another `zoo run`, or by trials that have outlived theirs.
    for held in ("runs/norms", "runs/norms/tuning"):
        with closing(SweepLock(Path(held))):
            code, _, err = zoo(*FLAGS, "--fresh")
        assert code == 2
        assert f"{held} is in use" in err
    assert not Path("runs/norms.1").exists()
    assert not list(Path("runs/norms").rglob("status.json"))


def test_the_sweep_is_locked_during_tuning(zoo, monkeypatch):
    run, launched = ProcessPool.run, []

    def run_with_check(self):
        if self._folder.name == "tuning":
            with pytest.raises(ConfigError, match="runs/norms is in use"):
                SweepLock(self._folder.parent)
            launched.append(self._folder)
        return run(self)

    monkeypatch.setattr(ProcessPool, "run", run_with_check)
    assert zoo(*FLAGS, losses=LOSSES)[0] == 0
    assert len(launched) == 1


def test_a_single_arm_can_be_tuned(command_line):
    Path("small.py").write_text("from zoo import config\ndef get_config():\n    return config.default()\n")
    assert (
        command_line(
            "run",
            "--config=small.py",
            "--name",
            "alone",
            "--seeds",
            "2",
            *FLAGS,
            losses={
                f"learning_rate={rate}-seed{seed}": loss
                for rate, loss in zip(GRID, (2.0, 1.0, 3.0), strict=True)
                for seed in (1000, 1001)
            },
        )[0]
        == 0
    )
    rates = load_tuning_grid("runs/alone", load_sweep("runs/alone").tuning)
    assert (list(rates.arms), rates.chosen) == ([""], {"": 0.003})
    assert main(["results", "runs/alone", "--output", "kept"]) == 0
    assert "| 0.003 |" in Path("kept/alone/README.md").read_text()


def test_runs_at_other_learning_rates_are_a_conflict(tuned):
    code, _, err = tuned("--jobs", "4")
    assert code == 2
    assert f"{RATE}=0.01 there and 0.001 here" in err
    assert math.isclose(rate_of(f"{PRE}-seed0"), 0.01)


def test_a_tuned_value_applies_to_one_arm(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    plan = make_plan(replace(experiment(), tuned_values={POST: {RATE: 0.003}}))
    assert {arm.name: arm.config.optimizer.learning_rate for arm in plan.arms} == {PRE: 0.001, POST: 0.003}
    assert {arm.name: arm.overrides.get(RATE) for arm in plan.arms} == {PRE: None, POST: 0.003}
    assert plan.runs[0].folder == f"{PRE}-seed0"


@pytest.mark.parametrize("record", ["experiment.json", "result.json"])
def test_values_tuned_at_another_size_are_mapped_by_grid_position(tmp_path, monkeypatch, record):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    other = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": {PRE: 0.4, POST: 0.1}}
    (tmp_path / record).write_text(json.dumps({"name": "norms", "tuning": other}))
    plan = make_plan(tuning.with_values_of(experiment(), tmp_path))
    assert {arm.name: arm.config.optimizer.learning_rate for arm in plan.arms} == {PRE: 0.01, POST: 0.001}
    assert (
        plan.record()["tuning"] | {"tuned_at": "norms", "chosen": {PRE: 0.01, POST: 0.001}} == plan.record()["tuning"]
    )
    assert any("was not tuned at this size" in warning and "norms" in warning for warning in plan.warnings)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"values": [0.1, 0.2]}, "has 2 values and that of .* 3"),
        ({"chosen": {PRE: 0.4}}, f"no tuned value for {POST}; its arms are {PRE}"),
        ({"chosen": {PRE: 0.4, POST: 0.3}}, rf"edited or is damaged: 0.3 of {POST} is not in its grid \[0.1"),
        ({"field": "optimizer.beta2"}, f"no tuned {RATE}; it tuned optimizer.beta2"),
        ({"chosen": {}}, f"no tuned {RATE}"),
        ({"values": 3}, "not readable as a sweep"),
        ({"values": [0.1, None, 0.4]}, "not readable as a sweep"),
        (None, "neither a sweep nor an archived result"),
    ],
)
def test_unusable_tuning_of_another_size_is_refused(tmp_path, changes, text):
    other = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": {PRE: 0.4, POST: 0.1}}
    if changes is not None:
        (tmp_path / "result.json").write_text(json.dumps({"name": "norms", "tuning": {**other, **changes}}))
    with pytest.raises(ConfigError, match=text):
        tuning.with_values_of(experiment(), tmp_path)


def test_values_tuned_at_another_size_need_no_tuning_runs(zoo, tmp_path):
    chosen = {f"norm={norm},warm-up={steps}": rate for norm, rate in (("pre", 0.4), ("post", 0.1)) for steps in (0, 10)}
    other = {"field": RATE, "values": [0.1, 0.2, 0.4], "chosen": chosen}
    (tmp_path / "result.json").write_text(json.dumps({"name": "norms", "tuning": other}))
    flags = ("--seeds", "2", "--tune", f"{RATE}=0.001,0.003,0.01", "--tuned-as", str(tmp_path))
    assert zoo(*flags, "--tune-seeds", "2")[0] == 2
    code, _, err = zoo(*flags, losses=LOSSES)
    assert code == 0, err
    assert not Path("runs/norms/tuning").exists()
    assert (rate_of(f"{PRE}-seed0"), rate_of(f"{POST}-seed0")) == (0.01, 0.001)
    assert "--tuned-as" in json.loads(Path("runs/norms/experiment.json").read_text())["command"]
