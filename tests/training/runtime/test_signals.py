"""Signals are answered at once, even while the main thread runs no Python code."""

import hashlib
import os
import signal
import sys
import threading

import pytest

from zoo.training.runtime import signals
from zoo.training.runtime.signals import StopSignal

pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def signals_arrive():
    """Restores SIGINT, which is ignored in tests that a shell runs in the background."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Recorder:
    """A fake standard error that records whether the main thread was busy at each write."""

    def __init__(self):
        self.busy, self.written = threading.Event(), []

    def write(self, text):
        self.written.append((text, self.busy.is_set()))

    def flush(self):
        pass


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_is_answered_during_compilation(number, monkeypatch):
    errors = Recorder()
    monkeypatch.setattr(sys, "stderr", errors)

    def send():
        errors.busy.wait()
        os.kill(os.getpid(), number)

    with StopSignal() as stop:
        stop.doing = "compiling"
        sender = threading.Thread(target=send)
        sender.start()
        errors.busy.set()
        # Like a compilation, this runs no Python code and releases the GIL.
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1_500_000)
        errors.busy.clear()
        sender.join()
        assert stop.poll()
    text = "".join(text for text, _ in errors.written)
    assert text == "stops after compiling and saves; a second signal ends it at once\n"
    assert errors.written[0][1]


@pytest.mark.parametrize(("apart", "ended"), [(0.0, [130]), (1e9, [])])
def test_second_signal_ends_a_process_that_does_not_stop(apart, ended, monkeypatch, capsys):
    codes = []
    monkeypatch.setattr(signals, "HANDLING_SECONDS", 0.0)
    monkeypatch.setattr(signals, "REPEATED_SECONDS", apart)
    monkeypatch.setattr(signals.os, "_exit", codes.append)
    with StopSignal() as stop:
        for _ in range(2):
            stop._answer(signal.SIGINT)
        stop._answer(signal.SIGCHLD)
    assert codes == ended
    assert len(capsys.readouterr().err.splitlines()) == 1 + len(ended)


def test_signal_thread_ends_with_the_run():
    before, threads = signal.set_wakeup_fd(-1), threading.active_count()
    signal.set_wakeup_fd(before)
    with StopSignal():
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(before) == before
