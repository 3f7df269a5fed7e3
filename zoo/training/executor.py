"""Executors: compute the steps of one run, or of several runs as one program with a leading run axis.

In a population, arrays of all runs are stacked along a leading axis N. The last column compares the
results with those of a run trained separately.

| executor | computation | results |
| --- | --- | --- |
| `single` | one run | |
| `map` | `jax.lax.map`: one run after the other, in one program | bit-identical on a CPU |
| `vmap` | `jax.vmap`: all runs in every operation, spread over the devices | equal up to rounding |
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zoo.errors import ConfigError
from zoo.layers.activation_sharding import BATCH_AXES
from zoo.training.state import State, shardings_of
from zoo.training.step import Program
from zoo.training.update import Constants, Metrics

# Constants of a program that differ between the runs of a population; all others are the same.
CONSTANTS_PER_RUN = ("seed", "hyperparameters")

HostBatch = Mapping[str, np.ndarray]


class StepExecutor(Protocol):
    """Holds the states of one or more runs together and computes their steps."""

    def combine(self, states: Sequence[State]) -> State:
        """Returns the states of all runs as one; their memory may be reused."""

    def state_of(self, state: State, index: int) -> State:
        """Returns the state of one run, as if it were trained separately."""

    def step(self, state: State, batches: Sequence[HostBatch], active: Sequence[bool]) -> tuple[State, Metrics]:
        """Updates every active run; metrics stay on the device. Reuses the memory of `state`."""

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

    def step(self, state: State, batches: Sequence[HostBatch], active: Sequence[bool]) -> tuple[State, Metrics]:
        (batch,) = batches
        return self._program.train_step(state, self._program.put_batch(batch), self._constants)

    def fetch_metrics(self, metrics: Metrics) -> list[dict[str, float]]:
        return [{name: value.item() for name, value in jax.device_get(metrics).items()}]


class PopulationExecutor:
    """Trains N runs as one program; implements `StepExecutor`.

    Args:
        program: the program of any of the runs.
        constants: the constants of each run.
        executor: "map" or "vmap". With vmap, the runs are split over gcd(N, size of the data axis)
            groups of devices; the devices of a group split each run's batch.
    """

    def __init__(self, program: Program, constants: Sequence[Constants], executor: str):
        self._executor, self._program, self._size = executor, program, len(constants)
        self._mesh = population_mesh(program.mesh, self._size if executor == "vmap" else 1)
        own = [{name: constant[name] for name in CONSTANTS_PER_RUN} for constant in constants]
        self._own = jax.device_put(
            jax.tree.map(lambda *values: np.stack(jax.device_get(values)), *own), self._sharding()
        )
        self._shared = {name: value for name, value in constants[0].items() if name not in CONSTANTS_PER_RUN}
        states = jax.tree.map(lambda leaf: self._sharding(*leaf.sharding.spec), program.abstract_state)
        self._combine = jax.jit(
            lambda *trees: jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees), out_shardings=states
        )
        self._select = jax.jit(
            lambda tree, index: jax.tree.map(lambda leaf: leaf[index], tree),
            out_shardings=shardings_of(program.abstract_state),
        )
        self._step = jax.jit(
            self._update_all,
            donate_argnums=0,
            in_shardings=(states, self._sharding(BATCH_AXES), self._sharding(), None, None),
            out_shardings=(states, self._sharding()),
        )

    def _sharding(self, *axes: Any) -> NamedSharding:
        """Returns the sharding of an array with a leading run axis and these axes after it."""
        return NamedSharding(self._mesh, PartitionSpec("population", *axes))

    def _update_all(
        self, states: State, batches: dict[str, jax.Array], own: Constants, shared: Constants, active: jax.Array
    ) -> tuple[State, Metrics]:
        def update(run):
            state, batch, constants, _ = run
            return self._program.update(state, batch, {**shared, **constants}, self._mesh)

        def skip(run):
            # Metrics of an inactive run are never read.
            metrics = jax.eval_shape(update, run)[1]
            return run[0], jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), metrics)

        def update_if_active(run):
            return jax.lax.cond(run[3], update, skip, run)

        runs = (states, batches, own, active)
        if self._executor == "map":
            return jax.lax.map(update_if_active, runs)
        return jax.vmap(update_if_active, spmd_axis_name="population")(runs)

    def combine(self, states: Sequence[State]) -> State:
        return self._combine(*states)

    def state_of(self, state: State, index: int) -> State:
        return self._select(state, np.int32(index))

    def step(self, state: State, batches: Sequence[HostBatch], active: Sequence[bool]) -> tuple[State, Metrics]:
        """See `StepExecutor`.

        Raises:
            ConfigError: the runs' batches differ in shape.
        """
        if len({tuple(array.shape for array in batch.values()) for batch in batches}) > 1:
            raise ConfigError(
                "the runs of a population have batches of different shapes; train them without --population"
            )
        stacked = {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
        return self._step(
            state, jax.device_put(stacked, self._sharding(BATCH_AXES)), self._own, self._shared, np.array(active)
        )

    def fetch_metrics(self, metrics: Metrics) -> list[dict[str, float]]:
        host = jax.device_get(metrics)
        return [{name: value[index].item() for name, value in host.items()} for index in range(self._size)]


def population_mesh(mesh: Mesh, size: int) -> Mesh:
    """Returns the mesh with a leading axis "population" that takes its devices from the data axis.

    Args:
        mesh: (data, fsdp, tensor).
        size: the new axis is the greatest common divisor of this and the data axis.
    """
    spread = math.gcd(size, mesh.shape["data"])
    return Mesh(
        mesh.devices.reshape(spread, mesh.shape["data"] // spread, *mesh.devices.shape[1:]),
        ("population", *mesh.axis_names),
        axis_types=(jax.sharding.AxisType.Auto,) * 4,
    )


def make_executor(program: Program, constants: Sequence[Constants], executor: str) -> StepExecutor:
    """Returns the executor of that name for runs with these constants."""
    return (
        SingleExecutor(program, *constants)
        if executor == "single"
        else PopulationExecutor(program, constants, executor)
    )
