"""Trackers receive every line of metrics.jsonl exactly once, even if the run or a tracker is
interrupted.
"""

import json
import struct
import subprocess
import sys

import pytest

from tests.support.small_runs import lines, small
from zoo import config as configs
from zoo.cli.train import main
from zoo.errors import ConfigError
from zoo.training.records import trackers
from zoo.training.records.metrics_file import MetricsFile
from zoo.training.records.trackers import TRACKERS, RunTrackers, scalars
from zoo.training.trainer import run

# Fake tracker packages, which record their calls in one list.
FAKES = {
    "wandb": """
class Run:
    def log(self, values, step): CALLS.append(["log", step, values])
    def finish(self): CALLS.append(["finish"])
def init(**how):
    CALLS.append(["init", how])
    return Run()
""",
    "tensorboardX": """
class SummaryWriter:
    def __init__(self, logdir, purge_step=None, filename_suffix=""): CALLS.append(["init", {"logdir": logdir, "purge_step": purge_step}])
    def add_scalar(self, name, value, step): CALLS.append(["log", step, {name: value}])
    def flush(self): pass
    def close(self): CALLS.append(["finish"])
""",
}
FAKES["trackio"] = FAKES["wandb"]


@pytest.fixture
def fakes(tmp_path, monkeypatch):
    """Replaces the packages by fakes; returns a function that gives the calls of a package."""
    for name, text in FAKES.items():
        (tmp_path / "fakes").mkdir(exist_ok=True)
        (tmp_path / "fakes" / f"{name}.py").write_text(f"CALLS = []\n{text}")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path / "fakes")
    for name in ("WANDB_PROJECT", "TRACKIO_PROJECT"):
        monkeypatch.delenv(name, raising=False)

    def calls(package):
        return __import__(package).CALLS

    yield calls
    for name in FAKES:
        sys.modules.pop(name, None)


def shown(calls):
    """Returns the points of a tracker by step and curve, and asserts that none was logged twice."""
    points = {}
    for call in calls:
        if call[0] == "init" and call[1].get("purge_step") is not None:
            points = {place: value for place, value in points.items() if place[0] < call[1]["purge_step"]}
        if call[0] == "log":
            for name, value in call[2].items():
                # A training line and an evaluation of the same step have the same time.
                assert (call[1], name) not in points or name in ("tokens", "seconds")
                points[call[1], name] = value
    return points


def written(folder):
    return {(line["step"], name): value for line in lines(folder) for name, value in scalars(line).items()}


class Killed(BaseException):
    """Stands for the end of a process."""


def test_a_run_is_shown_line_by_line(fakes, tmp_path):
    config, folder = small(training__trackers=("tensorboard", "wandb", "trackio")), tmp_path / "sweep" / "run"

    def until_eight(line):
        if line.startswith("step 8/"):
            raise Killed

    with pytest.raises(Killed):
        run(config, folder, until_eight)
    run(config, folder, lambda line: None)
    expected = written(folder)
    assert {step for step, _ in expected} == set(range(13))
    curves = {place for place in expected if place[1].startswith(("train/l", "train/g", "eval/"))}
    for package in FAKES:
        points = shown(fakes(package))
        # Timings may differ or be missing.
        assert points.keys() >= curves
        assert {place: points[place] for place in curves} == {place: expected[place] for place in curves}
        assert {step for step, _ in points} == set(range(13))
    begun = [call[1] for call in fakes("tensorboardX") if call[0] == "init"]
    assert [how["purge_step"] for how in begun] == [None, 6]
    assert begun[0]["logdir"] == str(folder / "tensorboard")
    first, second = (call[1] for call in fakes("wandb") if call[0] == "init")
    assert first == second
    assert (first["resume"], first["project"], first["group"], first["name"]) == ("allow", "zoo", "sweep", "run")
    # A second run in the same process is tracked as a run of its own.
    assert first["reinit"] == "create_new"
    assert first["config"]["model"]["dim"] == 32
    first, second = (call[1] for call in fakes("trackio") if call[0] == "init")
    assert first["name"] == second["name"] != "run"
    assert all(fakes(package)[-1] == ["finish"] for package in FAKES)


LINES = [
    {"step": step, "tokens": 8 * step, "seconds": 0.5 * step, "train/loss": 3.0 - step / 8} for step in range(1, 6)
]


def tracked(folder, names, step=0, kept=(), dropped=(), printed=None):
    config = configs.resolve(small(training__trackers=names))
    return RunTrackers(config, folder, step, list(kept), list(dropped), (printed if printed is not None else []).append)


def test_tracker_receives_missed_lines_on_resume(fakes, tmp_path):
    tracked(tmp_path, ("wandb", "tensorboard"), 3, LINES[:3]).write(LINES[3])
    for package in ("wandb", "tensorboardX"):
        assert {step for step, _ in shown(fakes(package))} == {1, 2, 3, 4}


