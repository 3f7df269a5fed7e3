"""Checkpoints: which of them are kept, and how damaged ones are handled."""

import json
import shutil
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zoo.errors import ConfigError, DataError
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.integrity import MANIFEST, find_damage
from zoo.training.checkpoints.warm_start import read_weights


def state(step):
    return {
        "step": jnp.asarray(step),
        "params": {"w": jnp.full((64, 64), float(step)), "b": jnp.arange(3.0)},
        "stats": {},
    }


def abstract():
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state(0))


def saved(folder, steps, keep=2, losses=None):
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        scores = {"eval/loss": losses[step]} if losses and step in losses else None
        checkpoints.save(step, state(step), {"tokens": 10 * step, "evaluated": True}, scores)
    checkpoints.close()
    return folder


def test_saved_state_is_restored(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1, 2])
    checkpoints = Checkpoints(folder, 2)
    restored, beside = checkpoints.restore_latest(abstract())
    assert beside == {"tokens": 20, "evaluated": True}
    jax.tree.map(np.testing.assert_array_equal, restored, state(2))
    checkpoints.close()
    assert all((folder / str(step) / MANIFEST).is_file() for step in (1, 2))


class Averages(NamedTuple):
    """A state whose fields are not in alphabetical order."""

    count: jax.Array
    averages: jax.Array


def test_named_tuple_is_restored_and_another_type_is_refused_with_its_path(tmp_path):
    made = {"optimizer": Averages(jnp.asarray(3), jnp.arange(4.0))}
    checkpoints = Checkpoints(tmp_path / "checkpoints", 1)
    checkpoints.save(0, made, {}, None)
    checkpoints.close()
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), made)
    reader = Checkpoints(tmp_path / "checkpoints", 1, read_only=True)
    jax.tree.map(np.testing.assert_array_equal, reader.restore(0, wanted)[0], made)
    other = {
        "optimizer": wanted["optimizer"]._replace(averages=jax.ShapeDtypeStruct((4,), jnp.int32, sharding=sharding))
    }
    with pytest.raises(ConfigError, match=r"holds float32 in optimizer/averages, where int32 is expected"):
        reader.restore(0, other)
    reader.close()


@pytest.mark.parametrize("zero_copy", [False, True])
def test_host_arrays_are_written_without_a_copy(zero_copy, tmp_path):
    """A copy or a compression would need the memory twice. The restored arrays are equal."""
    host = {"step": np.zeros((), np.int32), "params": {"w": np.arange(4096.0, dtype=np.float32)}}
    checkpoints = Checkpoints(tmp_path / "checkpoints", 1, zero_copy=zero_copy)
    checkpoints.save(0, host, {}, None)
    checkpoints.close()
    files = [path.read_bytes() for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]
    assert any(host["params"]["w"].tobytes() in content for content in files) == zero_copy
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), host["params"])
    reader = Checkpoints(tmp_path / "checkpoints", 1, read_only=True)
    jax.tree.map(
        np.testing.assert_array_equal, reader.restore_weights(0, {"params": wanted}), {"params": host["params"]}
    )
    reader.close()


def test_newest_and_best_are_kept(tmp_path):
    folder = saved(
        tmp_path / "checkpoints", [1, 2, 3, 4, 5], keep=1, losses={1: 3.0, 2: 1.0, 3: 2.0, 4: float("nan"), 5: 4.0}
    )
    checkpoints = Checkpoints(folder, 1)
    assert checkpoints.steps() == [2, 5]
    assert checkpoints.resolve_step("best") == 2
    assert checkpoints.resolve_step("latest") == 5
    with pytest.raises(ConfigError, match="holds the steps 2, 5"):
        checkpoints.resolve_step("3")
    checkpoints.close()


@pytest.mark.parametrize("diverged", [1, 2, 3, 4])
def test_a_loss_that_is_not_finite_is_never_the_best(tmp_path, diverged):
    losses = {step: 1.0 + abs(step - (2 if diverged > 2 else 3)) for step in (1, 2, 3, 4)} | {diverged: float("nan")}
    folder = saved(tmp_path / "checkpoints", [1, 2, 3, 4], keep=1, losses=losses)
    checkpoints = Checkpoints(folder, 1, read_only=True)
    assert checkpoints.resolve_step("best") == (2 if diverged > 2 else 3)
    checkpoints.close()


def test_a_step_can_be_damaged_twice(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1, 2])
    for _ in range(2):
        flip_bit(folder / "2")
        checkpoints = Checkpoints(folder, 2, lambda line: None)
        restored, _ = checkpoints.restore_latest(abstract())
        assert int(restored["step"]) == 1
        checkpoints.save(2, state(2), {}, None)
        checkpoints.close()
    assert Checkpoints(folder, 2).steps() == [1, 2]


def test_the_best_checkpoint_stays_if_it_was_evaluated_later(tmp_path):
    """As after a stop at a step that was to be evaluated."""
    folder = saved(tmp_path / "checkpoints", [1, 2], keep=1, losses={1: 2.0})
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 2, "eval/loss": 1.0}))
    saved(folder, [3, 4], keep=1, losses={3: 1.5, 4: 1.7})
    checkpoints = Checkpoints(folder, 1, read_only=True)
    assert checkpoints.steps() == [2, 4]
    assert checkpoints.resolve_step("best") == 2
    checkpoints.close()


