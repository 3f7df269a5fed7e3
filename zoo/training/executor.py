"""Executors: compute the steps of one run, or of several runs as one program with a leading run axis.

In a population, arrays of all runs are stacked along a leading axis N. The last column compares the
results with those of a run trained separately.

| executor | computation | results |
| --- | --- | --- |
| `single` | one run | |
| `map` | `jax.lax.map`: one run after the other, in one program | bit-identical on a CPU |
| `vmap` | `jax.vmap`: all runs in every operation, spread over the devices | equal up to rounding |
"""

from collections.abc import Sequence
from typing import Any, Protocol

import jax

from zoo.training.population.batch_streams import StackedBatches
from zoo.training.population.population_executor import PopulationExecutor
from zoo.training.state import State
from zoo.training.step import Evaluated, Program
from zoo.training.update import Constants, Metrics


class StepExecutor(Protocol):
    """Holds the states of one or more runs together and computes their steps."""

    def combine(self, states: Sequence[State]) -> State:
        """Returns the states of all runs as one; their memory may be reused."""

    def state_of(self, state: State, index: int) -> State:
        """Returns the state of one run, as if it were trained separately."""

    def step(self, state: State, batches: StackedBatches, active: Sequence[bool]) -> tuple[State, Metrics]:
        """Updates every active run; metrics stay on the device. Reuses the memory of `state`."""

    def eval_step(self, state: State, batches: StackedBatches, active: Sequence[bool]) -> Evaluated:
        """Evaluates every active run on its batch; the results stay on the device."""

    def fetch(self, results: Any) -> list[Any]:
        """Waits for any tree of results and returns that of every run, on the host."""

    def fetch_metrics(self, metrics: Metrics) -> list[dict[str, float]]:
        """Waits for the metrics of a step and returns them for every run."""


class SingleExecutor:
    """Runs the program of a single run as it is; implements `StepExecutor`."""

    def __init__(self, program: Program, constants: Constants):
        self._program, self._constants = program, constants

    def combine(self, states: Sequence[State]) -> State:
        (state,) = states
        return state

    def state_of(self, state: State, index: int) -> State:
        return state

    def step(self, state: State, batches: StackedBatches, active: Sequence[bool]) -> tuple[State, Metrics]:
        return self._program.train_step(state, self._program.put_batch(batches.of_run(0)), self._constants)

    def eval_step(self, state: State, batches: StackedBatches, active: Sequence[bool]) -> Evaluated:
        batch = self._program.put_batch(batches.of_run(0))
        return self._program.eval_step(state["params"], state["stats"], batch, self._constants)

    def fetch(self, results: Any) -> list[Any]:
        return [jax.device_get(results)]

    def fetch_metrics(self, metrics: Metrics) -> list[dict[str, float]]:
        return [{name: value.item() for name, value in jax.device_get(metrics).items()}]


def make_executor(program: Program, constants: Sequence[Constants], executor: str) -> StepExecutor:
    """Returns the executor of that name for runs with these constants."""
    return (
        SingleExecutor(program, *constants)
        if executor == "single"
        else PopulationExecutor(program, constants, executor)
    )
