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
from zoo.lab.planning.tuned_as import with_values_of
from zoo.lab.report.archive.experiment_page import experiment_page, read_table
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.results import tuning_misfit
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.tuning_grid import GridPoint, load_tuning_grid, tuning_curves, tuning_losses
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.tuning_curve import curve_record, fit_tuning_curve, parse_curve

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


def test_tuning_runs_are_a_sweep_of_the_trials_of_each_arm():
    declared = experiment()
    trials = {name: {0.001: (1000,)} for name in tuning.arm_names(declared)} | {PRE: {0.002: (1000, 1001)}}
    search = tuning.tuning_experiment(declared, declared.tune, trials)
    assert list(search.factors) == ["norm", "warm-up", "learning_rate"]
    assert search.seeds_of_arms == {f"{PRE},learning_rate=0.002": (1000, 1001), f"{POST},learning_rate=0.001": (1000,)}
    assert (search.seeds, search.contrasts, search.claim) == ((1000, 1001, 1002), (), None)
    name_in_use = experiment(factors={"learning_rate": levels("model.norm.placement", "pre", "post")}, contrasts=())
    assert tuning.tuning_factor(name_in_use, name_in_use.tune) == RATE


@pytest.mark.parametrize(
    ("base", "changes", "every"),
    [
        ({}, {}, 0),
        ({"training.eval_every": 10}, {}, 0),
        ({"training.translate_every": 10}, {}, "auto"),
        ({}, {"metric": f"steps_to/{PRE}"}, "auto"),
    ],
)
def test_only_the_last_step_of_a_tuning_run_is_evaluated_unless_more_is_asked_for(base, changes, every):
    declared = experiment()
    declared = replace(declared, base=config.override(declared.base, base), **changes)
    trials = {name: {0.001: (1000,)} for name in tuning.arm_names(declared)}
    assert tuning.tuning_experiment(declared, declared.tune, trials).base["training"]["eval_every"] == every
    assert declared.base["training"]["eval_every"] == base.get("training.eval_every", "auto")


@pytest.fixture
def zoo(command_line):
    """`zoo run` of the experiment with the two arms of `experiment`."""
    text = Path("norms.py").read_text()
    own = (
        'factors={"norm": levels("model.norm.placement", "pre", "post"), "warm-up": levels("schedule.warmup_steps", 0)}'
    )
    changed = text.replace("fake_run.experiment(size=size)", f"fake_run.experiment(size=size, {own})")
    assert changed != text
    Path("norms.py").write_text("from zoo.lab.experiment import levels\n" + changed)
    return partial(command_line, "run", "norms.py")


