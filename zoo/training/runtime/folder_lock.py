"""A run's folder belongs to one process at a time."""

import fcntl
import os
import platform
import time
from pathlib import Path
from typing import BinaryIO

from zoo.errors import ConfigError, listed, not_writable
from zoo.files import file_above, foreign_entries, open_file, read_json

# Files that a run may leave before its config.json, and after.
RECORDS = (
    *(".lock", "config.json", "meta.json", "status.json", "metrics.jsonl", "dynamics.jsonl", "tokenizer.json"),
    *("log.txt", "plugins", "checkpoints", "quarantine"),
)
# How often, and how many seconds apart, a held lock is tried before it counts as another run's.
LOOKS, SECONDS = 5, 0.1


def check_run_folder(workdir: Path) -> None:
    """Refuses a folder in which something else than a run is stored; changes nothing.

    Raises:
        ConfigError: it is the folder of a sweep, holds files of other origin, or is no folder.
    """
    if workdir.name in ("", ".."):
        raise ConfigError(f'--workdir needs a folder of its own, not "{workdir}"')
    if workdir.exists() and not workdir.is_dir():
        raise ConfigError(f"--workdir {workdir} is a file; name a folder")
    if (file := file_above(workdir)) is not None:
        raise ConfigError(f"--workdir {workdir} cannot be a folder: {file} is a file")
    try:
        if (workdir / "experiment.json").exists():
            raise ConfigError(f"--workdir {workdir} is the folder of a sweep; a run needs one of its own")
        foreign = foreign_entries(workdir, RECORDS)
    except OSError as error:
        raise ConfigError(f"--workdir {workdir} cannot be read: {error.strerror}") from error
    if (record := _read_config(workdir)) is not None:
        # Other files, such as notes or figures, were put next to a run by hand.
        foreign = [] if {"model", "data", "training"} & record.keys() else ["config.json", *foreign]
    elif any((workdir / "checkpoints").glob("[0-9]*")):
        foreign = []  # A run whose config.json is gone or damaged, which is reported later.
    if foreign:
        raise ConfigError(
            f"--workdir {workdir} holds files that are not of a run ({listed(foreign, 3)}); name a new or an empty "
            "folder"
        )


def _read_config(workdir: Path) -> dict | None:
    """Returns what config.json of a folder holds; None if there is none or it is damaged."""
    try:
        record = read_json(workdir / "config.json")
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else {}


def _try_lock(file: BinaryIO) -> bool:
    """Locks a file; a process that only looks (`is_held`) is waited for."""
    for _ in range(LOOKS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(SECONDS)
        else:
            return True
    return False


def is_held(workdir: Path) -> bool:
    """Returns whether a process, here or on another machine with the folder, trains the run."""
    try:
        with open_file(workdir / ".lock") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    except (OSError, ValueError):  # No lock file, or a file system without locks.
        return False
    return False


def lock_run_folder(workdir: Path) -> BinaryIO:
    """Creates `workdir` where necessary and locks it, so that no two runs write into one folder.

    Returns:
        The open lock file; closing it releases the lock, and so does the end of the process.

    Raises:
        ConfigError: another process holds the lock, the folder cannot be written, or
            `check_run_folder` refuses it.
        ZooError: the disk is full.
    """
    check_run_folder(workdir)
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        # Without a buffer, which could not be written when the file is closed either.
        file = (workdir / ".lock").open("ab+", buffering=0)
    except OSError as error:
        raise not_writable(workdir, error, "--workdir") from error
    try:
        locked = _try_lock(file)
    except OSError as error:
        file.close()
        raise ConfigError(
            f"--workdir {workdir} cannot be locked ({error.strerror}); name a folder on a file system that has locks"
        ) from error
    if not locked:
        file.seek(0)
        raise ConfigError(
            f"--workdir {workdir} is in use by {file.read().decode().strip() or 'another process'}"
        ) from None
    try:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}".encode())
    except OSError as error:
        file.close()
        raise not_writable(workdir, error, "--workdir") from error
    return file
