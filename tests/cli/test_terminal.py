"""Control characters of foreign text are shown and not obeyed, wherever the text comes from."""

import io
import json
import subprocess
import sys

import pytest
from rich.table import Table
from rich.text import Text

from zoo.cli.console import EscapedConsole, make_console
from zoo.errors import ConfigError, reported
from zoo.terminal import escape, escape_line

NASTY = "a\x1b[2Jb\x07c\rd\x9be\u202ef\x00g\udc80"
SHOWN = r"a\x1b[2Jb\x07c\rd\x9be\u202ef\x00g\udc80"


def test_only_what_a_terminal_obeys_is_escaped():
    assert escape(f"{NASTY}\n\tx") == f"{SHOWN}\n\tx"
    assert escape_line(f"{NASTY}\n\tx") == rf"{SHOWN}\n\tx"
    harmless = "grün, 漢字, ⏎, \N{NO-BREAK SPACE}, \U0001f469\u200d\U0001f52c, C:\\dir"
    assert escape(harmless) == harmless
    assert escape(escape(NASTY)) == SHOWN


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


def test_output_and_errors_of_every_command(capsys):
    streams = sys.stdout, sys.stderr
    assert command("stdout") == command("stderr") == 0
    assert capsys.readouterr() == (f"name {SHOWN}\n", f"name {SHOWN}\n")
    assert command("error") == 2
    assert capsys.readouterr().err == f"error: runs/{SHOWN}\\nerror: of another line\nerror: second\n"
    assert command("errors") == 2
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[49:]) == (51, ["error: tensor 49 is missing", "error: and 5,950 more"])
    with pytest.raises(RuntimeError):
        command("traceback")
    assert (sys.stdout, sys.stderr) == streams


@pytest.mark.parametrize("closed", ["1", "2", "1 2"])
def test_a_command_without_output_runs(closed, tmp_path):
    """The shell closes the streams; a file of the command must not get their descriptors."""
    words = " ".join(f"{one}>&-" for one in closed.split())
    script = f'"{sys.executable}" -m zoo.cli.main new experiment mine {words}'
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "mine.py").read_text().startswith('"""')


def test_tables_and_colours_of_a_terminal():
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
    # Rich itself leaves out some; a cell is as wide as what it was given.
    assert written.endswith(SHOWN.replace(r"\x07", "").replace(r"\r", "") + "\n")
    assert "\x1b[31ma" + r"\x1b[2J" in written
    assert "\x1b[2J" not in written
    assert not {"\x9b", "\x07", "\u202e"} & set(written)


def test_the_console_of_a_command_is_not_escaped_twice(monkeypatch):
    """The colours are its own, and are for the stream inside."""
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)

    @reported
    def run():
        made = make_console()
        assert made.file is file
        made.print(Text("a\x1b[2Jb"))
        return 0

    assert run() == 0
    assert file.getvalue() == r"a\x1b[2Jb" + "\n"


def test_names_and_reasons_in_status(command_line, tmp_path):
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
