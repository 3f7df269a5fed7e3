"""`zoo run` as a process: signals, a killed parent, and concurrent commands."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zoo.errors import ConfigError
from zoo.lab.launch.sweep_lock import SweepLock

HELPER = Path(__file__).parents[2] / "lab" / "fake_run.py"
PRE0 = "norm=pre+warm-up=0-seed0"


def attempts(folder):
    return {path.parent.name: len(path.read_text()) for path in folder.glob("runs/norms/*/attempts")}


def start(folder, *arguments, behaviours):
    """Starts `zoo run` as a process in a session of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, str(HELPER), "zoo", "run", *arguments],
        cwd=folder,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "FAKE_RUNS": json.dumps(behaviours)},
    )


def wait_until_running(process, folder, run=PRE0):
    deadline = time.monotonic() + 120
    while not (folder / "runs/norms" / run / "status.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_held(sweep):
    """Whether a process holds the folder of a sweep."""
    try:
        SweepLock(sweep).close()
    except ConfigError:
        return True
    return False


@pytest.mark.faults
def test_ctrl_c_saves_the_runs_and_says_how_to_continue(zoo, folder):
    process = start(folder, "norms.py", "--jobs", "1", behaviours={PRE0: ["wait"]})
    wait_until_running(process, folder)
    # A terminal sends the signal to every process of the foreground group.
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 75
    assert "stopped: 0 of 8 runs are done" in err
    assert "the same command" in err
    assert "Traceback" not in out + err
    assert json.loads((folder / "runs/norms" / PRE0 / "status.json").read_text())["state"] == "preempted"
    assert not (folder / "runs/norms" / PRE0 / "interrupted").exists()
    code, out, _ = zoo("norms.py")
    assert code == 0
    assert "1 unfinished at step 20, 1 new" in out
    assert "norm=pre+warm-up=0 seed 0, continues from about step 20" in out


def test_a_folder_in_use_is_refused(zoo, folder):
    process = start(folder, "norms.py", "--jobs", "1", behaviours={PRE0: ["wait"]})
    try:
        wait_until_running(process, folder)
        for extra in ([], ["--fresh"]):
            code, _, err = zoo("norms.py", *extra)
            assert code == 2
            assert f"error: runs/norms is in use by process {process.pid} on " in err
            assert len(err.splitlines()) == 1
        assert zoo("norms.py", "--dry-run")[0] == 0
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 75
    assert zoo("norms.py")[0] == 0


@pytest.mark.faults
def test_runs_that_outlive_a_killed_parent_are_not_started_twice(zoo, folder):
    process = start(folder, "norms.py", "--jobs", "1", behaviours={PRE0: ["wait"]})
    wait_until_running(process, folder)
    process.kill()
    process.communicate()
    code, _, err = zoo("norms.py")
    assert code == 2
    assert "which has ended, are still training" in err
    os.kill(int(err.split()[-1]), signal.SIGTERM)
    # A command plans its sweep before it looks for others, which would keep a core busy meanwhile.
    deadline = time.monotonic() + 120
    while is_held(folder / "runs/norms"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert zoo("norms.py")[0] == 0
    assert attempts(folder)[PRE0] == 2
