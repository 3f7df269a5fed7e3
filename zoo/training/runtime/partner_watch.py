"""Ends a process in one line when another one that trains the same run has ended.

JAX finds this out too, but only after its own timeout, and then aborts the process with a C++ stack
trace; at once if process 0 is gone, which runs JAX's coordination service.
"""

import atexit
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

# A process that has failed waits this long for the others, so that each can tell its own error.
LINGER_SECONDS = 5.0
KEYS = "zoo/alive/"
FAILED, DONE = "failed", "done"
# Reads what C++ writes to standard error, and replaces what JAX's coordination says of a lost
# process, over many lines, by the one line that is its argument.
FILTER = r"""
import re, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
printed = dropping = False
for line in sys.stdin.buffer:
    if re.match(rb"[IWEF]\d{4} \d\d:", line):
        dropping = re.search(rb" (coordination_service\w*|preemption_sync_manager|client)\.(cc|h):", line)
    if b"Terminating process because the JAX distributed service" in line and not printed:
        printed = True
        sys.stderr.write(sys.argv[1] + "\n")
    if not dropping and not printed:
        sys.stderr.buffer.write(line)
    sys.stderr.flush()
"""


def filter_native_errors(line: str) -> None:
    """Sends what C++ writes to standard error through a process that outlives an abort.

    What Python writes goes where it went.

    Args:
        line: what to print in place of JAX's messages about a lost process.
    """
    sys.stderr.flush()
    original = os.dup(2)
    filtering = subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", FILTER, line], stdin=subprocess.PIPE, start_new_session=True
    )
    os.dup2(filtering.stdin.fileno(), 2)
    filtering.stdin.close()
    sys.stderr = os.fdopen(original, "w", buffering=1, errors="backslashreplace")


def end_after(seconds: float, line: str, code: int) -> threading.Timer:
    """Ends the process after some time, even while C++ waits, unless the timer is cancelled."""
    timer = threading.Timer(seconds, end_process, (line, code))
    timer.daemon = True
    timer.start()
    return timer


def end_process(line: str, code: int) -> None:
    """Prints a line and ends the process, without JAX's shutdown, which waits for all processes."""
    print(f"error: {line}", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(code)


class PartnerWatch:
    """Tells the other processes that this one is alive, and ends it when one of them is not.

    Args:
        client: JAX's client of the coordination service, a store of keys and values.
        process: number of this process.
        processes: number of processes.
        timeout: seconds of silence after which a process is lost.
        end: called with (line, exit code).
    """

    def __init__(
        self, client: Any, process: int, processes: int, timeout: float, end: Callable[[str, int], None] = end_process
    ):
        self._client, self._process, self._processes = client, process, processes
        self._timeout, self._end = timeout, end
        self._code: int | None = None
        # By process: its last sign of life, and when it changed.
        self._seen: dict[int, tuple[str, float]] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Starts to watch, until the process ends."""
        self._thread.start()
        # Registered after JAX's own, so that it is called before.
        atexit.register(self.close)

    def _run(self) -> None:
        count = 0
        while not self._stopped.wait(self._timeout / 10):
            count += 1
            if line := self.check(str(count), time.monotonic()):
                if not self._stopped.is_set():
                    self._end(line, 1)
                return

    def check(self, sign: str, now: float) -> str | None:
        """Gives a sign of life and looks for the signs of the others.

        Args:
            sign: any value that differs from the last one.
            now: seconds of a monotonic clock.

        Returns:
            A line if one is lost, or has failed; else None.
        """
        try:
            self._client.key_value_set(f"{KEYS}{self._process}", sign, allow_overwrite=True)
            signs = self._signs()
        except Exception:  # Whatever JAX raises when process 0, which runs the service, is gone.
            return lost_line(0, self._processes)
        for other in set(range(self._processes)) - {self._process}:
            found = signs.get(other, "")
            if found == FAILED:
                return f"process {other} of {self._processes} has failed, see its own output; {CONTINUES}"
            if found != self._seen.get(other, (None, 0.0))[0]:
                self._seen[other] = found, now
            elif found != DONE and now - self._seen[other][1] > self._timeout:
                return lost_line(other, self._processes, self._timeout)
        return None

    def _signs(self) -> dict[int, str]:
        return {int(key.rpartition("/")[2]): value for key, value in self._client.key_value_dir_get(KEYS)}

    def explain(self) -> None:
        """Waits, after an error in training, to see whether a lost process explains it, and then ends
        this process.
        """
        self._thread.join(1.5 * self._timeout)

    def fail(self, code: int) -> None:
        """Tells the others that this process ends with an error, of this exit code."""
        self._code = code

    def close(self) -> None:
        """Tells the others that this process has ended; after an error, ends it without waiting for
        them.
        """
        self._stopped.set()
        try:
            sign = DONE if self._code is None else FAILED
            self._client.key_value_set(f"{KEYS}{self._process}", sign, allow_overwrite=True)
            until = time.monotonic() + LINGER_SECONDS
            while self._code is not None and self._process == 0 and time.monotonic() < until:
                if all(self._signs().get(other) in (FAILED, DONE) for other in range(1, self._processes)):
                    break
                time.sleep(0.1)
        except Exception:  # The service is gone.
            pass
        if self._code is not None:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._code)


CONTINUES = "the same command continues from the last checkpoint"


def lost_line(process: int, processes: int, timeout: float | None = None) -> str:
    """Returns the line about a process that is lost."""
    silence = "" if timeout is None else f": no sign of life for {timeout:g} s"
    return f"process {process} of {processes} has ended or cannot be reached{silence}; {CONTINUES}"
