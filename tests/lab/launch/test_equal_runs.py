"""A sweep takes finished runs of other sweeps where they are equal to planned ones."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from zoo import config, data
from zoo.files import read_json, write_json
from zoo.lab.declarations import TAKEN_FROM
from zoo.lab.launch import equal_runs, workflow
from zoo.training.runtime.folder_lock import lock_run_folder

SHARED = [f"norm={norm}+warm-up=10-seed{seed}" for norm in ("pre", "post") for seed in (0, 1)]
OTHER = """
import sys
sys.path.insert(0, {here!r})
import fake_run
from zoo import config
from zoo.lab.experiment import levels

def get_experiment(size=""):
    changes = {{"base": config.override(fake_run.experiment().base, {{size.split("=")[0]: int(size.split("=")[1])}})}} if size else {{}}
    return fake_run.experiment(
        name="others", contrasts=(), claim=None, **changes, factors={{
            "placement": levels("model.norm.placement", "pre", "post"),
            "warm": levels("schedule.warmup_steps", 10, 20),
        }})
"""
FROM = ("run", "others.py", "--runs-from", "runs/norms")
NOTHING = "nothing is taken from runs/norms: what is left to train has begun here, or has no equal there"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The folder in which the finished sweep of `zoo` is kept for other tests."""
    return tmp_path_factory.mktemp("equal") / "runs"


@pytest.fixture
def zoo(command_line, kept):
    """`command_line`, with norms.py run and others.py, of whose eight runs four are equal, to run."""
    Path("others.py").write_text(OTHER.format(here=str(Path(__file__).parents[1])))
    if not kept.exists():
        assert command_line("run", "norms.py")[0] == 0
        describe("norms")
        shutil.copytree("runs", kept)
    else:
        shutil.copytree(kept, "runs")
    return command_line


def describe(sweep):
    """Writes the meta.json of runs, with what a real run records of its config and data."""
    summary = {}
    for path in Path("runs", sweep).rglob("status.json"):
        resolved = config.resolve(config.load(str(path.parent)))
        summary = summary or data.load(resolved).summary()
        write_json(path.with_name("meta.json"), {"identity": config.identity(resolved), "data": summary})


def source(name):
    return Path("runs/norms") / name


def change_meta(name, **entries):
    write_json(source(name) / "meta.json", read_json(source(name) / "meta.json") | entries)


def others(name):
    return Path("runs/others") / name.replace("norm", "placement").replace("warm-up", "warm")


def taken():
    """{folder of a run: where it was taken from}."""
    found = {path.parent.name: read_json(path).get(TAKEN_FROM) for path in Path("runs/others").rglob("meta.json")}
    return {name: origin for name, origin in found.items() if origin}


def taken_names(zoo, *flags):
    """Runs others.py and returns which of SHARED it took."""
    code, _, err = zoo(*FROM, *flags)
    assert (code, err) == (0, "")
    return [name for name in SHARED if others(name).name in taken()]


def test_equal_runs_are_taken_and_the_others_trained(zoo):
    code, out, err = zoo(*FROM, "--dry-run")
    assert (code, err) == (0, "")
    assert "4 of 8 runs would be taken from runs/norms, where equal ones have ended" in out
    assert not Path("runs/others").exists()

    before = {name: (source(name) / "meta.json").read_text() for name in SHARED}
    code, out, err = zoo(*FROM)
    assert (code, err) == (0, "")
    assert "4 of 8 runs taken from runs/norms" in out
    assert out.count("start    ") == 4
    assert taken() == {others(name).name: f"norms/{name}" for name in SHARED}
    assert "caveat: 4 runs taken from other sweeps (norms (4)), where the results could be seen before" in out
    for name in SHARED:
        assert (others(name) / "metrics.jsonl").read_text() == (source(name) / "metrics.jsonl").read_text()
        assert (others(name) / "attempts").read_text() == "x"
        assert (source(name) / "meta.json").read_text() == before[name]

    code, out, _ = zoo(*FROM)
    assert code == 0
    assert "8 of 8 runs were done already" in out
    assert NOTHING not in out
    # A run keeps the sweep that it was trained for.
    shutil.copytree("runs/others", "runs/middle")
    shutil.rmtree("runs/others")
    assert zoo("run", "others.py", "--runs-from", "runs/middle", "--seeds", "1")[0] == 0
    assert set(taken().values()) == {f"norms/{name}" for name in SHARED if name.endswith("seed0")}


