"""Runs whose `training.steps` are increased: bit-identical to runs of the new length, or refused
with the reason.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.added_kinds import HALVING, halving, registered_kinds
from tests.support.small_runs import curves, small, stop_requested_at
from zoo import config as configs
from zoo.config.kinds.schedule_kinds import SCHEDULE_KINDS, horizon_free_updates
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json, write_json
from zoo.nested import flatten
from zoo.training.optimization.schedules import make_schedule
from zoo.training.records.extension import Extension, extension_obstacle, find_extension, recorded_extensions
from zoo.training.records.run_folder import RunFolder
from zoo.training.startup import RunRequest
from zoo.training.trainer import run, train_runs

STEPS = {"training__eval_every": 4, "training__checkpoint_every": 4}
WARM = {"schedule__warmup_steps": 3}


def quiet(line):
    del line


def sized(steps, **changes):
    return small(model__dropout=0.1, training__steps=steps, **STEPS, **changes)


def sha256(folder):
    return read_json(folder / "status.json")["parameters_sha256"]


def trained_lines(folder):
    return [line for line in curves(folder) if dict(line).get("train/loss") is not None]


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "run"
    run(sized(16, **WARM), folder, quiet)
    return folder


def test_extended_run_equals_a_run_of_all_steps_bit_for_bit(straight, tmp_path):
    folder, said = tmp_path / "run", []
    first = run(sized(8, **WARM), folder, quiet)
    assert run(sized(16, **WARM), folder, said.append)["step"] == 16
    assert "trained longer: training.steps grew from 8 to 16 at step 8" in said
    assert any("continuing from step 8 of 16" in line for line in said)
    assert sha256(folder) == sha256(straight) != first["parameters_sha256"]
    assert curves(folder) == curves(straight)
    meta = read_json(folder / "meta.json")
    assert meta["extensions"] == [{"from": 8, "to": 16, "step": 8}]
    assert meta["identity"] == read_json(straight / "meta.json")["identity"]
    assert read_json(folder / "config.json") == read_json(straight / "config.json")
    # From now on it is a finished run of 16 steps.
    assert "done already" in (run(sized(16, **WARM), folder, said.append) and said[-1])
    with pytest.raises(ConfigError, match=r"training.steps=16, not 8"):
        run(sized(8, **WARM), folder, quiet)


def test_kill_while_recording_the_extension_loses_nothing(straight, tmp_path, monkeypatch):
    """The extension is recorded exactly once, whichever files were written before the kill."""
    from zoo.training import startup

    run(sized(8, **WARM), tmp_path, quiet)
    with monkeypatch.context() as patch:
        patch.setattr(startup, "write_run_record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(sized(16, **WARM), tmp_path, quiet)
    assert read_json(tmp_path / "status.json")["state"] == "preempted"
    run(sized(16, **WARM), tmp_path, quiet)
    assert read_json(tmp_path / "meta.json")["extensions"] == [{"from": 8, "to": 16, "step": 8}]
    assert sha256(tmp_path) == sha256(straight)


@pytest.mark.promise(reason="whole runs are trained")
def test_unfinished_runs_and_population_members_can_be_extended(straight, tmp_path, monkeypatch):
    with stop_requested_at(2, monkeypatch), pytest.raises(Preempted):
        run(sized(8, **WARM), tmp_path / "0", quiet)
    run(sized(8, **WARM), tmp_path / "1", quiet)
    requests = [RunRequest(sized(16, **WARM), tmp_path / name, quiet) for name in "01"]
    assert [outcome["state"] for outcome in train_runs(requests, "map")] == ["done", "done"]
    assert sha256(tmp_path / "0") == sha256(tmp_path / "1") == sha256(straight)
    grown = [recorded_extensions(read_json(tmp_path / name / "meta.json")) for name in "01"]
    assert grown == [[Extension(8, 16, 3)], [Extension(8, 16, 8)]]


@pytest.mark.promise(reason="whole runs are trained")
def test_stable_phase_can_be_extended_until_its_decay_begins(tmp_path, monkeypatch):
    wsd = {"schedule__kind": "wsd", "schedule__decay_fraction": 0.5}
    with stop_requested_at(3, monkeypatch), pytest.raises(Preempted):
        run(sized(8, **wsd), tmp_path / "run", quiet)
    run(sized(16, **wsd), tmp_path / "run", quiet)
    run(sized(16, **wsd), tmp_path / "straight", quiet)
    assert sha256(tmp_path / "run") == sha256(tmp_path / "straight")
    before = {path: path.read_bytes() for path in (tmp_path / "run").glob("*.json*")}
    with pytest.raises(ConfigError) as caught:
        run(sized(24, **wsd), tmp_path / "run", quiet)
    (problem,) = caught.value.problems
    assert "training.steps=16 cannot grow to 24: its learning rate decays from update 9 on" in problem
    assert "training.start_from" in problem
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").glob("*.json*")}


def held(folder, steps, done, **changes):
    """Writes the records of a finished run, without arrays."""
    (folder / "checkpoints" / str(done)).mkdir(parents=True)
    write_json(folder / "config.json", configs.to_plain(configs.resolve(sized(steps, **changes))))
    write_json(folder / "status.json", {"state": "done", "step": done, "steps": steps, "reason": None})
    return folder


@pytest.mark.parametrize("kind", ["cosine", "linear", "halving"])
def test_schedule_over_all_steps_cannot_be_extended(kind, tmp_path):
    """This includes a plug-in's schedule without traits about its horizon."""
    with registered_kinds((HALVING, halving)):
        held(tmp_path, 8, 8, schedule__kind=kind)
        with pytest.raises(ConfigError) as caught:
            run(sized(16, schedule__kind=kind, seed=3), tmp_path, quiet)
    longer, seed = caught.value.problems
    assert f"depend on the number of steps (schedule.kind={kind}); a new run whose training.start_from" in longer
    assert "with seed=0, not 3" in seed


