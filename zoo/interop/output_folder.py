"""A folder that is written as a whole or not at all."""

import errno
import fcntl
import os
import re
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from zoo.errors import DISK_FULL, ConfigError, not_writable, os_error_number
from zoo.files import remove_tree

# No space left, quota exceeded, file too large, read-only file system.
NOT_WRITABLE = (*DISK_FULL, errno.EROFS)


@contextmanager
def atomic_folder(out: Path) -> Iterator[Path]:
    """Yields a temporary folder that becomes `out` at the end.

    If writing fails or a signal ends it, nothing is left; what a kill leaves is removed by the next
    call for the same folder.

    Raises:
        ConfigError: `out` exists and is not empty, or its parent cannot be written.
    """
    # The target of a link, not the link.
    folder = out.resolve()
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
        if not used:
            _remove_leftovers(folder)
            temporary.mkdir(parents=True)
            held = _lock(temporary)
    except OSError as error:
        raise not_writable(out, error, "--out") from error
    if used:
        raise ConfigError(f"--out {out} is there already and not an empty folder")
    try:
        with _exit_on_sigterm():
            yield temporary
            if folder.exists():
                folder.rmdir()
            temporary.rename(folder)
    except (OSError, ValueError, SafetensorError) as error:
        if os_error_number(error) not in NOT_WRITABLE:
            raise
        raise not_writable(out, error, "--out") from error
    finally:
        if temporary.exists():
            remove_tree(temporary)
        if held is not None:
            os.close(held)


def _lock(folder: Path) -> int | None:
    """Locks a folder; returns a descriptor that holds it, or None if another process does, or if
    the file system has no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_leftovers(folder: Path) -> None:
    """Removes the temporary folders of `folder` whose writers have ended."""
    pattern = re.compile(re.escape(f".{folder.name}.") + r"[0-9]+\.tmp")
    for path in folder.parent.iterdir() if folder.parent.is_dir() else ():
        if pattern.fullmatch(path.name) and path.is_dir() and (held := _lock(path)) is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Turns SIGTERM into SystemExit, so that everything is cleaned up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
