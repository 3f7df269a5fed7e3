"""Attempts at a run that a scheduler starts: when they begin, how they stop, what they record."""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from zoo import config
from zoo.lab.launch import attempt, stop_signals
from zoo.training.runtime.folder_lock import lock_run_folder

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
ROOT = Path(__file__).parents[3]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run; attempts train by the stand-in."""
    monkeypatch.setattr(attempt, "train_command", fake.command)
    folder = tmp_path / "sweep/arm-seed0"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config.to_plain(config.resolve(fake.experiment().base))))
    return folder


def status(folder):
    found = json.loads((folder / "status.json").read_text())
    return found["state"], found["reason"]


def behave(monkeypatch, folder, *behaviours):
    monkeypatch.setenv("FAKE_RUNS", json.dumps({folder.name: behaviours}))


def test_an_attempt_trains_the_run_and_keeps_its_output(run):
    assert attempt.main([str(run)]) == 0
    assert status(run) == ("done", None)
    assert not (run / ".attempt").exists()


@pytest.mark.parametrize(
    ("behaviour", "code", "state", "reason"),
    [
        ("diverge", 4, "diverged", "loss is not finite at step 20"),
        ("fail", 1, "failed", "the disk is full"),
        ("fail_without_status", 3, "failed", "ValueError: boom"),
        ("preempt", 75, "preempted", None),
        ("kill", 137, "failed", "killed by SIGKILL, as the system does when memory runs out"),
    ],
)
def test_outcomes_are_recorded(run, monkeypatch, behaviour, code, state, reason):
    behave(monkeypatch, run, behaviour)
    assert attempt.main([str(run)]) == code
    assert status(run) == (state, reason)


def test_threads_and_working_directory_are_those_of_the_flags(run, tmp_path, monkeypatch):
    program = f"import os; open({str(tmp_path / 'seen')!r}, 'w').write(os.environ['PJRT_NPROC'] + ' ' + os.getcwd())"
    monkeypatch.setattr(attempt, "train_command", lambda folder: [sys.executable, "-c", program])
    monkeypatch.chdir("/")
    attempt.main([str(run), "--threads=3", f"--directory={tmp_path}"])
    assert (tmp_path / "seen").read_text() == f"3 {tmp_path}"


def test_a_machine_without_the_folders_is_one_line(run, tmp_path, capsys):
    absent = tmp_path / "elsewhere"
    line = f"{absent}: No such file or directory on {platform.node()}"
    assert attempt.main([str(run), f"--directory={absent}"]) == 1
    assert status(run) == ("failed", line)
    assert capsys.readouterr().err == f"error: {line}\n"
    assert attempt.main([str(absent), "--after=first"]) == 2
    line = f"{absent}: no such folder on {platform.node()}; all machines share the sweep's folder"
    assert capsys.readouterr().err == f"error: {line}\n"
    assert not absent.exists()
    # A run that has ended keeps its status.
    (run / "status.json").write_text('{"state": "done", "step": 40, "steps": 40, "reason": null}')
    assert attempt.main([str(run), f"--directory={absent}"]) == 0
    assert status(run) == ("done", None)


def test_a_prerequisite_that_is_not_done_is_the_reason(run):
    assert attempt.main([str(run), "--after=first"]) == 1
    assert status(run) == ("failed", "it starts from first, which is missing")
    assert not (run / "attempts").exists()
    (run.parent / "first").mkdir()
    (run.parent / "first/status.json").write_text('{"state": "done", "step": 3, "steps": 3, "reason": null}')
    assert attempt.main([str(run), "--after=first"]) == 0


@pytest.mark.parametrize(("ends", "trained"), [("done", 0), ("preempted", 1)])
def test_a_run_that_another_process_trains_is_waited_for(run, ends, trained):
    holder = lock_run_folder(run)

    def end():
        (run / "status.json").write_text(json.dumps({"state": ends, "step": 40, "steps": 40, "reason": None}))
        holder.close()

    timer = threading.Timer(0.3, end)
    timer.start()
    assert attempt.main([str(run)]) == 0
    assert len((run / "attempts").read_text() if (run / "attempts").exists() else "") == trained
    timer.join()


def test_a_run_whose_machine_is_lost_again_and_again_fails(run, monkeypatch):
    for _ in range(2):
        # What an attempt leaves behind that was lost with its machine.
        (run / ".attempt").write_text("0")
        behave(monkeypatch, run, "wait")
        with monkeypatch.context() as patch:
            patch.setattr(attempt.Attempt, "_train", lambda self: 75)
            patch.setattr(attempt, "record_outcome", lambda *arguments: 75)
            assert attempt.main([str(run)]) == 75
    (run / ".attempt").write_text("0")
    assert attempt.main([str(run)]) == 1
    assert status(run)[0] == "failed"
    assert status(run)[1].startswith("was stopped 3 times at the same step; it may need more memory")


def send(after, folder, *numbers):
    """Sends signals to this process once the run in a folder has begun, half a second apart."""

    def main():
        while not (folder / "status.json").exists():
            time.sleep(0.02)
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(after)

    thread = threading.Thread(target=main)
    thread.start()
    return thread


def test_a_signal_lets_the_run_save_and_a_second_one_kills_it(run, monkeypatch):
    monkeypatch.setattr(stop_signals, "REPEATED_SECONDS", 0.05)
    behave(monkeypatch, run, "wait", "ignore")
    thread = send(0.1, run, signal.SIGTERM)
    assert attempt.main([str(run)]) == 75
    assert status(run) == ("preempted", None)
    thread.join()
    (run / "status.json").unlink()
    thread = send(0.2, run, signal.SIGTERM, signal.SIGTERM)
    assert attempt.main([str(run)]) == 137
    assert status(run) == ("failed", "killed by a second signal")
    thread.join()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system has no signal for it")
def test_a_process_ends_with_its_parent(tmp_path):
    child = (
        "import time; from zoo.lab.launch.attempt import end_with_parent; end_with_parent(); "
        "print('ready', flush=True); time.sleep(60)"
    )
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert process.stdout.readline() == "ready\n"
    process.kill()
    # The pipe closes when the child has ended too.
    began = time.monotonic()
    assert process.stdout.read() == ""
    assert time.monotonic() - began < 30
    process.wait()
