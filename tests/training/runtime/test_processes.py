"""One run trained by several processes: the same curve, one writer, and one step at which all stop."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.files import write_json
from zoo.training.records.run_folder import checkpoint_steps
from zoo.training.runtime.processes import from_flags
from zoo.training.runtime.signals import StopSignal
from zoo.training.trainer import run

STEPS = {
    "training__checkpoint_every": 0,
    "training__eval_every": 0,
    "training__log_every": 5,
    "training__dynamics_every": 50,
}


def start(tmp_path, name, config):
    """Starts a run's two processes."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    path = tmp_path / "config.json"
    write_json(path, configs.to_plain(configs.resolve(config)))
    flags = [f"--coordinator=127.0.0.1:{port}", "--processes=2"]
    started = []
    for number in range(2):
        with open(tmp_path / f"{name}-{number}.log", "ab") as log:
            started.append(
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        "zoo.cli.train",
                        f"--config={path}",
                        f"--workdir={tmp_path / name}",
                        *flags,
                        f"--process={number}",
                    ],
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
                )
            )
    return started


def finish(started):
    try:
        return [process.wait(280) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.promise(reason="other processes train")
@pytest.mark.faults
def test_two_processes_give_the_run_of_one(tmp_path):
    """A signal to one process stops both at the same step, and the resumed run ends equal."""
    config = small(training__steps=200, **STEPS)
    together = start(tmp_path, "two", config)
    metrics = tmp_path / "two/metrics.jsonl"
    deadline = time.monotonic() + 200
    while not metrics.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    # The signal goes to the process that does not write, while it compiles; later the run may be
    # over.
    together[1].send_signal(signal.SIGTERM)
    assert finish(together) == [75, 75], (tmp_path / "two-0.log").read_text()[-2000:]
    status = json.loads((tmp_path / "two/status.json").read_text())
    assert status["state"] == "preempted"
    assert status["step"] < 200
    assert [path.name for path in (tmp_path / "two/checkpoints").iterdir() if path.name.isdigit()] == [
        str(status["step"])
    ]
    # The first process notices a damaged checkpoint, and both skip it.
    checkpoints = tmp_path / "two/checkpoints"
    shutil.copytree(checkpoints / str(status["step"]), checkpoints / "199")
    (checkpoints / "199/manifest.json").write_text("{")
    assert finish(start(tmp_path, "two", config)) == [0, 0], (tmp_path / "two-0.log").read_text()[-2000:]
    log = (tmp_path / "two-0.log").read_text()
    assert "checkpoint 199 is damaged" in log
    assert f"continuing from step {status['step']} of 200" in log
    # The second process prints nothing.
    assert "loss" not in (tmp_path / "two-1.log").read_text()
    assert json.loads((tmp_path / "two/status.json").read_text())["state"] == "done"
    assert json.loads((tmp_path / "two/meta.json").read_text())["device"]["count"] == 2
    run(config, tmp_path / "one", lambda line: None)
    one, two = lines(tmp_path / "one"), lines(tmp_path / "two")
    theirs = {line["step"]: line for line in two if "train/loss" in line}
    for line in one:
        if "train/loss" in line:
            assert theirs[line["step"]]["train/loss"] == pytest.approx(line["train/loss"], rel=2e-3)
            assert theirs[line["step"]]["tokens"] == line["tokens"]
    assert two[-1]["eval/loss"] == pytest.approx(one[-1]["eval/loss"], rel=2e-3)


@pytest.mark.promise(reason="other processes train")
@pytest.mark.faults
@pytest.mark.parametrize(
    "victim",
    [
        1,
        pytest.param(
            0, marks=pytest.mark.slow(reason="the first process ends like the second, and JAX's service with it")
        ),
    ],
)
def test_lost_process_ends_the_other_with_one_line(tmp_path, monkeypatch, victim):
    """This covers losses during a save, because there is one after every step."""
    monkeypatch.setenv("ZOO_PARTNER_SECONDS", "3")
    together = start(tmp_path, "two", small(training__steps=10**6, **STEPS | {"training__checkpoint_every": 1}))
    deadline = time.monotonic() + 200
    # Old checkpoints are removed, so that waiting for a certain one might miss it.
    while max(checkpoint_steps(tmp_path / "two/checkpoints"), default=0) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    together[victim].kill()
    code = finish(together)[1 - victim]
    log = (tmp_path / f"two-{1 - victim}.log").read_text()
    # Without process 0, which runs its coordination service, JAX may abort before the watch ends
    # the process.
    assert code in ((1,) if victim else (1, -signal.SIGABRT)), log
    assert len(re.findall(rf"^error: process {victim} of 2 has ended or cannot be reached", log, re.MULTILINE)) == 1
    assert "Traceback" not in log
    assert "stack trace" not in log


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("a:1", None, 0), "--processes: missing; several processes need --coordinator, --processes, --process"),
        (
            (None, None, 0),
            "--coordinator and --processes: missing; several processes need --coordinator, --processes, --process",
        ),
        (("a", 2, 0), "--coordinator a: expected HOST:PORT of process 0"),
        (("a:70000", 2, 0), "--coordinator a:70000: expected HOST:PORT of process 0"),
        (("a:1", 2, 2), "--process 2: processes are counted from 0 to --processes - 1 = 1"),
    ],
)
def test_inconsistent_process_flags_are_refused(given, line):
    with pytest.raises(ConfigError) as caught:
        from_flags(*given)
    assert caught.value.problems == [line]


def test_single_process_stops_without_coordination(monkeypatch):
    monkeypatch.setattr("zoo.training.runtime.processes.multihost_utils.reached_preemption_sync_point", None)
    assert from_flags(None, None, None) is None
    with StopSignal() as stop:
        assert not stop.poll()
        signal.raise_signal(signal.SIGTERM)
        assert stop.poll()
