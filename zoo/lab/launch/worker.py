"""One attempt at a run, whoever launches it: the command, the config that it reads, and what its
end means.
"""

import os
import signal
import sys
from pathlib import Path

from zoo import config
from zoo.errors import Diverged, Preempted
from zoo.files import write_json
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.prerequisites import resolve_references


def command(folder: Path) -> list[str]:
    """The command that trains, or continues, the run in `folder`."""
    return [sys.executable, "-m", "zoo.cli.train", f"--config={folder / 'config.json'}", f"--workdir={folder}"]


def write_config(sweep: Path, run: PlannedRun) -> None:
    """Makes the run's folder in the sweep's, with the config.json that the attempt reads."""
    (sweep / run.folder).mkdir(exist_ok=True)
    write_json(sweep / run.folder / "config.json", config.to_plain(resolve_references(run.config, lambda name: str(sweep / name))))


def meaning(code: int, last_line: str) -> tuple[str, str]:
    """What the end of an attempt that is not done means: ("diverged", "preempted", "killed" or
    "failed", why).

    Args:
        code: as `subprocess` gives it: negative for a signal.
        last_line: of what it printed.
    """
    if code == Diverged.exit_code:
        return "diverged", "the loss or the gradient was not finite"
    if code == Preempted.exit_code:
        return "preempted", "was told to stop, and saved"
    if code < 0:
        return "killed", f"killed by {_signal_name(-code)}"
    return "failed", last_line or f"ended with exit code {code} and no message"


def last_line(log: Path, offset: int = 0) -> str:
    """The last line of a log from `offset` on, as a rule the message of an exception; empty if
    there is none.
    """
    try:
        with open(log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - 8192))
            lines = file.read().decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
