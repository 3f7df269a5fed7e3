"""Following runs: the server, the command, and the live view of a terminal."""

import argparse
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from zoo.cli.main import main
from zoo.cli.sweeps import watch as command
from zoo.errors import ConfigError
from zoo.lab.launch import watch_display
from zoo.lab.launch.run_status import read_sweep_status
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.report.server import Pages, Server, signature
from zoo.lab.results.sweep_results import load_any


@pytest.fixture
def small(writer):
    """A sweep of two arms with one run each: one is done and one is running."""
    arms = [{"name": name, "factors": {"norm": name}} for name in ("pre", "post")]
    runs = [{"folder": f"{name}-0", "arm": name, "seed": 0} for name in ("pre", "post")]
    folder = writer.root / "small"
    writer.run("small/pre-0", final=2.5, steps=20)
    writer.run("small/post-0", final=2.5, steps=20, stop=10, state="running")
    (folder / "experiment.json").write_text(
        json.dumps(
            {
                "name": "Small",
                "question": "Which norm?",
                "metric": "eval/loss",
                "arms": arms,
                "runs": runs,
                "seeds": [0],
                "contrasts": [],
            }
        )
    )
    return folder


@pytest.fixture
def parsed():
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))
    return lambda *words: parser.parse_args(["watch", *map(str, words)])


def write_status(folder, name, state, **more):
    (folder / name / "status.json").write_text(
        json.dumps({"state": state, "step": 20, "steps": 20, "reason": None, **more})
    )


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_page_is_rebuilt_when_files_change(small):
    clock = Clock()
    pages = Pages(small, clock)
    first, page = pages.newest()
    assert f'data-version="{first}"'.encode() in page
    assert b"connect-src 'self'" in page
    assert b'<a href="./' not in page
    clock.now += 10
    assert pages.newest() == (first, page)
    write_status(small, "post-0", "done")
    clock.now += 10
    second, newer = pages.newest()
    assert second != first
    assert b"2 done" in newer
    assert b"2 done" not in page


def test_new_measures_change_the_signature_of_a_sweep(small):
    before = signature(small)
    (small / "pre-0" / "measured.json").write_text("{}")
    assert signature(small) != before


def test_damaged_files_keep_the_previous_page(small):
    clock = Clock()
    pages = Pages(small, clock)
    before = pages.newest()
    (small / "pre-0" / "status.json").write_text('{"sta')
    clock.now += 10
    assert pages.newest() == before
    write_status(small, "pre-0", "done")
    clock.now += 10
    assert pages.newest()[0] != before[0]


def test_a_slow_page_is_rebuilt_less_often(small, monkeypatch):
    clock = Clock()
    pages = Pages(small, clock)
    builds = []

    def slow(folder):
        builds.append(1)
        clock.now += 3
        return load_any(folder)

    monkeypatch.setattr("zoo.lab.report.server.load_any", slow)
    for number in range(60):
        write_status(small, "post-0", "running", number="x" * number)
        pages.newest()
        clock.now += 1
    assert 2 <= len(builds) <= 5


def test_the_server_answers_only_local_requests(small):
    with Server(Pages(small), 0) as server:
        assert server.server_address[0] == "127.0.0.1"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        port = server.server_address[1]

        def get(path, host=f"127.0.0.1:{port}"):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        assert get("/")[1].startswith("<!doctype html>")
        assert get("/version") == (200, server.pages.newest()[0])
        assert get("/", "localhost:1234")[0] == 200
        # A browser omits port 80.
        assert get("/", "127.0.0.1")[0] == 200
        assert get("/", "evil.example:80")[0] == get("/", "evil.example")[0] == get("/", "")[0] == 403
        assert get("/experiment.json")[0] == get("/../small/experiment.json")[0] == 404
        with pytest.raises(ConfigError, match=f"--port {port} is in use; choose another one") as caught:
            Server(server.pages, port)
        assert len(caught.value.problems) == 1
        server.shutdown()
        thread.join()


def test_bad_folders_are_refused(parsed, tmp_path):
    for more in ((), ("--terminal",)):
        for folder, message in ((tmp_path / "none", "there is no such folder"), (tmp_path, "not a sweep folder")):
            args = parsed(folder, *more)
            with pytest.raises(ConfigError, match=message) as caught:
                args.handler(args)
            assert len(caught.value.problems) == 1


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_bad_ports_are_refused(port, capsys):
    assert main(["watch", "runs", "--port", port]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line
        == f"error: argument --port: '{port}' is not a port: expected an integer from 0 to 65535; see zoo watch --help"
    )


def test_a_single_run_is_watched_too(writer):
    folder = writer.run("alone", steps=20)
    sweep = load_any(folder)
    assert (sweep.name, sweep.metric, [run.state for run in sweep.runs]) == ("alone", "eval/loss", ["done"])
    assert b"alone" in Pages(folder).newest()[1]
    assert [run.folder for run in watch_display.watched_runs(sweep)] == ["."]


