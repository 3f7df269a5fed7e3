"""Runs whose `training.steps` grow: bit-equal to runs of that length, or refused with the reason."""

import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import curves, small, told_to_stop_at

from tests.added_kinds import HALVING, halving, kinds_added
from zoo import config as configs
from zoo.config.kinds.schedule_kinds import SCHEDULE_KINDS, horizon_free_updates
from zoo.errors import ConfigError, Preempted
from zoo.files import read_json, write_json
from zoo.nested import flatten
from zoo.training.optimization.schedules import make_schedule
from zoo.training.records.extension import Extension, extension_obstacle, find_extension, recorded_extensions
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


def test_a_run_that_was_trained_longer_is_that_of_all_steps_bit_for_bit(straight, tmp_path):
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
    # It is a run of 16 steps from now on, which is done.
    assert "done already" in (run(sized(16, **WARM), folder, said.append) and said[-1])
    with pytest.raises(ConfigError, match=r"training.steps=16, not 8"):
        run(sized(8, **WARM), folder, quiet)


def test_a_kill_while_it_is_recorded_loses_nothing(straight, tmp_path, monkeypatch):
    """The extension is recorded once, whichever of the files had been written."""
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


@pytest.mark.promise
def test_an_unfinished_run_and_members_of_a_population_can_be_trained_longer(straight, tmp_path, monkeypatch):
    with told_to_stop_at(2, monkeypatch), pytest.raises(Preempted):
        run(sized(8, **WARM), tmp_path / "0", quiet)
    run(sized(8, **WARM), tmp_path / "1", quiet)
    requests = [RunRequest(sized(16, **WARM), tmp_path / name, quiet) for name in "01"]
    assert [outcome["state"] for outcome in train_runs(requests, "map")] == ["done", "done"]
    assert sha256(tmp_path / "0") == sha256(tmp_path / "1") == sha256(straight)
    grown = [recorded_extensions(read_json(tmp_path / name / "meta.json")) for name in "01"]
    assert grown == [[Extension(8, 16, 3)], [Extension(8, 16, 8)]]


@pytest.mark.promise
def test_a_stable_phase_goes_on_until_its_decay_began(tmp_path, monkeypatch):
    wsd = {"schedule__kind": "wsd", "schedule__decay_fraction": 0.5}
    with told_to_stop_at(3, monkeypatch), pytest.raises(Preempted):
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
    """A folder with the records of a run that is done, without arrays."""
    (folder / "checkpoints" / str(done)).mkdir(parents=True)
    write_json(folder / "config.json", configs.to_plain(configs.resolve(sized(steps, **changes))))
    write_json(folder / "status.json", {"state": "done", "step": done, "steps": steps, "reason": None})
    return folder


@pytest.mark.parametrize("kind", ["cosine", "linear", "halving"])
def test_a_schedule_over_all_steps_is_refused_with_every_other_problem(kind, tmp_path):
    """Also one of a plug-in that says nothing of it."""
    with kinds_added((HALVING, halving)):
        held(tmp_path, 8, 8, schedule__kind=kind)
        with pytest.raises(ConfigError) as caught:
            run(sized(16, schedule__kind=kind, seed=3), tmp_path, quiet)
    longer, seed = caught.value.problems
    assert f"depend on the number of steps (schedule.kind={kind}); a new run whose training.start_from" in longer
    assert "with seed=0, not 3" in seed


@pytest.mark.parametrize("done", [4, 5])
def test_an_average_of_the_last_updates_that_has_begun_is_not_continued(done, tmp_path):
    """It begins after half of the updates here, and later where there are more of them."""
    tail = {"optimizer__tail_average": 0.5}
    held(tmp_path, 8, done, **tail)
    before, now = (configs.resolve(sized(steps, **tail)) for steps in (8, 16))
    obstacle = extension_obstacle(tmp_path, before, find_extension(tmp_path, before, now))
    if done == 4:
        assert obstacle is None
        return
    assert "the average of its last updates began after update 4 (optimizer.tail_average=0.5)" in obstacle
    with pytest.raises(ConfigError, match=r"training.steps=8 cannot grow to 16: the average of its last updates began"):
        run(sized(16, **tail), tmp_path, quiet)


@pytest.mark.parametrize("made", ["imported", "averaged"])
def test_parameters_without_an_optimizer_are_refused(made, tmp_path):
    write_json(held(tmp_path, 8, 8) / "meta.json", {made: {}})
    with pytest.raises(ConfigError, match=f"its parameters were {made}"):
        run(sized(16), tmp_path, quiet)


def test_a_momentum_that_has_begun_to_fall_is_not_continued(tmp_path):
    cooled = {"optimizer__momentum_cooldown": 3}
    before, now = (configs.resolve(sized(steps, **cooled)) for steps in (8, 16))
    for done, reason in (
        (5, None),
        (6, "the decay of its first moment falls after update 5 (optimizer.momentum_cooldown)"),
    ):
        folder = held(tmp_path / str(done), 8, done, **cooled)
        obstacle = extension_obstacle(folder, before, find_extension(folder, before, now))
        assert obstacle is None if reason is None else reason in obstacle


@pytest.mark.parametrize("warmup", [0, 5, 19])
@pytest.mark.parametrize("fraction", [0.01, 0.3, 1.0])
def test_traits_of_schedules_agree_with_their_rates(warmup, fraction):
    """The updates that a kind counts have the same rates with any number of steps."""
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
