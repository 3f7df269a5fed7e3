"""A sweep takes finished runs of other sweeps where they are equal to planned ones."""

import json
import shutil
from pathlib import Path

import pytest

from zoo.lab.declarations import TAKEN_FROM

SHARED = [f"norm={norm}+warm-up=10-seed{seed}" for norm in ("pre", "post") for seed in (0, 1)]
OTHER = """
import sys
sys.path.insert(0, {here!r})
import fake_run
from zoo.lab.experiment import levels

def get_experiment():
    return fake_run.experiment(
        name="others", contrasts=(), claim=None, factors={{
            "placement": levels("model.norm.placement", "pre", "post"),
            "warm": levels("schedule.warmup_steps", 10, 20),
        }})
"""
FROM = ("run", "others.py", "--runs-from", "runs/norms")


@pytest.fixture
def zoo(command_line):
    """`command_line`, with norms.py run and others.py, of whose eight runs four are equal, to run."""
    Path("others.py").write_text(OTHER.format(here=str(Path(__file__).parents[1])))
    assert command_line("run", "norms.py")[0] == 0
    return command_line


def attempts(sweep="others"):
    return {path.parent.name for path in Path("runs", sweep).rglob("attempts")}


def others(name):
    return Path("runs/others") / name.replace("norm", "placement").replace("warm-up", "warm")


def taken():
    found = {
        path.parent: json.loads(path.read_text()).get(TAKEN_FROM) for path in Path("runs/others").rglob("meta.json")
    }
    return {path.name: origin for path, origin in found.items() if origin}


def test_equal_runs_are_taken_and_the_others_trained(zoo):
    code, out, err = zoo(*FROM, "--dry-run")
    assert (code, err) == (0, "")
    assert "4 of 8 runs would be taken from runs/norms, where equal ones have ended" in out
    assert not Path("runs/others").exists()

    code, out, err = zoo(*FROM)
    assert (code, err) == (0, "")
    assert "4 of 8 runs taken from runs/norms" in out
    assert out.count("start    ") == 4
    assert taken() == {others(name).name: f"norms/{name}" for name in SHARED}
    caveat = "caveat: 4 runs taken from other sweeps (norms (4)), where the results could be seen before"
    assert caveat in out
    for name in SHARED:
        source = Path("runs/norms") / name
        assert (others(name) / "metrics.jsonl").read_text() == (source / "metrics.jsonl").read_text()
        assert (others(name) / "attempts").read_text() == "x"
        assert not (source / "meta.json").exists()

    code, out, _ = zoo(*FROM)
    assert code == 0
    assert "8 of 8 runs were done already" in out
    assert "no run that has ended" not in out
    # A run keeps the sweep that it was trained for.
    shutil.copytree("runs/others", "runs/middle")
    shutil.rmtree("runs/others")
    assert zoo("run", "others.py", "--runs-from", "runs/middle", "--seeds", "1")[0] == 0
    assert set(taken().values()) >= {f"norms/{name}" for name in SHARED if name.endswith("seed0")}


def test_runs_that_have_not_ended_or_differ_are_trained(zoo):
    pre, *_, post = (Path("runs/norms") / name for name in SHARED)
    (pre / "status.json").write_text('{"state": "preempted", "step": 20, "steps": 40, "reason": null}')
    # The identity in meta.json is that of its start, and its config.json was edited since.
    (post / "meta.json").write_text('{"identity": "0123456789abcdef"}')
    code, out, err = zoo(*FROM)
    assert (code, err) == (0, "")
    assert "2 of 8 runs taken" in out
    assert set(taken()) == {others(name).name for name in SHARED[1:3]}

    code, out, _ = zoo("run", "others.py", "--runs-from", "runs/norms", "--seeds", "7,", "--output", "runs/elsewhere")
    assert code == 0
    assert "no run that has ended in runs/norms has the config and the seed of one that is to be trained" in out


