"""Processes that train one run together: how they react when another one is lost, fails or never
starts.
"""

import os
import subprocess
import sys

import pytest

from zoo.errors import ConfigError, Preempted
from zoo.training.runtime import partner_watch, processes
from zoo.training.runtime.partner_watch import DONE, FAILED, FILTER, KEYS, PartnerWatch

pytestmark = pytest.mark.faults


class Store:
    """A fake key-value store of JAX's coordination service."""

    def __init__(self):
        self.values, self.gone = {}, False

    def key_value_set(self, key, value, allow_overwrite):
        assert allow_overwrite
        if self.gone:
            raise RuntimeError("UNAVAILABLE: Socket closed")
        self.values[key] = value

    def key_value_dir_get(self, folder):
        return [(key, value) for key, value in self.values.items() if key.startswith(folder)]


def watch(store, process=0, number=3, timeout=10.0, **more):
    return PartnerWatch(store, process, number, timeout, **more)


def test_process_without_heartbeat_is_lost():
    store = Store()
    one = watch(store)
    for now in (0, 9, 18):
        store.values |= {f"{KEYS}1": f"{now}", f"{KEYS}2": f"{now}"}
        assert one.check(str(now), now) is None
    store.values[f"{KEYS}2"] = DONE
    assert one.check("a", 27) is None
    line = one.check("b", 29)
    assert line.startswith("process 1 of 3 has ended or cannot be reached: no sign of life for 10 s; the same command")
    assert store.values[f"{KEYS}0"] == "b"


def test_failed_process_ends_the_others_at_once():
    store = Store()
    store.values[f"{KEYS}2"] = FAILED
    assert watch(store).check("a", 0).startswith("process 2 of 3 has failed, see its own output; ")


def test_process_0_is_lost_if_the_service_is_unreachable():
    store = Store()
    store.gone = True
    assert watch(store, process=1).check("a", 0).startswith("process 0 of 3 has ended or cannot be reached; ")


def test_watch_thread_ends_the_process(monkeypatch):
    ended = []
    one = watch(Store(), number=2, timeout=0.05, end=lambda *end: ended.append(end))
    monkeypatch.setattr(partner_watch.atexit, "register", lambda function: None)
    one.start()
    one.explain()
    one._thread.join()
    assert [code for _, code in ended] == [1]
    assert "no sign of life for 0.05 s" in ended[0][0]


@pytest.mark.parametrize(("code", "sign", "exits"), [(None, DONE, []), (3, FAILED, [3])])
def test_end_of_a_process_is_announced_to_the_others(code, sign, exits, monkeypatch):
    ended, store = [], Store()
    monkeypatch.setattr(partner_watch, "LINGER_SECONDS", 0.0)
    monkeypatch.setattr(partner_watch.os, "_exit", ended.append)
    one = watch(store)
    if code is not None:
        one.fail(code)
    one.close()
    assert (store.values[f"{KEYS}0"], ended) == (sign, exits)


@pytest.mark.parametrize(
    ("error", "announced"),
    [(ConfigError("x"), [2]), (ValueError("x"), [1]), (Preempted("x"), []), (KeyboardInterrupt(), [1])],
)
def test_errors_are_announced_unless_all_processes_stop(error, announced, monkeypatch):
    codes, one = [], watch(Store())
    monkeypatch.setattr(one, "fail", codes.append)
    monkeypatch.setattr(processes, "_watch", one)
    with pytest.raises(type(error)), processes.watched_by_partners():
        raise error
    assert codes == announced


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan", "1e9"])
def test_bad_timeouts_are_refused(text, monkeypatch):
    monkeypatch.setenv("ZOO_JOIN_SECONDS", text)
    with pytest.raises(ConfigError, match=r"ZOO_JOIN_SECONDS='.*': expected a number of seconds, at least 1"):
        processes.join(processes.ProcessGroup(0, 2, "localhost:1"))


@pytest.mark.parametrize("process", [0, 1])
def test_missing_process_is_named_in_one_line(process, monkeypatch, capsys):
    """In a real run the timer ends the process while JAX waits; here it only prints the line."""
    codes, timers = [], []

    def initialize(*arguments, initialization_timeout, heartbeat_timeout_seconds, **more):
        assert (initialization_timeout > 1, heartbeat_timeout_seconds > 2 * 7) == (True, True)
        timers[0].join()
        raise RuntimeError("DEADLINE_EXCEEDED")

    def end_after(*arguments):
        timers.append(made(*arguments))
        return timers[0]

    made = partner_watch.end_after
    monkeypatch.setattr(partner_watch, "end_after", end_after)
    monkeypatch.setattr(partner_watch, "filter_native_errors", lambda line: None)
    monkeypatch.setattr(partner_watch.os, "_exit", codes.append)
    monkeypatch.setattr(processes.jax.distributed, "initialize", initialize)
    monkeypatch.setenv("ZOO_JOIN_SECONDS", "1")
    monkeypatch.setenv("ZOO_PARTNER_SECONDS", "7")
    with pytest.raises(ConfigError):
        processes.join(processes.ProcessGroup(process, 2, "nowhere:123"))
    assert codes == [2]
    assert capsys.readouterr().err.startswith(
        f"error: process {process} of 2 has waited 1 s for process {1 - process} at nowhere:123; "
    )


def test_jax_errors_about_a_lost_process_become_one_line():
    given = """[Gloo] Rank 1 is connected
W1123 10:42:05.750903   24624 preemption_sync_manager.cc:147] Failed to retrieve preemption notice
Additional GRPC error information: Socket closed
W1123 10:42:05.750903   24624 something.cc:1] of another kind
E1123 10:44:10.389561   25999 coordination_service_agent.cc:289] Polled an error
F1123 10:44:10.389615   25999 client.h:80] Terminating process because the JAX distributed service detected fatal errors.
*** Check failure stack trace: ***
    @     0x7f7946a40634  absl::lts_20260107::log_internal::LogMessage::SendToLog()
"""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", FILTER, "error: lost"], input=given, capture_output=True, text=True
    )
    assert done.stderr.splitlines() == [
        "[Gloo] Rank 1 is connected",
        "W1123 10:42:05.750903   24624 something.cc:1] of another kind",
        "error: lost",
    ]


def test_error_filter_keeps_python_output():
    program = (
        "import os, sys\nfrom zoo.training.runtime.partner_watch import filter_native_errors\n"
        "filter_native_errors('error: lost')\nprint('of Python', file=sys.stderr)\n"
        "os.write(2, b'F1123 10:44:10.389615   25999 client.h:80] Terminating process because the JAX distributed service x\\n')\n"
        "os.abort()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ)
    assert done.returncode == -6
    assert done.stderr.splitlines() == ["of Python", "error: lost"]
