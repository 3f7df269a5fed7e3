"""A full disk gives a one-line error wherever a file is written, and leaves no partial files."""

import errno
import os
import shutil
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.full_disk import ERROR_MESSAGE, file_size_limit
from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo import data
from zoo.errors import ConfigError, ZooError, is_disk_full, not_writable, reported
from zoo.files import read_json, write_atomic
from zoo.training.checkpoints import checkpoint as checkpoint_module
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.failed_saves import drop_logged_errors, remove_unfinished
from zoo.training.runtime.folder_lock import lock_run_folder
from zoo.training.trainer import run
from zoo.training.training_run import RunFiles

pytestmark = pytest.mark.faults
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (FULL, True),
        (OSError(errno.EDQUOT, "x"), True),
        (OSError(errno.EACCES, "x"), False),
        (ValueError("RESOURCE_EXHAUSTED: Failed writing: \"/a\": ... [os_error_code='28']"), True),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 137 bytes."), False),
        (ValueError("x"), False),
    ],
)
def test_full_disk_errors_are_recognised(error, full, tmp_path):
    assert is_disk_full(error) == full
    found = not_writable(tmp_path / "new" / "file", error, "--out", "; x")
    assert isinstance(found, ConfigError) != full
    assert str(found).startswith(f"--out {tmp_path / 'new' / 'file'} cannot be written: ")
    assert ("MB free on its disk)" in str(found)) == full


@pytest.mark.parametrize("named", [True, False])
def test_command_reports_full_disk_in_one_line(named, capsys, monkeypatch):
    monkeypatch.setattr("zoo.errors._discard_output", lambda: None)

    @reported
    def command():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *(["/tmp/x.svg"] if named else []))

    assert command() == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"error: {'/tmp/x.svg' if named else 'the output'} cannot be written: No space left on device"
    )


def test_full_disk_while_printing_is_reported(capsys, monkeypatch):
    def refuse():
        raise FULL

    monkeypatch.setattr("zoo.errors._discard_output", lambda: None)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(flush=refuse, write=len))
    assert reported(lambda: 0)() == 1
    assert capsys.readouterr().err.startswith("error: the output cannot be written: No space left")


def test_failed_write_keeps_the_old_file(tmp_path):
    write_atomic(tmp_path / "a", "before")
    with file_size_limit(10), pytest.raises(OSError, match=ERROR_MESSAGE) as caught:
        write_atomic(tmp_path / "a", "after" * 100)
    assert caught.value.filename == str(tmp_path / "a")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]


def test_full_disk_while_writing_a_run_folder(tmp_path):
    with (
        file_size_limit(0),
        pytest.raises(ZooError, match=f"--workdir {tmp_path} cannot be written: {ERROR_MESSAGE}") as caught,
    ):
        lock_run_folder(tmp_path)
    assert caught.value.exit_code == 1
    lock_run_folder(tmp_path).close()


def state(size, step=1):
    values = np.random.default_rng(0).normal(size=size).astype(np.float32)
    return {"step": jnp.full((), step, jnp.int32), "params": {"w": jnp.asarray(values)}, "stats": {}}


def test_late_writes_of_a_failed_save_are_removed(tmp_path, monkeypatch):
    left = tmp_path / "2.orbax-checkpoint-tmp"
    left.mkdir()
    # A thread of the failed save writes once more after the first attempt.
    late = iter([lambda: left.mkdir(), lambda: None])
    remove = shutil.rmtree

    def remove_and_write_again(path, **options):
        remove(path, **options)
        next(late)()

    monkeypatch.setattr(shutil, "rmtree", remove_and_write_again)
    remove_unfinished(tmp_path)
    assert not left.exists()


