"""The executor of populations: the steps of N runs as one program with a leading run axis."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zoo.layers.activation_sharding import BATCH_AXES
from zoo.models.functional import Params, Stats
from zoo.training.population.batch_streams import StackedBatches
from zoo.training.state import State, shardings_of
from zoo.training.step import Evaluated, Program
from zoo.training.update import Batch, Constants, Metrics

# Constants of a program that differ between the runs of a population; all others are the same.
CONSTANTS_PER_RUN = ("seed", "hyperparameters")


class PopulationExecutor:
    """Trains N runs as one program; implements `zoo.training.executor.StepExecutor`.

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
            in_shardings=(states, None, None, self._sharding(), None, None),
            out_shardings=(states, self._sharding()),
        )
        self._eval_step = jax.jit(
            self._evaluate_all,
            in_shardings=(states["params"], states["stats"], None, None, self._sharding(), None, None),
            out_shardings=self._sharding(),
        )

    def _sharding(self, *axes: Any) -> NamedSharding:
        """Returns the sharding of an array with a leading run axis and these axes after it."""
        return NamedSharding(self._mesh, PartitionSpec("population", *axes))

    def _update_all(
        self, states: State, batches: Batch, streams: jax.Array, own: Constants, shared: Constants, active: jax.Array
    ) -> tuple[State, Metrics]:
        common, batches = self._batches_of_runs(batches, streams)

        def update(run):
            state, batch, constants = run
            return self._program.update(state, common | batch, {**shared, **constants}, self._mesh)

        def skip(run):
            return run[0], _zeros_like(jax.eval_shape(update, run)[1])

        return self._for_active(update, skip, (states, batches, own), active)

    def _evaluate_all(
        self,
        params: Params,
        stats: Stats,
        batches: Batch,
        streams: jax.Array,
        own: Constants,
        shared: Constants,
        active: jax.Array,
    ) -> Evaluated:
        common, batches = self._batches_of_runs(batches, streams)

        def evaluate(run):
            params, stats, batch, constants = run
            return self._program.evaluate(params, stats, common | batch, {**shared, **constants}, self._mesh)

        def skip(run):
            return _zeros_like(jax.eval_shape(evaluate, run))

        return self._for_active(evaluate, skip, (params, stats, batches, own), active)

    def _for_active(
        self, compute: Callable[[Any], Any], skip: Callable[[Any], Any], runs: Any, active: jax.Array
    ) -> Any:
        """Returns `compute` of every active run, and `skip` of the others, which is never read.

        Args:
            compute, skip: functions of one run's arrays.
            runs: those of all runs, with a leading run axis.
            active: bool [N].
        """

        def choose(run):
            return jax.lax.cond(run[1], compute, skip, run[0])

        if self._executor == "map":
            return jax.lax.map(choose, (runs, active))
        return jax.vmap(choose, spmd_axis_name="population")((runs, active))

    def _put(self, batches: StackedBatches) -> tuple[Batch, np.ndarray]:
        """Returns the batches on the devices, each once, and the index of each run's batch."""
        arrays = dict(batches.arrays)
        per_run = len(next(iter(arrays.values()))) == self._size
        sharding = self._sharding(BATCH_AXES) if per_run else NamedSharding(self._mesh, PartitionSpec(None, BATCH_AXES))
        return jax.device_put(arrays, sharding), np.array(batches.streams, np.int32)

    def _batches_of_runs(self, batches: Batch, streams: jax.Array) -> tuple[Batch, Batch]:
        """Returns (the batch if all runs share it, else nothing; batches with a leading run axis)."""
        count = len(next(iter(batches.values())))
        if count == 1:
            return {name: array[0] for name, array in batches.items()}, {}
        if count == self._size:
            return {}, dict(batches)
        sharding = self._sharding(BATCH_AXES)
        return {}, {name: jax.lax.with_sharding_constraint(array[streams], sharding) for name, array in batches.items()}

    def combine(self, states: Sequence[State]) -> State:
        return self._combine(*states)

    def state_of(self, state: State, index: int) -> State:
        return self._select(state, np.int32(index))

    def step(self, state: State, batches: StackedBatches, active: Sequence[bool]) -> tuple[State, Metrics]:
        return self._step(state, *self._put(batches), self._own, self._shared, np.array(active))

    def eval_step(self, state: State, batches: StackedBatches, active: Sequence[bool]) -> Evaluated:
        return self._eval_step(
            state["params"], state["stats"], *self._put(batches), self._own, self._shared, np.array(active)
        )

    def fetch(self, results: Any) -> list[Any]:
        host = jax.device_get(results)
        return [jax.tree.map(lambda leaf, index=index: leaf[index], host) for index in range(self._size)]

    def fetch_metrics(self, metrics: Metrics) -> list[dict[str, float]]:
        host = jax.device_get(metrics)
        return [{name: value[index].item() for name, value in host.items()} for index in range(self._size)]


def _zeros_like(shapes: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def population_mesh(mesh: Mesh, size: int) -> Mesh:
    """Returns the mesh with a leading axis "population" that takes its devices from the data axis.

    Args:
        mesh: (data, fsdp, expert, tensor).
        size: the new axis is the greatest common divisor of this and the data axis.
    """
    spread = math.gcd(size, mesh.shape["data"])
    return Mesh(
        mesh.devices.reshape(spread, mesh.shape["data"] // spread, *mesh.devices.shape[1:]),
        ("population", *mesh.axis_names),
        axis_types=(jax.sharding.AxisType.Auto,) * (1 + len(mesh.axis_names)),
    )
