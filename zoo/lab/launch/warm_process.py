"""A process that trains one run after another, seen from the pool."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO


class WarmProcess:
    """A process of `zoo.cli.sweeps.train_worker`: imports, data and compiled programs of one run
    serve the next.

    It trains one run at a time. A run that fails ends it, so that every other run begins in a
    process without a fault; so does the end of the pool, after the run that it is training.

    Args:
        environment: the process's environment.
        inherited: file descriptors that it inherits.
        log: open file that its output goes to until the first run names its own.

    Attributes:
        environment: the process's environment.
        plugins: the field `plugins` of the runs that it has trained.
        returncode: exit code of the last run, None while it is training.
    """

    def __init__(self, environment: Mapping[str, str], inherited: tuple[int, ...], log: IO[bytes]):
        self.environment = dict(environment)
        self._replies, reply = os.pipe()
        os.set_blocking(self._replies, False)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "zoo.cli.sweeps.train_worker", str(reply)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
                pass_fds=(*inherited, reply),
            )
        except OSError:
            os.close(self._replies)
            raise
        finally:
            os.close(reply)
        self.plugins: tuple[str, ...] | None = None
        self.returncode: int | None = None

    @property
    def pid(self) -> int:
        """Returns the process's id, which is also that of its group."""
        return self._process.pid

    def train(self, folder: Path, plugins: tuple[str, ...]) -> bool:
        """Hands a run to the process; returns False if the process has ended."""
        self.plugins, self.returncode = plugins, None
        try:
            self._process.stdin.write((json.dumps({"folder": str(folder)}) + "\n").encode())
            self._process.stdin.flush()
        except OSError:
            return False
        return self._process.poll() is None

    def poll(self) -> int | None:
        """Returns the exit code of the run, None while it is training."""
        if self.returncode is None:
            ended = self._process.poll()
            with suppress(BlockingIOError):
                if os.read(self._replies, 16):
                    self.returncode = 0
            if self.returncode is None:
                self.returncode = ended
        return self.returncode

    @property
    def usable(self) -> bool:
        """Returns whether the process waits for another run."""
        return self.returncode == 0 and self._process.poll() is None

    def terminate(self) -> None:
        """Asks the process to save and end."""
        self._process.terminate()

    def close(self) -> None:
        """Ends the process after the run that it is training, without waiting for it."""
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self) -> None:
        """Waits for the end of the process, and releases what the pool holds of it."""
        self.close()
        self._process.wait()
        with suppress(OSError):
            os.close(self._replies)
