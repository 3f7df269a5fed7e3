"""Control characters in output are escaped, wherever the text comes from."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from zoo.cli import train
from zoo.cli.console import EscapedConsole, make_console
from zoo.cli.start_argument import start_argument
from zoo.errors import ConfigError, DataError, print_while_read, reported
from zoo.terminal import escape, escape_line, shell_line

NASTY = "a\x1b[2Jb\x07c\rd\x9be\u202ef\x00g\udc80"
ESCAPED = r"a\x1b[2Jb\x07c\rd\x9be\u202ef\x00g\udc80"


def test_only_control_characters_are_escaped():
    assert escape(f"{NASTY}\n\tx") == f"{ESCAPED}\n\tx"
    assert escape_line(f"{NASTY}\n\tx") == rf"{ESCAPED}\n\tx"
    harmless = "grün, 漢字, ⏎, \N{NO-BREAK SPACE}, \U0001f469\u200d\U0001f52c, C:\\dir"
    assert escape(harmless) == harmless
    assert escape(escape(NASTY)) == ESCAPED


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_command_is_one_line_that_a_shell_reads_back(locale):
    words = [
        "a b",
        "it's",
        "x\ny",
        "back\\slash\n'",
        "\t\x1b7",
        "\u20281",
        "\x85f",
        "grün\n",
        "not utf-8: \udc80",
        "plain",
    ]
    line = shell_line(words)
    assert line.startswith("'a b' ")
    assert line.isprintable()
    read = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True, env={"LC_ALL": locale}
    )
    assert read.stdout.split(b"\0")[:-1] == [word.encode("utf-8", "surrogateescape") for word in words]


def test_the_flag_of_a_start_folder_is_quoted():
    assert start_argument(Path("my runs/it's")) == "--config.training.start_from='my runs/it'\"'\"'s'"


@reported
def command(how):
    if how == "error":
        raise ConfigError([f"runs/{NASTY}\nerror: of another line", "second"])
    if how == "errors":
        raise ConfigError([f"tensor {number} is missing" for number in range(6_000)])
    if how == "traceback":
        raise RuntimeError(NASTY)
    print(f"name {NASTY}", file=sys.stderr if how == "stderr" else sys.stdout)
    return 0


def test_output_and_errors_are_escaped(capsys):
    streams = sys.stdout, sys.stderr
    assert command("stdout") == command("stderr") == 0
    assert capsys.readouterr() == (f"name {ESCAPED}\n", f"name {ESCAPED}\n")
    assert command("error") == 2
    assert capsys.readouterr().err == f"error: runs/{ESCAPED}\\nerror: of another line\nerror: second\n"
    assert command("errors") == 2
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[49:]) == (51, ["error: tensor 49 is missing", "error: and 5,950 more"])
    with pytest.raises(RuntimeError):
        command("traceback")
    assert (sys.stdout, sys.stderr) == streams


@pytest.mark.parametrize("closed", ["1", "2", "1 2"])
def test_commands_run_with_closed_output_streams(closed, tmp_path):
    """Files that the command opens must not take the descriptors of the closed streams."""
    words = " ".join(f"{one}>&-" for one in closed.split())
    script = f'"{sys.executable}" -m zoo.cli.main new experiment mine {words}'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "mine.py").read_text().startswith('"""')


@contextlib.contextmanager
def unread_output(redirect=contextlib.redirect_stdout):
    """A standard output whose reader has gone, as that of `| head`."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as stream, redirect(stream):
        yield


@pytest.mark.promise(reason="trains a model")
def test_a_run_goes_on_when_nobody_reads_its_progress(tmp_path):
    with unread_output():
        assert train.main(["--config=gpt2:smoke", f"--workdir={tmp_path}/run"]) == 0
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert (status["state"], status["step"]) == ("done", status["steps"])


@pytest.mark.parametrize(("flush", "code"), [(True, 128 + signal.SIGPIPE), (False, 4)])
def test_a_command_that_could_not_end_does_not_say_that_it_did(flush, code):
    """What is only in the buffer when it ends is no part of its work."""

    @reported
    def prints() -> int:
        print("a line", flush=flush)
        return 4

    with unread_output():
        assert prints() == code


def test_an_error_that_nobody_reads_keeps_its_exit_code():
    @reported
    def fails() -> int:
        print_while_read("step 1", sys.stdout)
        raise DataError("a line is broken")

    with unread_output(), unread_output(contextlib.redirect_stderr):
        assert fails() == DataError.exit_code


def test_tables_are_escaped_and_keep_their_colours():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    file = Terminal()
    console = EscapedConsole(file=file, width=200, color_system="truecolor", force_terminal=True)
    table = Table("run")
    table.add_row(Text(NASTY, "red"))
    console.print(table)
    console.print(Text(NASTY), soft_wrap=True)
    written = file.getvalue()
    # Rich drops some control characters itself; a cell keeps the width of its original text.
    assert written.endswith(ESCAPED.replace(r"\x07", "").replace(r"\r", "") + "\n")
    assert "\x1b[31ma" + r"\x1b[2J" in written
    assert "\x1b[2J" not in written
    assert not {"\x9b", "\x07", "\u202e"} & set(written)


def test_the_console_of_a_command_is_not_escaped_twice(monkeypatch):
    """The console writes past the escaping stream, which would escape its colour codes."""
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)

    @reported
    def run():
        console = make_console()
        assert console.file is file
        console.print(Text("a\x1b[2Jb"))
        return 0

    assert run() == 0
    assert file.getvalue() == r"a\x1b[2Jb" + "\n"


def test_status_escapes_names_and_reasons(command_line, tmp_path):
    (tmp_path / "sweep" / "run").mkdir(parents=True)
    record = {"name": "x\x1b[31m", "runs": [{"folder": "run"}, {"folder": "r\x1b]0;t\x07"}]}
    (tmp_path / "sweep" / "experiment.json").write_text(json.dumps(record))
    (tmp_path / "sweep" / "run" / "status.json").write_text(
        json.dumps({"state": "failed", "step": 2, "steps": 4, "reason": "a\x1b[2J\x9b\nb"})
    )
    code, out, err = command_line("status", "sweep")
    assert (code, err) == (0, "")
    assert r"a\x1b[2J\x9b b" in out
    assert r"r\x1b]0;t\x07" in out
    assert r"x\x1b[31m: 1 waiting, 1 failed" in out
    code, _, err = command_line("status", "no\x1b[2Jthing")
    assert (code, err) == (2, "error: no\\x1b[2Jthing is not a folder\n")