def test_checkpoint_evaluated_later_can_be_the_best(tmp_path):
    """A run that is stopped at an evaluation saves first and is evaluated once it continues."""
    folder = saved(tmp_path / "checkpoints", [1, 2], losses={1: 2.0})
    (tmp_path / "metrics.jsonl").write_text(
        "\n".join(
            json.dumps(line)
            for line in (
                {"step": 1, "eval/loss": 0.5},
                {"step": 2, "train/loss": 0.1},
                {"step": 2, "eval/loss": 1.0},
                {"step": 3, "eval/loss": 0.2},
            )
        )
    )
    checkpoints = Checkpoints(folder, 2, read_only=True)
    assert checkpoints.resolve_step("best") == 2
    checkpoints.close()


def flip_bit(folder):
    data = max((path for path in (folder / "state").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)


def truncate(folder):
    data = max((path for path in (folder / "state").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    data.write_bytes(data.read_bytes()[:10])


def lose_file(folder):
    max(
        (path for path in (folder / "state").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    ).unlink()


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def lose_manifest_and_truncate(folder):
    (folder / MANIFEST).unlink()
    truncate(folder)


def garble_manifest(folder):
    (folder / MANIFEST).write_text("{")


@pytest.mark.parametrize("damage", [flip_bit, truncate, lose_file, empty, lose_manifest_and_truncate, garble_manifest])
def test_damaged_checkpoint_is_set_aside_and_the_previous_one_restored(tmp_path, damage):
    folder = saved(tmp_path / "checkpoints", [1, 2])
    damage(folder / "2")
    printed = []
    checkpoints = Checkpoints(folder, 2, printed.append)
    restored, _ = checkpoints.restore_latest(abstract())
    assert int(restored["step"]) == 1
    assert len(printed) == 1
    assert "checkpoint 2 is damaged" in printed[0]
    assert (tmp_path / "quarantine" / "2").is_dir()
    # The step is free again: a run that continues from 1 can save step 2.
    checkpoints.save(2, state(2), {}, None)
    checkpoints.close()
    assert Checkpoints(folder, 2).steps() == [1, 2]


def test_without_a_sound_checkpoint_restoring_fails(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1])
    flip_bit(folder / "1")
    with pytest.raises(DataError, match="no sound checkpoint"):
        Checkpoints(folder, 2, lambda line: None).restore_latest(abstract())


def test_missing_manifest_is_written_after_restoring(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1])
    manifest = folder / "1" / MANIFEST
    written = manifest.read_text()
    manifest.unlink()
    reader = Checkpoints(folder, 2, read_only=True)
    reader.restore_latest(abstract())
    reader.close()
    assert not manifest.exists()
    printed = []
    checkpoints = Checkpoints(folder, 2, printed.append)
    assert int(checkpoints.restore_latest(abstract())[0]["step"]) == 1
    checkpoints.close()
    assert len(printed) == 1
    assert "checkpoint 1 had no manifest" in printed[0]
    assert manifest.read_text() == written
    # From here on the manifest detects damage.
    flip_bit(folder / "1")
    assert "has changed since it was written" in find_damage(folder / "1")


def test_checkpoint_copied_to_another_step_is_refused(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1, 2])
    shutil.copytree(folder / "2", folder / "5")
    with pytest.raises(DataError, match=r"checkpoint 5 of .* cannot be read: it holds the state of step 2"):
        read_weights(tmp_path, abstract())
    printed = []
    restored, _ = Checkpoints(folder, 2, printed.append).restore_latest(abstract())
    assert int(restored["step"]) == 2
    assert "checkpoint 5 is damaged (it holds the state of step 2)" in printed[0]


@pytest.mark.parametrize("name", ["²", "٣", "007", "-1", "2.orbax-checkpoint-tmp"])
def test_only_folders_with_plain_numbers_are_steps(name, tmp_path):
    folder = saved(tmp_path / "checkpoints", [1])
    (folder / name).mkdir()
    checkpoints = Checkpoints(folder, 2)
    assert checkpoints.steps() == [1]
    assert int(checkpoints.restore_latest(abstract())[0]["step"]) == 1
    checkpoints.close()


def test_restoring_another_type_or_shape_is_refused(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1])
    for change in (
        lambda x: jax.ShapeDtypeStruct(
            x.shape, jnp.bfloat16 if x.dtype == jnp.float32 else x.dtype, sharding=x.sharding
        ),
        lambda x: jax.ShapeDtypeStruct((5,) if x.shape == (3,) else x.shape, x.dtype, sharding=x.sharding),
    ):
        with pytest.raises(Exception, match=r"holds float32|[Ss]hape|metadata") as caught:
            Checkpoints(folder, 2).restore(1, jax.tree.map(change, abstract()))
        assert caught.value


def test_saving_an_existing_step_is_an_error(tmp_path):
    folder = saved(tmp_path / "checkpoints", [5])
    checkpoints = Checkpoints(folder, 2)
    with pytest.raises(Exception, match=r"5|exists|later") as caught:
        checkpoints.save(5, state(5), {}, None)
    assert caught.value
    checkpoints.close()


def test_reader_does_not_touch_a_save_in_progress(tmp_path):
    folder = saved(tmp_path / "checkpoints", [1])
    unfinished = folder / "2.orbax-checkpoint-tmp"
    unfinished.mkdir()
    (unfinished / "part").write_text("x")
    looking = Checkpoints(folder, 2, read_only=True)
    looking.restore(1, abstract())
    looking.close()
    assert (unfinished / "part").is_file()
    assert json.loads((folder / "1" / MANIFEST).read_text())
