"""A run's folder belongs to one process at a time."""

import fcntl
import os
import platform
from pathlib import Path
from typing import TextIO

from zoo.errors import ConfigError


def lock_run_folder(workdir: Path) -> TextIO:
    """Creates `workdir` where necessary and locks it, so that no two runs write into one folder.

    Returns:
        The open lock file; closing it releases the lock, and so does the end of the process.

    Raises:
        ConfigError: another process holds the lock, the folder is that of a sweep, or it cannot be
            written.
    """
    if (workdir / "experiment.json").exists():
        raise ConfigError(f"--workdir {workdir} is the folder of a sweep; a run needs one of its own")
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        file = (workdir / ".lock").open("a+")
    except OSError as error:
        raise ConfigError(f"--workdir {workdir} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        raise ConfigError(f"--workdir {workdir} is in use by {file.read().strip() or 'another process'}") from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
    return file