def run_events(folder):
    """Changes the files of the active run, one event per look."""

    def step(number, **row):
        with open(folder / "post-0" / "metrics.jsonl", "a") as file:
            print(json.dumps({"step": number, "tokens": 1, "seconds": 1.0, **row}), file=file)

    yield
    step(12, **{"train/loss": 3.25, "train/tokens_per_second": 1234.5})
    yield
    step(16, **{"train/loss": 3.0})
    yield
    step(20, **{"eval/loss": 2.75})
    yield
    write_status(folder, "post-0", "done")
    while True:
        yield


@pytest.mark.parametrize("terminal", [True, False])
def test_the_terminal_shows_runs_until_all_have_ended(small, terminal):
    clock, events = Clock(), run_events(small)
    screen = Console(file=io.StringIO(), width=140, force_terminal=terminal, color_system=None)

    def sleep(seconds):
        clock.now += 40
        next(events)

    watch_display.follow(small, screen, clock, sleep)
    text = screen.file.getvalue()
    assert "Small: Which norm?" in text
    assert "step 12/20, loss 3.2500, 1,230 tokens/s" in text
    assert "done     norm=post seed 0: eval/loss 2.7500" in text
    # The last lines are the arms, the better one first.
    assert [line.split() for line in text.splitlines()[-2:]] == [
        ["norm=pre", "2.500", "1/1"],
        ["norm=post", "2.750", "1/1"],
    ]
    if terminal:
        assert "━" in text
        assert "\x1b[?25h" in text[-200:]


@pytest.mark.parametrize("terminal", [True, False])
def test_what_compiles_is_named_and_time_counts_from_the_start_of_the_sweep(small, terminal):
    clock = Clock()
    screen = Console(file=io.StringIO(), width=140, force_terminal=terminal, color_system=None)
    (small / "post-0" / "status.json").unlink()
    for name, age in (("pre-0", 7320), ("post-0", 30)):
        os.utime(small / name / "config.json", (time.time() - age,) * 2)

    def sleep(seconds):
        clock.now += 16
        if clock.now > 40:
            write_status(small, "post-0", "done")

    assert [run.state for run in read_sweep_status(small).runs] == ["done", "waiting"]
    lock = SweepLock(small)
    try:
        # A run that waits for a scheduler has no log yet.
        assert [run.state for run in read_sweep_status(small).runs] == ["done", "waiting"]
        (small / "post-0" / "log.txt").touch()
        assert [(run.state, run.reason) for run in read_sweep_status(small).runs][1] == (
            "running",
            "loads and compiles",
        )
        watch_display.follow(small, screen, clock, sleep)
    finally:
        lock.close()
    text = screen.file.getvalue()
    assert re.search(r"norm=post seed 0.*loading and compiling \(0:4[5-9]\)", text)
    assert re.search(r"runs 1/2, 2:02:1[5-9] elapsed", text)
    if terminal:
        assert text.index("loading and compiling") < text.index("no run is active")


def test_added_seeds_are_shown(small):
    clock = Clock()
    screen = Console(file=io.StringIO(), width=140)
    looks = []

    def sleep(seconds):
        clock.now += 40
        looks.append(1)
        if len(looks) == 1:
            plan = json.loads((small / "experiment.json").read_text())
            plan["runs"].append({"folder": "pre-1", "arm": "pre", "seed": 1})
            (small / "experiment.json").write_text(json.dumps({**plan, "seeds": [0, 1]}))
        elif len(looks) == 2:
            (small / "pre-1").mkdir()
            write_status(small, "pre-1", "failed", reason="boom")
        elif len(looks) == 3:
            write_status(small, "post-0", "diverged", reason="loss is not finite")

    watch_display.follow(small, screen, clock, sleep)
    assert "failed   norm=pre seed 1: step 20, boom" in screen.file.getvalue()
    assert "diverged norm=post seed 0: step 20, loss is not finite" in screen.file.getvalue()
    assert "runs 3/3" in screen.file.getvalue()


@pytest.mark.parametrize(
    "words",
    [("--port", "0"), pytest.param(("--terminal",), marks=pytest.mark.promise(reason="another process is started"))],
)
def test_ctrl_c_ends_quietly(small, words):
    # In the background of a shell SIGINT is ignored, and the child process would inherit that.
    child = subprocess.Popen(
        [sys.executable, "-m", "zoo.cli.main", "watch", str(small), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert str(small) in (line := child.stdout.readline()) or "Small" in line
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (0, "")


def test_a_used_port_is_reported_in_one_line(small):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = [sys.executable, "-m", "zoo.cli.main", "watch", str(small), "--port", str(port)]
        found = subprocess.run(words, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == f"error: --port {port} is in use; choose another one, or 0 for any free port\n"