@pytest.mark.parametrize("done", [4, 5])
def test_tail_average_that_has_begun_cannot_be_extended(done, tmp_path):
    """Here the average begins after half of the updates, and later in a longer run."""
    tail = {"optimizer__tail_average": 0.5}
    held(tmp_path, 8, done, **tail)
    before, now = (configs.resolve(sized(steps, **tail)) for steps in (8, 16))
    obstacle = extension_obstacle(RunFolder(tmp_path), before, find_extension(RunFolder(tmp_path), before, now))
    if done == 4:
        assert obstacle is None
        return
    assert "the average of its last updates began after update 4 (optimizer.tail_average=0.5)" in obstacle
    with pytest.raises(ConfigError, match=r"training.steps=8 cannot grow to 16: the average of its last updates began"):
        run(sized(16, **tail), tmp_path, quiet)


@pytest.mark.parametrize("made", ["imported", "averaged"])
def test_run_without_optimizer_state_cannot_be_extended(made, tmp_path):
    write_json(held(tmp_path, 8, 8) / "meta.json", {made: {}})
    with pytest.raises(ConfigError, match=f"its parameters were {made}"):
        run(sized(16), tmp_path, quiet)


def test_momentum_cooldown_that_has_begun_cannot_be_extended(tmp_path):
    cooled = {"optimizer__momentum_cooldown": 3}
    before, now = (configs.resolve(sized(steps, **cooled)) for steps in (8, 16))
    for done, reason in (
        (5, None),
        (6, "the decay of its first moment falls after update 5 (optimizer.momentum_cooldown)"),
    ):
        folder = RunFolder(held(tmp_path / str(done), 8, done, **cooled))
        obstacle = extension_obstacle(folder, before, find_extension(folder, before, now))
        assert obstacle is None if reason is None else reason in obstacle


@pytest.mark.parametrize("warmup", [0, 5, 19])
@pytest.mark.parametrize("fraction", [0.01, 0.3, 1.0])
def test_horizon_free_updates_of_schedules_match_their_rates(warmup, fraction):
    """The updates that a schedule declares independent of the horizon have equal rates for all
    numbers of steps.
    """
    for kind in SCHEDULE_KINDS.by_name:
        own = {"schedule__decay_fraction": fraction} if kind == "wsd" else {}
        short, *longer = (
            configs.resolve(sized(steps, schedule__kind=kind, schedule__warmup_steps=warmup, **own))
            for steps in (20, 21, 37)
        )
        free = int(min(20, horizon_free_updates(flatten(short))))
        assert (free > 0) == (kind in ("constant", "inverse_sqrt") or (kind == "wsd" and (fraction < 1 or warmup > 0)))
        counts = jnp.arange(20)
        rates = np.asarray(make_schedule(short)(counts))
        for other in longer:
            there = np.asarray(make_schedule(other)(counts))
            np.testing.assert_array_equal(rates[:free], there[:free])
            if kind == "wsd":
                assert rates[free] != there[free] or free < warmup