# {norm placement: (best rate, loss there, curvature)}.
CURVES = {"pre": (0.004, 2.0, 0.2), "post": (0.0021, 2.4, 0.1)}
FLAGS = ("--tune", f"{RATE}=0.01,0.001,3e-3", "--tune-seeds", "2", "--jobs", "4")
# Three values with one seed, and four with two, of which one is done.
RUNS_OF_AN_ARM = 3 + 4 * 2 - 1


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder in which the finished sweep of `tuned` is kept for other tests."""
    return tmp_path_factory.mktemp("tuned") / "runs"


@pytest.fixture
def tuned(zoo, kept):
    """`zoo run` in a folder with the finished sweep of `FLAGS` and `CURVES`."""
    if kept.exists():
        shutil.copytree(kept, "runs")
    else:
        assert zoo(*FLAGS, curves=CURVES)[0] == 0
        shutil.copytree("runs", kept)
    return partial(zoo, curves=CURVES)


def rate_of(folder):
    path = Path("runs/norms") / folder.replace(",", "+") / "config.json"
    return json.loads(path.read_text())["optimizer"]["learning_rate"]


def test_tuning_runs_that_never_ended_are_left_out_of_the_grid(tuned):
    """A tuning that was stopped, and continued with fewer seeds, has such runs."""
    whole = load_tuning_grid("runs/norms", load_sweep("runs/norms").tuning)
    last = json.loads(Path("runs/norms/tuning/experiment.json").read_text())["runs"][-1]
    assert last["seed"] == 1001
    shutil.rmtree(Path("runs/norms/tuning") / last["folder"])
    rates = load_tuning_grid("runs/norms", load_sweep("runs/norms").tuning)
    numbers = [sum(len(point.scores) for points in grid.arms.values() for point in points) for grid in (whole, rates)]
    assert numbers == [2 * RUNS_OF_AN_ARM, 2 * RUNS_OF_AN_ARM - 1]


def test_a_curve_that_does_not_describe_its_runs_is_a_caveat_of_the_sweep(tuned, monkeypatch):
    sweep = load_sweep("runs/norms")
    assert not any("does not describe" in line for line in sweep_caveats(sweep))
    monkeypatch.setattr(tuning_misfit, "misfit_p", lambda losses, distance_to_one: 0.001 if 0.00133 in losses else 0.5)
    (line,) = [line for line in sweep_caveats(sweep) if "does not describe" in line]
    assert line.startswith(f"the curve of {POST} over {RATE}")


def test_each_arm_trains_at_the_minimum_of_its_curve_on_seeds_not_used_for_tuning(zoo):
    code, out, err = zoo(*FLAGS, curves=CURVES, figures=True)
    assert (code, err) == (0, "")
    assert f"{2 * RUNS_OF_AN_ARM} runs, and more where the minimum lies outside" in out
    trials = load_sweep("runs/norms/tuning")
    assert sorted({run.seed for run in trials.runs}) == [1000, 1001]
    assert len(trials.runs) == 2 * RUNS_OF_AN_ARM
    main = load_sweep("runs/norms")
    assert {run.seed for run in main.runs} == {0, 1}
    for arm, placement in ((PRE, "pre"), (POST, "post")):
        assert rate_of(f"{arm}-seed0") == rate_of(f"{arm}-seed1") == pytest.approx(CURVES[placement][0], rel=0.05)
    record = json.loads(Path("runs/norms/experiment.json").read_text())["tuning"]
    assert record["chosen"][PRE] == rate_of(f"{PRE}-seed0")
    assert (record["field"], record["values"], record["seeds"]) == (RATE, list(GRID), [1000, 1001])
    curve = parse_curve(record["curves"][POST])
    assert curve.curvature == pytest.approx(0.1, rel=0.2)
    assert (curve.problem, len(curve.values), curve.df) == ("", 4, 4 * 2 - 2 - 2)
    rates = load_tuning_grid("runs/norms", main.tuning)
    assert rates.curves[POST] == curve
    assert main.claim["id"] == "X1"
    page = Path("runs/norms/report.html").read_text()
    assert f"eval/loss by {RATE}, over the tuning seeds (1000, 1001)" in page
    assert f"eval/loss at the same {RATE}, minus that of norm=pre" in page
    assert f"Each arm was trained at the {RATE} at which a curve through the results of its own" in page
    assert "Curves of eval/loss over ln value" in page
    assert Path("runs/norms/report/loss_by_rate.png").stat().st_size > 1000
    code, out, _ = zoo(*FLAGS)
    assert code == 0
    assert "4 of 4 runs were done already" in out
    assert len(load_sweep("runs/norms/tuning").runs) == 2 * RUNS_OF_AN_ARM


@pytest.mark.usefixtures("tuned")
def test_regrets_and_the_noise_of_tuning_runs_enter_the_interval():
    sweep = load_sweep("runs/norms")
    (outcome,) = judge(sweep).outcomes
    curves = [tuning_curves(sweep.tuning, arm)[0] for arm in (PRE, POST)]
    (_, _), (noise, df), *_ = outcome.difference.errors
    assert noise**2 == pytest.approx(
        sum(curve.sd**2 for curve in curves) / 2 + sum(curve.mean_square_regret for curve in curves)
    )
    assert df == pytest.approx(sum(curve.df for curve in curves), rel=0.01)
    assert "learning_rate fitted in each arm" in judge(sweep).paragraph


def test_an_arm_without_a_minimum_is_reported_and_decides_nothing(zoo):
    code, out, _ = zoo(*FLAGS, curves=CURVES | {"post": (0.003, 2.4, -0.2)})
    assert code == 0
    assert f"{POST}: learning_rate" in out
    assert "but it is not tuned" in out
    sweep = load_sweep("runs/norms")
    verdict = judge(sweep)
    assert verdict.claims == {"X1": "not tuned"}
    assert "norm=post is not tuned (optimizer.learning_rate:" in verdict.paragraph
    assert any(line.startswith(f"{RATE} is not tuned in {POST}") for line in sweep.warnings)


def test_rates_at_which_runs_diverge_are_never_chosen(zoo):
    behaviours = {f"{PRE},learning_rate=0.01-seed1000".replace(",", "+"): ["diverge"]}
    code, _, _ = zoo(*FLAGS, curves=CURVES, behaviours=behaviours)
    assert code == 0
    assert rate_of(f"{PRE}-seed0") == pytest.approx(0.004, rel=0.1)


@pytest.mark.usefixtures("tuned")
def test_losses_of_tuning_runs_follow_the_direction_of_the_metric():
    declared, sweep = experiment(), load_sweep("runs/norms/tuning")
    found = tuning_losses(declared, declared.tune, sweep)
    assert set(found) == set(tuning.arm_names(declared))
    assert found[PRE][0.003][1000] == sweep.run(f"{PRE},learning_rate=0.003", 1000).final("eval/loss")
    higher = replace(declared, metric="eval/accuracy", contrasts=())
    assert tuning_losses(higher, declared.tune, sweep)[PRE][0.003][1000] == -found[PRE][0.003][1000]


def test_nothing_is_chosen_while_tuning_runs_are_missing(zoo):
    behaviours = {f"{POST},learning_rate=0.003-seed1001".replace(",", "+"): ["fail"]}
    code, out, _ = zoo(*FLAGS, curves=CURVES, behaviours=behaviours)
    assert code == 1
    assert "the disk is full" in out
    assert not Path("runs/norms/experiment.json").exists()
    declared = experiment()
    with pytest.raises(ConfigError, match=r"learning_rate=0\.003-seed1001: failed, without eval/loss"):
        tuning_losses(declared, declared.tune, load_sweep("runs/norms/tuning"))
    assert zoo(*FLAGS, curves=CURVES)[0] == 0
    assert rate_of(f"{POST}-seed0") == pytest.approx(0.0021, rel=0.05)
    # The search goes on where it was: nothing of it was changed when results were known.
    assert not [line for line in load_sweep("runs/norms/tuning").warnings if "after runs had finished" in line]


def test_several_numbers_are_tuned_one_after_another(zoo):
    more = ("--tune", "optimizer.beta2=0.9,0.98,0.995")
    code, out, err = zoo(*FLAGS, *more, curves=CURVES)
    assert (code, err) == (0, "")
    assert "tuning optimizer.beta2: in each of 2 arms" in out
    record = json.loads(Path("runs/norms/experiment.json").read_text())["tuning"]
    (further,) = record["further"]
    assert (further["field"], further["folder"], further["distance_to_one"]) == (
        "optimizer.beta2",
        "tuning-beta2",
        True,
    )
    # The losses do not depend on it: the arms are reported as not tuned.
    assert judge(load_sweep("runs/norms")).claims == {"X1": "not tuned"}
    name = f"{PRE},beta2=0.98-seed1000".replace(",", "+")
    config_of = json.loads((Path("runs/norms/tuning-beta2") / name / "config.json").read_text())
    assert config_of["optimizer"]["learning_rate"] == record["chosen"][PRE]
    # The archive has the runs of both, and its page both settings.
    folder = archive_results(load_sweep("runs/norms"), Path("results"), allow_dirty=True)
    result = json.loads((folder / "result.json").read_text())
    assert result["tables"][-2:] == ["tuning.csv", "tuning-beta2.csv"]
    rows = read_table(folder / "tuning-beta2.csv")
    (scored,) = result["tuning"]["further"]
    assert len(rows) == sum(len(by_seed) for by_value in scored["scores"].values() for by_seed in by_value.values())
    assert {row["arm"] for row in rows} == set(scored["scores"])
    page = experiment_page(folder, result)
    assert "learning_rate is fitted in each arm" in page
    assert "; then optimizer.beta2 is" in page
    assert "| optimizer.learning_rate | optimizer.beta2 |" in page


def test_dry_runs_and_bad_flags_write_nothing(zoo):
    code, out, err = zoo(*FLAGS, "--dry-run")
    assert (code, err) == (0, "")
    assert "6 of 6 runs would be trained" in out
    assert "4 of 4 runs would be trained" in out
    # The arms have no rate yet, and the same optimizer.
    assert out.count("adamw with the best") == 1
    assert not Path("runs").exists()
    for flags, text in [
        (("--tune", "learning_rate"), "expected FIELD=VALUE"),
        (("--tune-seeds", "2"), "needs --tune"),
        (("--tune", f"{RATE}=1e-3,fast"), "not all numbers"),
        (("--tune", f"{RATE}=1e-3,2e-3", "--tune-seeds", "0,7"), "seed 0"),
        (("--tune", f"{RATE}=1e-3,2e-3", "--tune-seeds", "7,", "--until-decided"), "seed 7"),
        (("--tune", f"{RATE}=1e-3,-1"), "must be above 0"),
        (("--tune", f"{RATE}=1e-3,2e-3", "--tune", f"{RATE}=1e-3,3e-3"), "given more than once"),
    ]:
        code, _, err = zoo(*flags)
        assert code == 2, flags
        assert text in err
        assert not Path("runs").exists()


def test_fresh_moves_the_tuning_runs_too(tuned):
    code, out, _ = tuned(*FLAGS, "--fresh", curves=CURVES | {"pre": (0.002, 2.0, 0.2)})
    assert code == 0
    assert "the earlier sweep is in runs/norms.1" in out
    assert rate_of(f"{PRE}-seed0") == pytest.approx(0.002, rel=0.05)
    assert rate_of(f"../norms.1/{PRE}-seed0") == pytest.approx(0.004, rel=0.05)


def test_tuning_is_refused_after_runs_without_tuning(zoo):
    assert zoo(losses={})[0] == 0
    for more in ((), ("--dry-run",)):
        code, out, err = zoo(*FLAGS, *more)
        assert (code, out) == (2, "")
        assert "and 3 more in runs/norms were trained without tuning" in err
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
    assert zoo(*FLAGS, curves=CURVES)[0] == 0
    # The bracket, and the values around the best of it.
    assert len(launched) == 2


def test_a_single_arm_can_be_tuned(command_line):
    Path("small.py").write_text("from zoo import config\ndef get_config():\n    return config.default()\n")
    Path("text.txt").write_text("Of a small text the floors are counted fast.\n" * 2000)
    words = (
        "run",
        "--config=small.py",
        "--config.data.source=text:text.txt",
        "--name",
        "alone",
        "--seeds",
        "2",
        *FLAGS,
    )
    assert command_line(*words, curves=CURVES)[0] == 0
    rates = load_tuning_grid("runs/alone", load_sweep("runs/alone").tuning)
    assert list(rates.arms) == list(rates.chosen) == list(rates.curves) == [""]
    assert rates.chosen[""] == pytest.approx(0.004, rel=0.05)
    assert main(["results", "runs/alone", "--output", "kept"]) == 0
    assert f"| {rates.chosen['']:g} |" in Path("kept/alone/README.md").read_text()


def test_runs_at_other_learning_rates_are_a_conflict(tuned):
    code, _, err = tuned("--jobs", "4")
    assert code == 2
    assert f"{RATE}={rate_of(f'{PRE}-seed0')} there and 0.001 here" in err


def test_a_tuned_value_applies_to_one_arm(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    plan = make_plan(replace(experiment(), tuned_values={POST: {RATE: 0.003}}))
    assert {arm.name: arm.config.optimizer.learning_rate for arm in plan.arms} == {PRE: 0.001, POST: 0.003}
    assert {arm.name: arm.overrides.get(RATE) for arm in plan.arms} == {PRE: None, POST: 0.003}
    assert plan.runs[0].folder == f"{PRE}-seed0".replace(",", "+")


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
        (lambda record: record.update(commits=["b" * 40 + "-dirty"]), "uncommitted changes"),
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
    assert reason in other.untaken_curves
    (warning,) = (line for line in tuning.tuned_elsewhere_warnings(other))
    assert ("are not taken over, because" in warning) == bool(reason)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--seeds", "0,7"), "--tuned-as: seed 7 tuned norms, so that the final runs need other ones"),
        (("--until-decided", "--max-seeds", "9"), "--until-decided: seed 7 of later looks tuned the arms"),
    ],
)
def test_seeds_that_tuned_an_archived_result_are_refused_for_its_final_runs(tuned, tmp_path, flags, text):
    result = archived(tmp_path)
    record = json.loads((result / "result.json").read_text())
    record["tuning"]["seeds"] = [7, 1001]
    (result / "result.json").write_text(json.dumps(record))
    code, _, err = tuned(*FLAGS[:2], "--tuned-as", str(result), *flags, "--output", "runs/other", curves=CURVES)
    assert (code, text in err) == (2, True)
    assert not Path("runs/other").exists()