def test_a_diverged_run_is_a_result_and_one_that_goes_on_is_none(zoo):
    states = {SHARED[0]: "diverged", SHARED[1]: "preempted", SHARED[2]: "running", SHARED[3]: "failed"}
    for name, state in states.items():
        write_json(source(name) / "status.json", {"state": state, "step": 20, "steps": 40, "reason": None})
    assert taken_names(zoo) == SHARED[:1]
    assert read_json(others(SHARED[0]) / "status.json")["state"] == "diverged"


def test_runs_whose_records_are_damaged_or_edited_are_trained(zoo):
    (source(SHARED[0]) / "meta.json").write_text('{"identity": "0123')
    (source(SHARED[1]) / "meta.json").unlink()
    change_meta(SHARED[2], identity="0123456789abcdef")
    assert taken_names(zoo) == SHARED[3:]


def test_a_run_that_another_process_trains_is_left_to_it(zoo):
    (source(SHARED[0]) / "attempts").unlink()  # A file that only the stand-in for training leaves.
    with lock_run_folder(source(SHARED[0])):
        assert taken_names(zoo) == SHARED[1:]


def test_a_run_that_goes_on_while_data_are_loaded_is_trained(zoo, monkeypatch):
    load = workflow.load_data

    def slow(*arguments):
        found = load(*arguments)
        write_json(source(SHARED[0]) / "status.json", {"state": "running", "step": 20, "steps": 80, "reason": None})
        return found

    monkeypatch.setattr(workflow, "load_data", slow)
    code, out, _ = zoo(*FROM)
    assert code == 0
    assert "3 of 8 runs taken" in out
    assert "done already" not in out


def test_a_run_that_goes_on_while_it_is_copied_is_trained(zoo, monkeypatch):
    copy, going_on = equal_runs._copy, {"state": "running", "step": 20, "steps": 80, "reason": None}

    def slow(origin, target, transfer):
        copy(origin, target, transfer)
        if origin == source(SHARED[0]):
            write_json(origin / "status.json", going_on)

    monkeypatch.setattr(equal_runs, "_copy", slow)
    assert taken_names(zoo) == SHARED[1:]
    assert (others(SHARED[0]) / "attempts").read_text() == "x"
    assert not list(Path("runs/others").glob(".*.tmp"))


@pytest.mark.parametrize(
    ("field", "every", "count"),
    [
        ("training.dynamics_every", 10, 0),
        # The last step is evaluated in any case, and is all that this needs.
        ("training.eval_every", 0, 4),
        ("training.eval_every", 4, 0),
    ],
)
def test_a_run_that_recorded_less_is_trained(zoo, field, every, count):
    code, out, err = zoo("run", f"others.py:{field}={every}", "--runs-from", "runs/norms")
    assert (code, err) == (0, "")
    assert len(taken()) == count
    assert (NOTHING in out) == (not count)


def test_runs_that_begin_or_learn_from_others_are_trained():
    def planned(**changes):
        fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
        base = fake.experiment().base
        run = type("Run", (), {"needs": (), "config": config.override(base, changes)})
        return equal_runs._depends_on_another(run)

    assert not planned()
    assert planned(**{"training.start_from": "runs/base"})
    assert planned(**{"objective.distillation.teacher": "runs/teacher"})