def test_lines_repeated_after_a_resume_are_not_sent_twice(fakes, tmp_path):
    evaluation = {"step": 4, "tokens": 32, "seconds": 2.0, "eval/loss": 2.0}
    one = tracked(tmp_path, ("wandb",))
    for line in LINES[:4]:
        one.write(line)
    again = tracked(tmp_path, ("wandb",), 3, LINES[:3], LINES[3:4])
    for line in (LINES[3], evaluation, LINES[4]):
        again.write(line)
    assert [(call[1], "eval/loss" in call[2]) for call in fakes("wandb") if call[0] == "log"] == [
        (1, False),
        (2, False),
        (3, False),
        (4, False),
        (4, True),
        (5, False),
    ]


def test_values_that_are_not_numbers_are_not_sent(fakes, tmp_path):
    tracked(tmp_path, ("trackio",)).write({"step": 1, "train/loss": None, "tokens": 3, "nonfinite": ["train/loss"]})
    assert fakes("trackio")[-1] == ["log", 1, {"tokens": 3}]


@pytest.mark.parametrize("where", ["init", "log", "finish"])
def test_failing_tracker_does_not_stop_the_run(fakes, tmp_path, monkeypatch, where):
    fakes("wandb")

    def fail(*_, **__):
        raise OSError("no route\nto host")

    module = sys.modules["wandb"]
    monkeypatch.setattr(*((module, "init", fail) if where == "init" else (module.Run, where, fail)))
    printed = []
    file = MetricsFile(tmp_path / "metrics.jsonl", 0, False)
    file.trackers.append(tracked(tmp_path, ("wandb", "trackio"), printed=printed))
    for line in LINES:
        file.write(line["step"], line["tokens"], line["seconds"], {"train/loss": line["train/loss"]})
    file.close()
    assert len(printed) == 1
    assert printed[0].startswith("warning: wandb failed and is left out")
    assert printed[0].endswith("OSError: no route to host")
    assert len(lines(tmp_path)) == len(LINES) == len([call for call in fakes("trackio") if call[0] == "log"])


def test_tensorboard_is_used_if_it_is_installed(fakes, tmp_path, monkeypatch):
    tracked(tmp_path, "auto").write(LINES[0])
    assert [call[0] for call in fakes("tensorboardX")] == ["init", "log", "log", "log"]
    monkeypatch.setattr(trackers, "is_installed", lambda name: False)
    tracked(tmp_path / "none", "auto").write(LINES[0])
    assert not (tmp_path / "none").exists()


def test_run_without_trackers(fakes, tmp_path):
    tracked(tmp_path, ()).write(LINES[0])
    assert not any(fakes(package) for package in FAKES)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("wandb", "needs the package wandb, which is not installed: pip install wandb"),
        ("wandbb", '(did you mean "wandb"?)'),
    ],
)
def test_missing_tracker_package_is_refused_before_training(tmp_path, monkeypatch, capsys, value, printed):
    monkeypatch.setattr(trackers, "is_installed", lambda name: False)
    assert main(["--config=configs/gpt2.py:tiny", f"--workdir={tmp_path / 'run'}", f"--tracker={value}"]) == 2
    error = capsys.readouterr().err
    assert printed in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=r"training\.trackers"):
        run(small(training__trackers=(value,)), tmp_path / "run", lambda line: None)


def test_tracker_packages_are_imported_only_when_used():
    program = f"import sys, zoo.training.records.trackers\nassert not { ({package for package, _ in TRACKERS.values()})!r} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def records(folder):
    """Returns the events of all TFRecord files in the order in which the files were opened, without
    verifying checksums.
    """
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        content, place = path.read_bytes(), 0
        while place < len(content):
            (size,) = struct.unpack_from("<Q", content, place)
            yield Event.FromString(content[place + 12 : place + 12 + size])
            place += 16 + size


def test_event_files_can_be_read_back(tmp_path):
    pytest.importorskip("tensorboardX")
    one = tracked(tmp_path, ("tensorboard",))
    for line in LINES[:4]:
        one.write(line)
    one.close()
    again = tracked(tmp_path, ("tensorboard",), 2, LINES[:2], LINES[2:4])
    for line in LINES[2:]:
        again.write(line)
    again.close()
    calls = []
    for event in records(tmp_path / "tensorboard"):
        if event.HasField("session_log"):
            calls.append(["init", {"purge_step": event.step}])
        calls += [["log", event.step, {value.tag: value.simple_value}] for value in event.summary.value]
    points = shown(calls)
    assert len(points) == 3 * len(LINES)
    assert all(points[line["step"], "train/loss"] == line["train/loss"] for line in LINES)
    assert set(json.loads((tmp_path / "tracked.json").read_text())) == {"tensorboard"}
