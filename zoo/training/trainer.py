"""Trains runs, from configs to finished folders: one separately, or several in one loop.

check -> load -> make_program -> start -> train -> finish
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from zoo.data import SharedDatasets
from zoo.errors import ConfigError
from zoo.training.executor import make_executor
from zoo.training.loop import train
from zoo.training.program_cache import ProgramCache
from zoo.training.records.run_record import parameters_sha256
from zoo.training.run_group import RunGroup
from zoo.training.runtime.compilation_cache import use_compilation_cache
from zoo.training.runtime.device_memory import peak_memory
from zoo.training.runtime.processes import await_lost_partner
from zoo.training.runtime.signals import StopSignal
from zoo.training.startup import Checked, RunRequest, check, load, start
from zoo.training.state import State
from zoo.training.training_run import TrainingRun

Outcome = dict[str, Any] | Exception
"""The final status of a run, as in status.json, or the error that ended it."""


def run(
    config: ml_collections.ConfigDict,
    workdir: Path,
    log: Callable[[str], None] = print,
    programs: ProgramCache | None = None,
) -> dict[str, Any]:
    """Trains a config in `workdir`, from the start or from the latest checkpoint in it.

    Args:
        config: not resolved.
        workdir: the run's folder.
        log: called with each line of console output.
        programs: programs of earlier runs of this process; takes the one of this run.

    Returns:
        The final status, as in status.json.

    Raises:
        ConfigError: a bad config, or a workdir that belongs to another run; no record of a run is
            changed.
        DataError: bad content of data; status.json records it, as for the following two.
        Diverged: the loss or the gradient is not finite.
        Preempted: stopped by a signal, with everything saved.
    """
    (outcome,) = train_runs([RunRequest(config, workdir, log)], programs=programs)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def train_runs(
    requests: Sequence[RunRequest], executor: str = "single", programs: ProgramCache | None = None
) -> list[Outcome]:
    """Trains several runs in one loop.

    Each run has its own folder and can be resumed separately or in any other group. An error of one
    run, before or during training, ends that run; an error of the loop ends all.

    Args:
        requests: the runs; all have the same `zoo.config.program_key`.
        executor: name of the executor that computes their steps (`zoo.training.executor`).
        programs: see `run`.

    Returns:
        How each run ended.
    """
    use_compilation_cache()
    outcomes: dict[int, Outcome] = {}
    with contextlib.ExitStack() as resources:
        unfinished: dict[int, Checked] = {}
        for index, request in enumerate(requests):
            try:
                checked = check(request, executor, resources)
            except Exception as error:
                outcomes[index] = error
                continue
            if checked.final_status is None:
                unfinished[index] = checked
            else:
                outcomes[index] = checked.final_status
        outcomes |= _train_checked(unfinished, executor, programs or ProgramCache())
    return [outcomes[index] for index in range(len(requests))]


def _train_checked(checked: Mapping[int, Checked], executor: str, programs: ProgramCache) -> dict[int, Outcome]:
    """Loads, starts and trains runs; returns how each ended."""
    outcomes: dict[int, Outcome] = {}
    runs, states = _start_runs(checked, outcomes, programs)
    try:
        if runs:
            _train_started(runs, states, executor, checked, outcomes)
    except Exception as error:
        await_lost_partner(error)
        for index, training_run in runs.items():
            if index not in outcomes:
                step = training_run.progress.step
                outcomes[index] = training_run.error or checked[index].status.write_failure(error, step)
    return outcomes


def _start_runs(
    checked: Mapping[int, Checked], outcomes: dict[int, Outcome], programs: ProgramCache
) -> tuple[dict[int, TrainingRun], list[State]]:
    """Returns the runs that could be started, and their states; adds the others to `outcomes`."""
    program, rows_from, runs, states, datasets = None, None, {}, [], SharedDatasets()
    for index, one in checked.items():
        try:
            loaded = load(one, datasets)
            if program is None:
                program, rows_from = programs.program(one.config, loaded), loaded.rows_from
            if loaded.rows_from != rows_from:
                raise ConfigError(
                    f"{one.folder.path} goes on with the kernel of attention that an earlier version chose, and the "
                    "others have another: train it by itself"
                )
            started = start(loaded, program)
        except Exception as error:
            await_lost_partner(error)
            outcomes[index] = one.status.write_failure(error)
            continue
        runs[index] = started.run
        states.append(started.state)
    return runs, states


def _train_started(
    runs: Mapping[int, TrainingRun],
    states: list[State],
    executor_name: str,
    checked: Mapping[int, Checked],
    outcomes: dict[int, Outcome],
) -> None:
    """Trains runs to the end and adds how each ended to `outcomes`; `states` is emptied."""
    together = list(runs.values())
    executor = make_executor(together[0].program, [one.constants for one in together], executor_name)
    state = executor.combine(states)
    states.clear()
    with StopSignal() as stop:  # Until the last save is on disk: a repeated signal must not interrupt it.
        try:
            state = train(RunGroup(executor, together), state, stop)
        finally:
            for one in together:
                one.close()
    for number, (index, one) in enumerate(runs.items()):
        outcomes[index] = one.error or finish(one, executor.state_of(state, number), checked[index])


def finish(training_run: TrainingRun, state: State, checked: Checked) -> dict[str, Any]:
    """Records that a run is done with this state; returns its final status."""
    seconds = training_run.progress.clock.seconds
    sha256 = parameters_sha256(state["params"])
    return checked.status.write_done(int(state["step"]), sha256, seconds, peak_memory())
