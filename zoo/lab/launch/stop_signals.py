"""Signals that ask a launcher to stop: the first one saves, a second one kills."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Signals within this time count as one.
REPEATED_SECONDS = 1.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Hands SIGINT, SIGTERM and SIGHUP to a launcher.

    Args:
        on_signal: is called at each signal: with False at the first one, with True at a later one.

    Attributes:
        stopped: whether a signal has arrived.
    """

    def __init__(self, on_signal: Callable[[bool], None]):
        self._on_signal = on_signal
        self._time: float | None = None

    @property
    def stopped(self) -> bool:
        return self._time is not None

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handles the signals in its body."""
        # Under nohup, SIGHUP is ignored and must stay so.
        numbers = [
            number for number in STOP_SIGNALS if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN
        ]
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        # A closing terminal, for example, sends two signals within moments.
        if self._time is not None and time.monotonic() - self._time < REPEATED_SECONDS:
            return
        again, self._time = self._time is not None, time.monotonic()
        self._on_signal(again)
