"""From configs to finished folders: one run alone, or several together in one loop."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from zoo.training.executor import make_crew
from zoo.training.loop import train
from zoo.training.runtime.signals import StopSignal
from zoo.training.step import make_program
from zoo.training.trainer import Attempt, use_compilation_cache

Outcome = dict[str, Any] | Exception
"""The final status of a run, as in status.json, or why there is none."""


def run(config: ml_collections.ConfigDict, workdir: Path, log: Callable[[str], None] = print) -> dict[str, Any]:
    """Trains a config in `workdir`, from the start or from the checkpoint that is there.

    Returns:
        The final status, as in status.json.

    Raises:
        ConfigError: a bad config, or a workdir that belongs to another run; no record of any run
            was touched.
        DataError, Diverged, Preempted: as they say; status.json records it.
    """
    (outcome,) = run_together([Attempt(config, workdir, log)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def run_together(attempts: Sequence[Attempt], executor: str = "alone") -> list[Outcome]:
    """Trains several runs in one loop (`zoo.training.executor`), each in a folder of its own, where
    it can be continued in any company.

    What goes wrong with one of them, before or while it trains, ends that one; what goes wrong with
    the loop ends all.

    Args:
        attempts: the runs; by `zoo.config.program_key` they are all alike.
        executor: how their steps are computed.
    """
    use_compilation_cache()
    with contextlib.ExitStack() as held:
        for attempt in attempts:
            with attempt.ending():
                attempt.open(held, executor)
        left = [attempt for attempt in attempts if attempt.outcome is None]
        try:
            _train(left, executor)
        except Exception as error:
            for attempt in left:
                attempt.fail(error)
        return [attempt.outcome for attempt in attempts]


def _train(attempts: list[Attempt], executor: str) -> None:
    program = None
    for attempt in list(attempts):
        with attempt.ending():
            attempt.load()
            if program is None:
                program = make_program(attempt.config, attempt.model, attempt.objective, attempt.mesh)
            attempt.begin(program)
        if attempt.outcome is not None:
            attempts.remove(attempt)
    if not attempts:
        return
    mesh, members = attempts[0].mesh, [attempt.member for attempt in attempts]
    crew = make_crew(program, [member.constants for member in members], executor, mesh)
    state = crew.together([attempt.take_state() for attempt in attempts])
    with StopSignal() as stop:  # Until the last save is on disk: a repeated signal must not cut it off.
        try:
            state = train(crew, program, members, state, stop)
        finally:
            for member in members:
                member.close()
    for index, attempt in enumerate(attempts):
        attempt.end(crew.state_of(state, index))