@pytest.mark.parametrize("moment", ["poll", "save", "close"])
def test_full_disk_while_saving_a_checkpoint(tmp_path, moment, caplog, capfd):
    folder = tmp_path / "checkpoints"
    checkpoints = Checkpoints(folder, 2)
    checkpoints.save(1, state(10), {}, None)
    checkpoints.close()
    checkpoints = Checkpoints(folder, 2)

    def save_too_much():
        checkpoints.save(2, state(10**6), {}, None)
        while moment == "poll":
            checkpoints.poll()
        checkpoints.save(3, state(10), {}, None) if moment == "save" else checkpoints.close()

    with file_size_limit(100_000), pytest.raises((OSError, ValueError)) as caught:
        save_too_much()
    assert is_disk_full(caught.value)
    assert [path.name for path in folder.iterdir()] == ["1"]
    checkpoints.close()
    assert not caplog.records
    assert not capfd.readouterr().err
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    wanted = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), state(10))
    assert Checkpoints(folder, 2).restore_latest(wanted) is not None


def test_full_disk_while_writing_a_manifest(tmp_path, monkeypatch, capfd):
    def refuse(folder):
        raise FULL

    checkpoints = Checkpoints(tmp_path / "checkpoints", 2)
    monkeypatch.setattr(checkpoint_module, "write_manifest", refuse)
    checkpoints.save(1, state(10), {}, None)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.close()
    assert not capfd.readouterr().err


def test_all_files_of_a_run_are_closed_on_error():
    closed = []

    def close(name):
        closed.append(name)
        if name == "metrics":
            raise FULL

    files = {
        name: SimpleNamespace(close=lambda name=name: close(name)) for name in ("checkpoints", "metrics", "dynamics")
    }
    with pytest.raises(OSError, match="No space left"):
        RunFiles(**files).close()
    assert sorted(closed) == ["checkpoints", "dynamics", "metrics"]


@pytest.fixture
def no_stored_programs():
    """Disables JAX's compilation cache, where truncated programs would break later tests."""
    name = "jax_persistent_cache_min_compile_time_secs"
    before = jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update(name, 1e9)
    yield
    jax.config.update(name, before)


@pytest.mark.usefixtures("no_stored_programs")
@pytest.mark.parametrize("what", ["records", "checkpoints", "cache"])
def test_full_disk_during_a_run(tmp_path, monkeypatch, what):
    if what == "cache":
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    else:
        data.load(configs.resolve(small()))  # Fills the cache.
    size = {"records": 200, "checkpoints": 20_000, "cache": 20_000}[what]
    with file_size_limit(size), pytest.raises(ZooError) as caught:
        run(small(model__dim=64), tmp_path / "run", lambda line: None)
    assert caught.value.exit_code == 1
    (line,) = caught.value.problems
    assert ERROR_MESSAGE in line
    assert "MB free on its disk)" in line
    if what == "cache":
        assert line.startswith(f"the cache {tmp_path / 'cache'}")
        assert line.endswith("; set ZOO_CACHE to another folder")
        return
    assert line.startswith(str(tmp_path / "run"))
    assert line.endswith("; what was saved before is untouched, and the same command continues")
    if what == "checkpoints":
        assert read_json(tmp_path / "run" / "status.json")["reason"] == line
        assert not list((tmp_path / "run" / "checkpoints").iterdir())
        assert lines(tmp_path / "run")


def test_full_disk_during_a_sweep(command_line, tmp_path):
    # Fills the cache.
    assert command_line("run", "norms.py", "--seeds", "1", "--output", "before")[0] == 0
    with file_size_limit(0):
        code, _, err = command_line("run", "norms.py")
    assert code == 1
    assert err.startswith("error: runs/norms")
    assert len(err.splitlines()) == 1
    assert ERROR_MESSAGE in err


def test_closed_event_loop_callbacks_are_not_reported(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.append(unraisable.exc_value))
    drop_logged_errors()
    drop_logged_errors()
    other = RuntimeError("another")
    for error in (RuntimeError("Event loop is closed"), other):
        sys.unraisablehook(SimpleNamespace(exc_value=error))
    assert reported == [other]
