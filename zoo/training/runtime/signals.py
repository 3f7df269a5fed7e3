"""How a run is asked to save and stop."""

import signal
import threading
import time
from typing import Any

import jax

from zoo.training.runtime.processes import PreemptionSync


class StopSignal:
    """Remembers SIGTERM, SIGINT and SIGHUP, so that the loop can save before it ends.

    A second signal ends the process at once, but repeats within one second count as one: a
    scheduler and a sweep may both forward the same request. Signals reach only the main thread; in
    other threads no handler is installed and a stop is never requested. As a context manager it
    restores the previous handlers on exit.

    Several processes that train together must stop at the same step. There a signal takes effect at
    the sync point that `PreemptionSync` picks, and `requested` changes only in `poll`.

    Attributes:
        requested: whether the run is to stop.
    """

    def __init__(self):
        self.requested = False
        self._preemption = PreemptionSync() if jax.process_count() > 1 else None
        self._first = 0.0
        self._previous_handlers: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # With several processes JAX handles SIGTERM.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[self._preemption is not None :]:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._previous_handlers[number] = signal.signal(number, self._handle)

    def __enter__(self) -> "StopSignal":
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def poll(self) -> bool:
        """Returns whether to stop now. Every process must call it equally often."""
        if self._preemption is not None:
            self.requested = self._preemption.reached()
        return self.requested

    def _handle(self, number: int, frame: Any) -> None:
        del frame
        if self._preemption is not None:
            signal.raise_signal(signal.SIGTERM)
            return
        if self.requested and time.monotonic() - self._first > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if not self.requested:
            self.requested, self._first = True, time.monotonic()