def test_a_diverged_run_is_a_result(zoo):
    folder = Path("runs/norms") / SHARED[0]
    (folder / "status.json").write_text('{"state": "diverged", "step": 20, "steps": 40, "reason": "not finite"}')
    assert "4 of 8 runs taken" in zoo(*FROM)[1]
    assert json.loads((others(SHARED[0]) / "status.json").read_text())["state"] == "diverged"


def test_tuning_runs_are_taken(zoo):
    tune = ("--tune", "optimizer.learning_rate=1e-3,3e-3,1e-2", "--seeds", "1")
    assert zoo("run", "norms.py", *tune, "--output", "runs/tuned")[0] == 0
    code, out, err = zoo("run", "others.py", *tune, "--runs-from", "runs/tuned")
    assert (code, err) == (0, "")
    shared = {name for name in attempts("tuned") if "warm-up=10" in name and "seed1000" in name}
    assert len(shared) >= 6
    assert set(taken()) >= {others(name).name for name in shared}
    origins = [origin for name, origin in taken().items() if "seed1000" in name]
    assert all(origin.startswith("tuned/tuning/") for origin in origins)
    # What was tuned is what was found there, so the runs of the sweep itself are there too.
    assert f"{len([name for name in taken() if 'seed0' in name])} runs taken from other sweeps (tuned (2))" in out


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("missing", "--runs-from runs/missing: there is no sweep; name a folder that zoo run has written"),
        (f"norms/{SHARED[0]}", f"--runs-from runs/norms/{SHARED[0]}: there is no sweep"),
        ("others", "--runs-from runs/others is the folder of this sweep, which keeps its runs; leave it out"),
    ],
)
def test_other_folders_are_refused(zoo, folder, line):
    shutil.copytree("runs/norms", "runs/others")
    before = sorted(path for path in Path("runs").rglob("*"))
    code, _, err = zoo("run", "others.py", "--runs-from", f"runs/{folder}", "--fresh")
    assert code == 2
    assert line in err
    assert len(err.splitlines()) == 1
    assert sorted(path for path in Path("runs").rglob("*")) == before


def test_runs_of_another_executor_or_text_are_refused(zoo):
    for name in SHARED:
        meta = {"executor": "vmap", "device": {"platform": "gpu"}}
        (Path("runs/norms") / name / "meta.json").write_text(json.dumps(meta))
    code, _, err = zoo(*FROM)
    assert code == 2
    (line,) = err.splitlines()
    assert line.partition(": ")[2].startswith(f"--runs-from: {SHARED[0]} and 3 more in runs/norms trained with --popu")

    for name in SHARED:
        (Path("runs/norms") / name / "meta.json").write_text('{"data": {"fingerprint": "of another text"}}')
    code, _, err = zoo(*FROM)
    assert code == 2
    (line,) = err.splitlines()
    assert "in runs/norms: the text of data.source has changed since the run was trained" in line
    assert line.endswith("; restore it, or leave out --runs-from")
    assert not Path("runs/others").exists()


def test_checkpoints_are_linked_and_records_copied(zoo):
    for name in SHARED:
        state = Path("runs/norms") / name / "checkpoints" / "40" / "state"
        state.mkdir(parents=True)
        (state / "array").write_text("numbers")
        (Path("runs/norms") / name / ".lock").write_text("of a process")
    # What a killed copy has left.
    part = Path("runs/others") / f".{others(SHARED[0]).name}.tmp"
    part.mkdir(parents=True)
    (part / "rest").write_text("")
    assert zoo(*FROM)[0] == 0
    assert not part.exists()
    for name in SHARED:
        source, target = Path("runs/norms") / name, others(name)
        assert (target / "checkpoints/40/state/array").samefile(source / "checkpoints/40/state/array")
        assert not (target / "metrics.jsonl").samefile(source / "metrics.jsonl")
        assert not (target / ".lock").exists()
        assert not (target / "rest").exists()


def test_a_copy_that_fails_is_one_line(zoo, monkeypatch):
    def full(source, target, **options):
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(shutil, "copytree", full)
    code, _, err = zoo(*FROM)
    assert code == 1
    (line,) = err.splitlines()
    assert "--runs-from" in line
    assert "No space left on device" in line