def test_tuning_runs_are_taken(zoo):
    tune = ("--tune", "optimizer.learning_rate=1e-3,3e-3,1e-2", "--tune-seeds", "1", "--seeds", "1")
    curves = {"pre": (0.003, 2.0, 0.2), "post": (0.0025, 2.4, 0.1)}
    assert zoo("run", "norms.py", *tune, "--output", "runs/tuned", curves=curves)[0] == 0
    describe("tuned")
    code, out, err = zoo("run", "others.py", *tune, "--runs-from", "runs/tuned", curves=curves)
    assert (code, err) == (0, "")
    shared = {path.name for path in Path("runs/tuned/tuning").iterdir() if "warm-up=10+" in path.name}
    assert len(shared) >= 6
    assert set(taken()) >= {others(name).name for name in shared}
    assert all(origin.startswith("tuned/tuning/") for name, origin in taken().items() if "seed1000" in name)
    # Its two arms were tuned to the same values, so that their runs are there too.
    assert "2 runs taken from other sweeps (tuned (2))" in out


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("missing", "--runs-from runs/missing: there is no sweep; name a folder that zoo run has written"),
        (f"norms/{SHARED[0]}", f"--runs-from runs/norms/{SHARED[0]}: there is no sweep"),
        ("others", "--runs-from runs/others is in the folder of this sweep, which keeps its runs; leave it out"),
        ("others/tuning", "--runs-from runs/others/tuning is in the folder of this sweep"),
    ],
)
def test_other_folders_are_refused(zoo, folder, line):
    shutil.copytree("runs/norms", "runs/others")
    shutil.copytree("runs/norms", "runs/others/tuning")
    before = sorted(Path("runs").rglob("*"))
    code, _, err = zoo("run", "others.py", "--runs-from", f"runs/{folder}", "--fresh")
    assert code == 2
    assert line in err
    assert len(err.splitlines()) == 1
    assert sorted(Path("runs").rglob("*")) == before


def test_runs_of_another_executor_or_text_are_refused(zoo):
    for name in SHARED:
        change_meta(name, executor="vmap", device={"platform": "gpu"})
    code, _, err = zoo(*FROM)
    assert code == 2
    (line,) = err.splitlines()
    assert line.partition(": ")[2].startswith(f"--runs-from: {SHARED[0]} and 3 more in runs/norms trained with --popu")
    # With all of them nothing is left to train in another way.
    again = ("run", "norms.py", "--output", "runs/again", "--runs-from", "runs/norms")
    for path in Path("runs/norms").glob("*/meta.json"):
        change_meta(path.parent.name, executor="vmap", device={"platform": "gpu"})
    code, out, _ = zoo(*again)
    assert code == 0
    assert "8 of 8 runs taken" in out

    for name in SHARED:
        change_meta(name, executor="single", device={}, data={"fingerprint": "of another text"})
    code, _, err = zoo(*FROM)
    assert code == 2
    (line,) = err.splitlines()
    assert "in runs/norms: the text of data.source has changed since the run was trained" in line
    assert line.endswith("; restore it, or leave out --runs-from")
    assert not Path("runs/others").exists()


def test_checkpoints_are_linked_and_records_copied(zoo):
    for name in SHARED:
        for part in ("checkpoints", "quarantine"):
            (source(name) / part / "40" / "state").mkdir(parents=True)
            (source(name) / part / "40" / "state" / "array").write_text("numbers")
        (source(name) / ".lock").write_text("")
    # A run may be a link to another disk.
    source(SHARED[0]).rename("elsewhere")
    source(SHARED[0]).symlink_to(Path("elsewhere").resolve())
    # What a killed copy has left.
    part = Path("runs/others") / f".{others(SHARED[0]).name}.tmp"
    part.mkdir(parents=True)
    (part / "rest").write_text("")
    assert taken_names(zoo) == SHARED
    assert taken()[others(SHARED[0]).name] == f"norms/{SHARED[0]}"
    assert not part.exists()
    for name in SHARED:
        assert (others(name) / "checkpoints/40/state/array").samefile(source(name) / "checkpoints/40/state/array")
        assert not (others(name) / "metrics.jsonl").samefile(source(name) / "metrics.jsonl")
        assert not {".lock", "rest", "quarantine"} & {path.name for path in others(name).iterdir()}


def test_what_a_killed_copy_has_left_is_no_run(zoo):
    assert taken_names(zoo) == SHARED
    others(SHARED[0]).rename(Path("runs/others") / f".{others(SHARED[0]).name}.tmp")
    code, out, _ = zoo("run", "others.py", "--runs-from", "runs/others", "--output", "runs/third")
    assert code == 0
    assert "3 of 8 runs taken" in out


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [(errno.ENOSPC, 1, "cannot be written: No space left"), (errno.EACCES, 2, "cannot be read: Permission denied")],
)
def test_a_copy_that_fails_is_one_line(zoo, monkeypatch, number, code, text):
    def fails(origin, target):
        raise OSError(number, os.strerror(number), str(origin if number == errno.EACCES else target))

    monkeypatch.setattr(equal_runs.shutil, "copy2", fails)
    found, _, err = zoo(*FROM)
    assert found == code
    (line,) = err.splitlines()
    assert "--runs-from runs/" in line
    assert text in line
