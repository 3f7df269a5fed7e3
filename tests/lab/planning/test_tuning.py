"""Tuning a hyperparameter of each arm: which grids are valid, which value is chosen, and the sweeps
that `zoo run --tune` trains.
"""

import json
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.tuned_norms import CURVES, FLAGS, GRID, POST, PRE, RATE, RUNS_OF_AN_ARM, experiment, fake, rate_of
from zoo import config
from zoo.cli.main import main
from zoo.errors import ConfigError
from zoo.lab.experiment import Tune, levels
from zoo.lab.launch.process_pool import ProcessPool
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning import arm_resolution, tuning
from zoo.lab.planning.plan import make_plan
from zoo.lab.report.archive.experiment_page import experiment_page, read_table
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.results import tuning_misfit
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.tuning_grid import load_tuning_grid, tuning_curves, tuning_losses
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.tuning_curve import parse_curve


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
    apart = [curves[0].effects[seed] - curves[1].effects[seed] for seed in sweep.tuning["seeds"]]
    of_effects, of_runs = np.var(apart, ddof=1), [(1 - curve.effects_error) * curve.sd**2 for curve in curves]
    known = of_effects + sum(of_runs)
    assert noise**2 == pytest.approx(known / 2 + sum(3 * curve.mean_regret**2 for curve in curves))
    parts = [of_effects**2 / 2, *(part**2 / curve.df for part, curve in zip(of_runs, curves, strict=True))]
    assert df == pytest.approx(known**2 / sum(parts), rel=0.01)
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
