"""Torn, huge and malformed records: every reader returns a result or reports problems of one line."""

import contextlib
import dataclasses
import json
import math
import os
import signal
import warnings
from pathlib import Path

import pytest

from tests.support.building import by_default
from zoo import config as configs
from zoo.errors import ZooError
from zoo.files import MAX_LINE_BYTES, read_json_lines, write_json
from zoo.lab.launch.populations import mixed_numerics
from zoo.lab.launch.run_status import read_sweep_status
from zoo.lab.launch.sweep_folder import carry_forward_warnings, find_conflicts, read_folder, read_planned_state
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.launch.worker import last_line
from zoo.lab.measures import missing_measures
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.report.build import build_report
from zoo.lab.report.heatmaps import read_statistics
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.interim import seeds_so_far
from zoo.lab.results.run_records import load_run
from zoo.lab.results.samples import read_samples
from zoo.lab.results.sweep_results import load_any, load_sweep
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.records.metrics_file import MetricsFile
from zoo.training.startup import RunRequest, check

DEEP = "[" * 100_000
BIG = "9" * 5000


def fifo(path):
    os.mkfifo(path)


def folder(path):
    path.mkdir()


CONTENTS = {
    "empty": "",
    "torn": '{"state": "do',
    "nested": DEEP,
    "nested in an object": '{"state": "done", "data": ' + DEEP,
    "NUL": "\0" * 100,
    "invalid UTF-8": b'{"state": "d\xff\xfe"}',
    "UTF-16": '{"state": "done"}'.encode("utf-16"),
    "a number": "5",
    "a list": "[{}]",
    "a word": '"done"',
    "null": "null",
    "NaN": '{"state": NaN, "step": NaN, "steps": Infinity, "seed": -Infinity}',
    "a number of 5000 digits": '{"state": "done", "step": ' + BIG + "}",
    "a number of 400 digits": '{"state": "done", "steps": ' + BIG[:400] + "}",
    "other types": json.dumps(
        dict.fromkeys(
            ("state", "step", "steps", "reason", "data", "device", "versions", "executor", "extensions", "resumed",
             "started_from", "teacher", "parameters", "flops_per_token", "plugins", "name", "runs", "arms", "seeds",
             "metric", "contrasts", "warnings", "looks", "command", "tuning", "measures", "model", "training"), 7)
    ),
    "lists": json.dumps({key: [[]] for key in ("state", "step", "data", "device", "runs", "arms", "name", "warnings")}),
    "objects": json.dumps({key: {"a": {}} for key in ("state", "step", "data", "device", "runs", "arms", "looks")}),
    "a lone surrogate": '{"state": "\\ud800", "reason": "\\udfff", "name": "\\ud800"}',
    "control characters": json.dumps({"state": "done\x1b[2J", "reason": "\x1b]0;x\x07\r\n\x9b"}),
    "FIFO": fifo,
    "folder": folder,
}  # fmt: skip
FILES = ("status.json", "meta.json", "config.json", "metrics.jsonl", "dynamics.jsonl", "measured.json", "samples.jsonl")
LINES = {
    "a huge loss": {"step": 4, "train/loss": 1e308, "eval/loss": 1e308, "tokens": 1e308, "seconds": 1.7e308},
    "a negative huge loss": {"step": 4, "train/loss": -1e308, "eval/loss": -1.7e308},
    "a loss beyond numbers": {"step": 4, "train/loss": int(BIG[:400]), "eval/loss": -int(BIG[:400])},
    "a boolean": {"step": 4, "train/loss": True, "eval/loss": False},
    "a string": {"step": 4, "train/loss": "2.5", "eval/loss": "nan"},
    "a list": {"step": 4, "train/loss": [1], "eval/loss": {"a": 1}},
    "a huge step": {"step": int(BIG[:400]), "train/loss": 1.0},
    "a negative step": {"step": -5, "train/loss": 1.0, "eval/loss": 1.0},
    "a step that is true": {"step": True, "eval/loss": 1.0},
    "a repeated step": {"step": 200, "train/loss": 9.0, "eval/loss": 9.0},
    "an earlier step": {"step": 2, "train/loss": 9.0, "eval/loss": 9.0},
}


