"""How the runs of a loop are computed: one alone, or several as one program in which their states
have a further axis, N, in front.

| executor | | |
| --- | --- | --- |
| `alone` | one run | |
| `map` | `jax.lax.map`: one member after the other, within one program | each is bit-equal to the run alone, on a CPU |
| `vmap` | `jax.vmap`: all members in every operation, on several devices spread over these | each equals the run alone but for rounding |
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zoo.errors import ConfigError
from zoo.training.mesh import BATCH_AXES
from zoo.training.step import Program, State

# What differs between the members of a population; all else that a program takes as constants is
# the same for all.
OWN = ("seed", "hyperparameters")

Batch = dict[str, np.ndarray]


class Crew(Protocol):
    """The state of one or more runs, and the step that they make together."""

    def together(self, states: Sequence[State]) -> State:
        """One state out of those of all members, whose memory may be taken over."""

    def state_of(self, state: State, index: int) -> State:
        """The state of one member, as a run alone has it."""

    def step(
        self, state: State, batches: Sequence[Batch], active: Sequence[bool]
    ) -> tuple[State, dict[str, jax.Array]]:
        """An update of every active member, and metrics that are still on the device; takes over
        the memory of `state`.
        """

    def read(self, metrics: dict[str, jax.Array]) -> list[dict[str, float]]:
        """The metrics of every member."""


class Alone:
    """A single run: its program as it is."""

    def __init__(self, program: Program, constants: dict[str, Any]):
        self._program, self._constants = program, constants

    def together(self, states: Sequence[State]) -> State:
        """See `Crew`."""
        (state,) = states
        return state

    def state_of(self, state: State, index: int) -> State:
        """See `Crew`."""
        return state

    def step(
        self, state: State, batches: Sequence[Batch], active: Sequence[bool]
    ) -> tuple[State, dict[str, jax.Array]]:
        """See `Crew`."""
        (batch,) = batches
        return self._program.train_step(state, self._program.put_batch(batch), self._constants)

    def read(self, metrics: dict[str, jax.Array]) -> list[dict[str, float]]:
        """See `Crew`."""
        return [{name: value.item() for name, value in jax.device_get(metrics).items()}]


class Population:
    """N runs as one program.

    Args:
        program: of any of them.
        constants: of each.
        executor: "map" or "vmap".
        mesh: that of the program. With vmap as many devices as divide N take members of their own;
            the rest share a batch.
    """

    def __init__(self, program: Program, constants: Sequence[dict[str, Any]], executor: str, mesh: Mesh):
        self._executor, self._program, self._size = executor, program, len(constants)
        spread = math.gcd(self._size, mesh.shape["data"]) if executor == "vmap" else 1
        self._mesh = Mesh(
            mesh.devices.reshape(spread, mesh.shape["data"] // spread, *mesh.devices.shape[1:]),
            ("population", *mesh.axis_names),
            axis_types=(jax.sharding.AxisType.Auto,) * 4,
        )
        own = [{name: constant[name] for name in OWN} for constant in constants]
        self._own = jax.device_put(jax.tree.map(lambda *values: np.stack(jax.device_get(values)), *own), self._each())
        self._shared = {name: value for name, value in constants[0].items() if name not in OWN}
        states = jax.tree.map(lambda leaf: self._each(*leaf.sharding.spec), program.abstract_state)
        alone = jax.tree.map(lambda leaf: leaf.sharding, program.abstract_state)
        self._together = jax.jit(
            lambda *trees: jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees), out_shardings=states
        )
        self._take = jax.jit(lambda tree, index: jax.tree.map(lambda leaf: leaf[index], tree), out_shardings=alone)
        self._step = jax.jit(
            self._steps,
            donate_argnums=0,
            in_shardings=(states, self._each(BATCH_AXES), self._each(), None, None),
            out_shardings=(states, self._each()),
        )

    def _each(self, *axes: Any) -> NamedSharding:
        """Of an array with the members in front."""
        return NamedSharding(self._mesh, PartitionSpec("population", *axes))

    def _steps(
        self,
        states: State,
        batches: dict[str, jax.Array],
        own: dict[str, Any],
        shared: dict[str, Any],
        active: jax.Array,
    ):

        def update(member):
            state, batch, its, _ = member
            return self._program.update(state, batch, {**shared, **its})

        def left_alone(member):
            # What is reported of a member that takes no part is not read.
            return member[0], jax.tree.map(
                lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(update, member)[1]
            )

        def one(member):
            return jax.lax.cond(member[3], update, left_alone, member)

        members = (states, batches, own, active)
        return jax.lax.map(one, members) if self._executor == "map" else jax.vmap(one)(members)

    def together(self, states: Sequence[State]) -> State:
        """See `Crew`."""
        return self._together(*states)

    def state_of(self, state: State, index: int) -> State:
        """See `Crew`."""
        return self._take(state, np.int32(index))

    def step(
        self, state: State, batches: Sequence[Batch], active: Sequence[bool]
    ) -> tuple[State, dict[str, jax.Array]]:
        """See `Crew`.

        Raises:
            ConfigError: the members' batches differ in shape.
        """
        if len({tuple(array.shape for array in batch.values()) for batch in batches}) > 1:
            raise ConfigError(
                "the runs of a population have batches of different shapes; train them without --population"
            )
        stacked = {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}
        return self._step(
            state, jax.device_put(stacked, self._each(BATCH_AXES)), self._own, self._shared, np.array(active)
        )

    def read(self, metrics: dict[str, jax.Array]) -> list[dict[str, float]]:
        """See `Crew`."""
        host = jax.device_get(metrics)
        return [{name: value[index].item() for name, value in host.items()} for index in range(self._size)]


def make_crew(program: Program, constants: Sequence[dict[str, Any]], executor: str, mesh: Mesh) -> Crew:
    """The crew of an executor."""
    return Alone(program, *constants) if executor == "alone" else Population(program, constants, executor, mesh)
