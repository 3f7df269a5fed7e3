"""One attempt at a run, under any launcher: its command, config.json and exit code."""

import os
import signal
import sys
from pathlib import Path

from zoo import config
from zoo.config import check_records, plugins
from zoo.errors import Diverged, Preempted
from zoo.files import open_file, write_json
from zoo.lab.launch.sweep_folder import recorded_config
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.prerequisites import resolve_references
from zoo.training.records.extension import find_extension, record_extension
from zoo.training.records.run_folder import RunFolder

# Beginnings of lines that SLURM's programs write into the output of a task.
ADDED_BY_SLURM = ("srun: ", "slurmstepd: ", "slurmstepd-")


def train_command(folder: Path) -> list[str]:
    """Returns the command that trains, or continues, the run in `folder`."""
    return [sys.executable, "-m", "zoo.cli.train", f"--config={folder / 'config.json'}", f"--workdir={folder}"]


def write_config(sweep: Path, run: PlannedRun) -> None:
    """Creates the run's folder in the sweep's, with the config.json and the plug-ins that the
    attempt reads. A run of fewer steps that is there already will be trained longer.
    """
    folder = sweep / run.folder
    folder.mkdir(exist_ok=True)
    plugins.store(folder, run.config.plugins)
    check_records.store(folder, run.config.plugins)
    resolved = resolve_references(run.config, lambda name: str(sweep / name))
    there = RunFolder(folder)
    if (before := recorded_config(there)) and (longer := find_extension(there, before, resolved)):
        record_extension(folder, there.meta, resolved, longer)
    write_json(folder / "config.json", config.to_plain(resolved))


def classify_exit(code: int, last_line: str) -> tuple[str, str]:
    """Returns (state, reason) of an attempt that did not finish its run.

    The state is "diverged", "preempted", "killed" or "failed".

    Args:
        code: as `subprocess` gives it: negative for a signal.
        last_line: last line of its output.
    """
    if code == Diverged.exit_code:
        return "diverged", "the loss or the gradient was not finite"
    if code == Preempted.exit_code:
        return "preempted", "was stopped by a signal, and saved"
    if code < 0:
        return "killed", f"killed by {_signal_name(-code)}"
    return "failed", last_line or f"ended with exit code {code} and no message"


def last_line(log: Path, offset: int = 0) -> str:
    """Returns the last line of a log after `offset` bytes, usually the message of an exception;
    empty if there is none. What srun and SLURM's daemons add to it counts only if there is no other.
    """
    try:
        with open_file(log) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(offset, size - 8192))
            lines = file.read().decode(errors="replace").split("\n")
    except (OSError, ValueError):
        return ""
    lines = [line.strip()[:300] for line in reversed(lines) if line.strip()]
    return next((line for line in lines if not line.startswith(ADDED_BY_SLURM)), lines[0] if lines else "")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