def put(path, content):
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    if callable(content):
        content(path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture(autouse=True)
def alarm():
    """Fails a reader that hangs, as one that waits for the writer of a FIFO does."""

    def fail(*_):
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def check_readers(readers):
    """Calls the readers; each must return a result or raise problems of one line."""
    for name, read in readers.items():
        try:
            read()
        except ZooError as error:
            for problem in error.problems:
                assert problem, name
                assert "\n" not in problem, name
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def readers_of(sweep, run, plan):
    """Every reader of a sweep's folder, and of the folder of one of its runs."""
    planned = plan.runs[0]
    return {
        "load_sweep": lambda: sweep_caveats(load_sweep(sweep)),
        "load_any": lambda: load_any(run),
        "compare": lambda: load_comparison([run, sweep / "post-0-0"]),
        "status": lambda: read_sweep_status(sweep).record(),
        "state": lambda: read_folder(run).state,
        "planned state": lambda: read_planned_state(sweep, planned),
        "conflicts": lambda: find_conflicts(sweep, [planned]),
        "warnings": lambda: carry_forward_warnings(sweep, plan.record()),
        "numerics": lambda: mixed_numerics(sweep, [planned], None),
        "seeds": lambda: seeds_so_far(sweep, (0, 1)),
        "tail": lambda: read_folder(run).tail(),
        "measures": lambda: missing_measures(run, ["offset_gap"]),
        "statistics": lambda: read_statistics(run),
        "samples": lambda: json.dumps(read_samples(run) and read_samples(run).rows).encode(),
        "log": lambda: last_line(run / "log.txt"),
        "best": lambda: Checkpoints(run / "checkpoints", 1, read_only=True).resolve_step("best"),
    }


@pytest.fixture
def plan(writer, monkeypatch):
    """A plan whose first run is that of the folder pre-0-0."""
    fake = configs.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    full = make_plan(fake.experiment(seeds=(0,)))
    return dataclasses.replace(full, runs=[dataclasses.replace(full.runs[0], folder="pre-0-0")])


# One of each way to be unreadable: no JSON, not to be decoded, of another form, and no file.
OFTEN = ("torn", "nested", "invalid UTF-8", "a list", "other types", "a number of 5000 digits", "control characters", "FIFO", "folder")  # fmt: skip
EXHAUSTIVE = pytest.mark.promise(reason="every reader reads every file with every content")


@pytest.mark.parametrize("content", by_default(OFTEN, CONTENTS, EXHAUSTIVE))
def test_readers_handle_every_content_of_every_file(content, writer, plan, capsys):
    sweep = writer.sweep()
    run = sweep / "pre-0-0"
    (run / "checkpoints").mkdir()
    for name in FILES:
        path = run / name
        before = path.read_bytes() if path.exists() else None
        put(path, CONTENTS[content])
        check_readers(readers_of(sweep, run, plan))
        path.rmdir() if path.is_dir() else path.unlink()
        if before is not None:
            path.write_bytes(before)
    put(run / ".lock", CONTENTS[content])
    put(run / "log.txt", CONTENTS[content])
    check_readers(readers_of(sweep, run, plan))
    put(sweep / "experiment.json", CONTENTS[content])
    check_readers(readers_of(sweep, run, plan))


@pytest.mark.parametrize("content", CONTENTS)
def test_a_run_is_not_continued_from_damaged_records(content, tmp_path):
    config = configs.override(configs.default(), {"training.steps": 4, "data.tokenizer.kind": "bytes"})
    resolved = configs.resolve(config)
    (tmp_path / "checkpoints" / "2").mkdir(parents=True)
    for name in ("config.json", "meta.json", "status.json"):
        write_json(tmp_path / "config.json", configs.to_plain(resolved))
        write_json(tmp_path / "meta.json", {"identity": configs.identity(resolved), "executor": "single"})
        write_json(tmp_path / "status.json", {"state": "running", "step": 0, "steps": 4, "reason": None})
        put(tmp_path / "metrics.jsonl", '{"step": 2, "train/loss": 1.0}\n')
        put(tmp_path / name, CONTENTS[content])

        def read():
            with contextlib.ExitStack() as stack:
                check(RunRequest(config, tmp_path, print), "single", stack)

        check_readers({name: read})
        path = tmp_path / name
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("content", [*CONTENTS, *LINES])
def test_metrics_files_are_continued_after_any_lines(content, tmp_path):
    path = tmp_path / "metrics.jsonl"
    put(path, CONTENTS.get(content) or json.dumps(LINES.get(content)) + "\n")

    def resume():
        MetricsFile(path, 3, True).close()

    check_readers({"metrics": resume})


@pytest.mark.parametrize("content", LINES)
def test_malformed_lines_do_not_enter_a_report(content, writer):
    sweep = writer.sweep()
    for run in ("pre-0-0", "pre-0-1"):
        with (sweep / run / "metrics.jsonl").open("a") as file:
            file.write(("\n" if run == "pre-0-1" else "") + json.dumps(LINES[content]) + "\n")
    found = load_sweep(sweep)
    for run in found.runs:
        assert all(abs(value) < 1e39 for row in run.rows for value in row.values() if math.isfinite(value))
        assert all(value >= 0 for row in run.rows for key, value in row.items() if key == "step")
    caveats = sweep_caveats(found)
    if content in ("a repeated step", "an earlier step"):
        (line,) = (line for line in caveats if "pre-0-0" in line)
        assert "1 line of metrics.jsonl repeats or precedes earlier steps" in line
    elif content in ("a huge loss", "a negative huge loss", "a loss beyond numbers"):
        assert math.isnan(found.run(found.arms[0].name, 0).series("train/loss").value[1])
    else:
        (line,) = (line for line in caveats if "pre-0-0" in line)
        assert "1 line of metrics.jsonl could not be read" in line


def test_a_report_with_all_malformed_lines_has_finite_numbers(writer):
    sweep = writer.sweep()
    for run in ("pre-0-0", "pre-0-1", "post-0-0"):
        with (sweep / run / "metrics.jsonl").open("a") as file:
            file.writelines("\n" + json.dumps(line) for line in LINES.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert build_report(load_sweep(sweep), sweep / "report.html").path.exists()


def test_a_huge_line_is_skipped_without_being_kept_in_memory(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        file.write(b'{"step": 1, "train/loss": 2.0}\n{"step": 2, "x": "')
        file.truncate(30_000_000)
        file.seek(0, 2)
        file.write(b'"}\n{"step": 3, "train/loss": 1.0}\n')
    lines = list(read_json_lines(path))
    assert [row and row["step"] for _, row in lines] == [1, None, 3]
    assert max(len(line) for line, _ in lines) <= MAX_LINE_BYTES
    assert (read_folder(tmp_path).tail().step, read_folder(tmp_path).tail().loss) == (3, 1.0)
    write_json(tmp_path / "status.json", {"state": "done", "step": 3, "steps": 3})
    run = load_run(tmp_path)
    assert (run.unreadable_lines, run.final("train/loss")) == (1, 1.0)
    put(tmp_path / "status.json", b"[" * 5_000_000)
    with pytest.raises(ZooError, match=r"status.json: not readable as JSON \(nested too deeply\)"):
        load_run(tmp_path)


HOLDERS = {"an odd process": '{"process": "x", "host": 1, "runs": [null]}', "a number": '{"process": 1, "runs": 7}'}


@pytest.mark.parametrize(
    "content", [name for name, text in (CONTENTS | HOLDERS).items() if isinstance(text, str | bytes)]
)
def test_a_held_lock_with_unreadable_content_is_refused_in_one_line(content, tmp_path):
    lock, text = SweepLock(tmp_path), (CONTENTS | HOLDERS)[content]
    (tmp_path / ".lock").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ZooError, match=r"is in use by another process$"):
        SweepLock(tmp_path)
    lock.close()
