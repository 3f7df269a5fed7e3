"""How a run is asked to save and end."""

import signal
import threading
import time
from typing import Any

import jax

from zoo.training.runtime.processes import Agreement


class StopSignal:
    """Remembers SIGTERM, SIGINT and SIGHUP, so that the loop can save before it ends; a second one
    ends the process at once.

    A scheduler and a sweep may both pass on the same request: repeats within a second count as one.
    Signals reach only the main thread; elsewhere nothing is installed and nothing is ever
    requested. As a context it gives the handlers back at its end, so that whoever called the run is
    interrupted as before.

    Where several processes train together, they have to stop at the same step: a signal to one of
    them counts from the moment that `Agreement` chooses, and `requested` changes in `ask` only.
    """

    def __init__(self):
        self.requested = False
        self._agreement = Agreement() if jax.process_count() > 1 else None
        self._first = 0.0
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # With several processes SIGTERM is JAX's.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)[self._agreement is not None :]:
                if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                    self._before[number] = signal.signal(number, self._handle)

    def __enter__(self) -> "StopSignal":
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def ask(self) -> bool:
        """Whether to stop now. Every process has to ask equally often."""
        if self._agreement is not None:
            self.requested = self._agreement.ask()
        return self.requested

    def _handle(self, number: int, frame: Any) -> None:
        del frame
        if self._agreement is not None:
            signal.raise_signal(signal.SIGTERM)
            return
        if self.requested and time.monotonic() - self._first > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        if not self.requested:
            self.requested, self._first = True, time.monotonic()
