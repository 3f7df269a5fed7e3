"""The lock of a sweep folder, which keeps a second `zoo run` out."""

import fcntl
import json
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from zoo.errors import ConfigError, not_writable
from zoo.files import parse_json


class SweepLock:
    """Holds a sweep folder while this process, or a run that it started, lives.

    Child processes inherit the descriptor. The system releases the lock when the last of them has
    ended, so runs that outlive a killed parent are not started a second time.

    Raises:
        ConfigError: another process holds the folder, or it cannot be written.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise not_writable(folder, error, "--output") from error
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = self._describe_holder() if isinstance(error, BlockingIOError) else _no_locks(folder, error)
            os.close(self.descriptor)
            raise ConfigError(holder) from error
        self.record_children([])

    def record_children(self, children: Iterable[int]) -> None:
        """Records the process ids of the holder, for the error message of a second `zoo run`."""
        content = {"host": socket.gethostname(), "process": os.getpid(), "runs": sorted(children)}
        # On a full disk the folder is held without the record.
        with suppress(OSError):
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, json.dumps(content).encode(), 0)

    def close(self) -> None:
        os.close(self.descriptor)

    def _describe_holder(self) -> str:
        try:
            content = parse_json(os.pread(self.descriptor, 10000, 0))
            process, host, runs = content["process"], content["host"], content["runs"]
            if not all(type(number) is int and 0 < number < 2**31 for number in [process, *runs]):
                raise ValueError("not process ids")
        except (OSError, ValueError, KeyError, TypeError):
            return f"{self.folder} is in use by another process"
        if host == socket.gethostname() and not is_alive(process):
            alive = " ".join(str(child) for child in runs if is_alive(child))
            return (
                f"{self.folder}: runs started by process {process}, which has ended, are still training; "
                f"wait for them or stop them with: kill {alive}"
            )
        return f"{self.folder} is in use by process {process} on {host}; wait for it, or use another --output"


def is_alive(process: int) -> bool:
    """Returns whether a process of this id runs on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def _no_locks(folder: Path, error: OSError) -> str:
    return f"--output {folder} cannot be locked ({error.strerror}); name a folder on a file system that has locks"
