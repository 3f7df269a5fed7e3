"""`zoo run` of an experiment with prerequisite runs for its arms, with a stand-in for training."""

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from zoo import config
from zoo.lab.planning.plan import make_plan

fake = config.import_file(Path(__file__).parents[2] / "lab" / "fake_run.py", "helper")
FILE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[2] / "lab")!r})
import fake_run
from zoo import config
from zoo.lab.experiment import Prerequisite

def get_experiment(size="0.001"):
    rate = float(size)
    body = config.override(config.default(), {{"model.dim": 16, "model.num_layers": 1, "training.steps": fake_run.STEPS}})
    return fake_run.experiment(
        name="staged", base=body, contrasts=(), claim=None, seeds=(0, 1), allow=("tokens",),
        prerequisites={{"body": Prerequisite(config.override(body, {{"optimizer.learning_rate": rate}}), once=rate == 0.5)}},
        factors={{"start": {{"trained": {{"training.start_from": "prerequisite:body"}}, "fresh": {{"training.start_from": ""}}}}}})
"""


@pytest.fixture
def zoo(command_line):
    Path("staged.py").write_text(FILE)
    return partial(command_line, "run")


def planned():
    return make_plan(config.import_file(Path("staged.py"), "experiment file").get_experiment())


def prerequisite_folders():
    """{seed: folder name} of the prerequisite runs; a name ends in the identity of its run."""
    return {path.name.partition("seed")[2][0]: path.name for path in sorted(Path("runs/staged").glob("body-seed*"))}


def attempts():
    return {path.parent.name: len(path.read_text()) for path in Path("runs/staged").glob("*/attempts")}


def status(folder):
    return json.loads((Path("runs/staged") / folder / "status.json").read_text())


def test_prerequisites_are_trained_once_before_their_arms(zoo):
    code, out, err = zoo("staged.py", "--jobs", "2")
    assert (code, err) == (0, "")
    assert set(attempts().values()) == {1}
    assert len(attempts()) == 6
    for seed in "01":
        assert out.index(f"done     body seed {seed}") < out.index(f"start    start=trained seed {seed}")
        arm = json.loads((Path("runs/staged") / f"start=trained-seed{seed}" / "config.json").read_text())
        assert arm["training"]["start_from"] == f"runs/staged/{prerequisite_folders()[seed]}"
    page = Path("runs/staged/report.html").read_text()
    assert "Runs that others start from" in page
    assert "differ in fields other than the seed" not in page
    assert "2 arms, 2 seeds, 4 runs: 4 done" in page
    code, out, _ = zoo("staged.py")
    assert code == 0
    assert "6 of 6 runs were done already" in out
    assert set(attempts().values()) == {1}


def test_a_prerequisite_with_once_is_shared_by_all_seeds(zoo):
    assert zoo("staged.py:0.5")[0] == 0
    assert len([name for name in attempts() if name.startswith("body-")]) == 1
    assert len(attempts()) == 5


def test_a_dry_run_shows_prerequisites_and_writes_nothing(zoo):
    code, out, err = zoo("staged.py", "--dry-run")
    assert (code, err) == (0, "")
    assert "trained first" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("body ")]
    assert rows[0][-2:] == ["2", "new"]
    assert "dry run: 6 of 6 runs would be trained" in out
    assert not Path("runs").exists()


def test_an_unfinished_prerequisite_is_continued(zoo):
    first = planned().prerequisites[0].folder
    # After two interruptions the command leaves the run unfinished; the next command continues it
    # from its checkpoint.
    code, out, _ = zoo("staged.py", behaviours={first: ["preempt", "preempt", "finish"]})
    assert code == 1
    assert status("start=trained-seed0")["state"] == "failed"
    assert "it starts from body seed 0, which is unfinished" in status("start=trained-seed0")["reason"]
    assert status("start=trained-seed1")["state"] == "done"
    code, out, _ = zoo("staged.py", behaviours={first: ["preempt", "preempt", "finish"]})
    assert code == 0
    assert "start    body seed 0, continues from about step" in out
    assert attempts() == {first: 3} | {name: 1 for name in attempts() if name != first}
    assert status("start=trained-seed0")["state"] == "done"


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("fail_without_status", "it starts from body seed 1, which is failed: ValueError: boom"),
        ("diverge", "it starts from body seed 1, which is diverged: loss is not finite at step 20"),
    ],
)
def test_arms_of_a_failed_prerequisite_fail_with_its_reason(zoo, behaviour, reason):
    code, out, _ = zoo("staged.py", "--jobs", "2", behaviours={planned().prerequisites[1].folder: [behaviour]})
    assert code == 1
    assert f"failed: start=trained seed 1: {reason}" in out
    assert f"failed: start=trained seed 1: {reason} (see" not in out
    assert status("start=trained-seed1") == {"state": "failed", "step": 0, "steps": fake.STEPS, "reason": reason}
    # Runs that do not start from the failed run are trained.
    assert {name for name in attempts() if name.startswith("start")} == {
        "start=trained-seed0",
        "start=fresh-seed0",
        "start=fresh-seed1",
    }
    page = Path("runs/staged/report.html").read_text()
    assert "1 prerequisite run not done, so the runs that start from them cannot start" in page


def test_a_changed_prerequisite_is_refused_in_the_same_folder(zoo):
    zoo("staged.py")
    before = attempts()
    code, _, err = zoo("staged.py:0.002")
    assert code == 2
    assert "start=trained-seed0" in err
    assert "another run: training.start_from=runs/staged/body-seed0-" in err
    assert "start=fresh" not in err
    assert attempts() == before


def test_a_moved_sweep_is_not_trained_again(zoo):
    zoo("staged.py")
    Path("runs/staged").rename("elsewhere")
    code, out, _ = zoo("staged.py", "--output", str(Path("elsewhere").resolve()))
    assert code == 0
    assert "6 of 6 runs were done already" in out


def test_finished_arms_need_no_prerequisites(zoo):
    zoo("staged.py")
    for folder in prerequisite_folders().values():
        shutil.rmtree(Path("runs/staged") / folder)
    code, out, _ = zoo("staged.py")
    assert code == 0
    assert "6 of 6 runs were done already" in out
    assert not prerequisite_folders()
