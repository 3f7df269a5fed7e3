"""Requests to save and stop a run, by signals."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

from zoo.errors import print_while_read
from zoo.training.runtime.processes import PreemptionSync

# Signals within this time count as one.
REPEATED_SECONDS = 1.0
# How long the main thread has to handle a second signal itself.
HANDLING_SECONDS = 0.5


class _SignalWatch:
    """Calls a function of each signal that Python handles, in a thread of its own.

    The main thread handles signals only between two instructions of Python, so not while XLA
    compiles, which can take minutes.

    Args:
        on_signal: called with the number of the signal.
    """

    def __init__(self, on_signal: Callable[[int], None]):
        self._on_signal = on_signal
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._previous = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while numbers := os.read(self._read, 64):
            for number in numbers:
                self._on_signal(number)

    def close(self) -> None:
        signal.set_wakeup_fd(self._previous)
        os.close(self._write)
        self._thread.join()
        os.close(self._read)


class StopSignal:
    """Remembers SIGTERM, SIGINT and SIGHUP, so that the loop can save before it ends.

    A second signal ends the process at once, but repeats within a second count as one: a
    scheduler and a sweep may both forward the same request. Signals reach only the main thread; in
    other threads no handler is installed and a stop is never requested. As a context manager it
    restores the previous handlers on exit.

    Several processes that train together must stop at the same step. There a signal takes effect at
    the sync point that `PreemptionSync` picks, and `requested` changes only in `poll`.

    The first signal immediately prints a line on standard error, even while the main thread is busy.

    Attributes:
        requested: whether the run is to stop.
        doing: what has to end before the run stops, for that line.
    """

    def __init__(self):
        self.requested, self.doing = False, "this step"
        self._preemption = PreemptionSync() if jax.process_count() > 1 else None
        self._first, self._answered = 0.0, 0.0
        self._watch: _SignalWatch | None = None
        self._previous_handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # With several processes JAX handles SIGTERM.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[self._preemption is not None :]:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._previous_handlers[number] = signal.signal(number, self._handle)
            self._watch = _SignalWatch(self._answer)

    def __enter__(self) -> "StopSignal":
        return self

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.close()
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def poll(self) -> bool:
        """Returns whether to stop now. Every process must call it equally often."""
        if self._preemption is not None:
            self.requested = self._preemption.reached()
        return self.requested

    def _answer(self, number: int) -> None:
        """Tells when the run stops; ends the process at a second signal that is not handled."""
        if number not in self._previous_handlers:
            return
        if not self._answered:
            self._answered = time.monotonic()
            print_while_read(f"stops after {self.doing} and saves; a second signal ends it at once", sys.stderr)
        elif time.monotonic() - self._answered > REPEATED_SECONDS:
            time.sleep(HANDLING_SECONDS)
            print_while_read("ended by a second signal, without saving", sys.stderr)
            os._exit(128 + number)

    def _handle(self, number: int, frame: Any) -> None:
        del frame
        if self._preemption is not None:
            signal.raise_signal(signal.SIGTERM)
            return
        if self.requested and time.monotonic() - self._first > REPEATED_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if not self.requested:
            self.requested, self._first = True, time.monotonic()
