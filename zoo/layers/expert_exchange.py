"""Experts that are divided over devices: tokens travel to their experts, and outputs travel back.

Of n devices along the expert axis, each holds E / n consecutive experts and rows of its own. How many
of its N assignments go to another device depends on the tokens, and the arrays of a compiled program
have fixed sizes. The exchange is therefore made in rounds: in each, a device sends C = `SLACK` N / n
rows to every device, rounded up, of which those are 0 that it has no assignment for. Rounds go on
until the device with the most assignments for another has sent all of them, so no token is dropped,
and memory is bounded by `SLACK` N rows whatever the router does. Loads within a quarter of the mean
need one round. (A ragged exchange sends no zeros, but what it receives must have room for n N rows.)
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.layers.activation_sharding import EXPERT_AXIS, FURTHER_ROUNDS
from zoo.layers.dispatch import Places, combined, dispatched, sorted_places
from zoo.layers.grouped_product import permuted

SLACK = 1.25
"""Rows that a round has room for, over those that it needs at equal loads."""

OfGroups = Callable[..., Array]
"""(parameters of the experts here, rows in the order of these experts, numbers of their rows, number
of further rows that are of none: 0 if it is left out) -> outputs."""


class Exchange(NamedTuple):
    """Rows that a device sends and receives.

    Attributes:
        places: of its assignments, in the order of all E experts.
        device: the device of each assignment.
        begins: the first row in that order of each device's assignments.
        sent: number of rows for each device.
        bounds: for each device that rows come from, the end of the rows of each expert here.
    """

    places: Places
    device: Int[Array, "T k"]
    begins: Int[Array, " n"]
    sent: Int[Array, " n"]
    bounds: Int[Array, "n E/n"]


def round_capacity(assignments: int, devices: int) -> int:
    """Returns C, the rows that a device sends to another in a round."""
    return math.ceil(SLACK * assignments / devices)


def exchanged(
    of_groups: OfGroups,
    params: Any,
    x: Float[Array, "T D"],
    chosen: Int[Array, "T k"],
    gates: Float[Array, "T k"],
    experts: int,
) -> Float[Array, "T D"]:
    """Returns the sum over the chosen experts of gate times output, in float32, within a `shard_map`
    over the expert axis.

    Args:
        of_groups: applies the experts of this device.
        params: their parameters.
        x: the tokens of this device.
        chosen: numbers of their experts, of all E.
        gates: weights of the outputs.
        experts: E.
    """
    devices = jax.lax.axis_size(EXPERT_AXIS)
    counts = jnp.bincount(chosen.reshape(-1), length=experts).astype(jnp.int32).reshape(devices, -1)
    sent = counts.sum(axis=1)
    arriving = jax.lax.all_to_all(counts, EXPERT_AXIS, 0, 0, tiled=True)
    plan = Exchange(
        sorted_places(chosen), chosen // counts.shape[1], jnp.cumsum(sent) - sent, sent, jnp.cumsum(arriving, axis=1)
    )
    capacity = round_capacity(chosen.size, devices)
    rounds = jax.lax.pmax(-(-sent.max() // capacity), EXPERT_AXIS)
    # The first round is differentiated as any layer is. How many follow is not known when the program
    # is compiled, so what they compute cannot be kept for the backward pass.
    first = _round(of_groups, capacity, params, x, gates, plan, jnp.int32(0))
    return first + _further_rounds(of_groups, capacity, params, x, gates, plan, rounds)


def _round(
    of_groups: OfGroups, capacity: int, params: Any, x: Array, gates: Array, plan: Exchange, number: Int[Array, ""]
) -> Float[Array, "T D"]:
    """Returns the part of the sum whose assignments are exchanged in a round."""
    begin, slots = number * capacity, jnp.arange(capacity)
    places = _places(plan, begin, capacity, x.shape[0] * gates.shape[1])
    arrived = jax.lax.all_to_all(dispatched(x, places), EXPERT_AXIS, 0, 0, tiled=True)
    # Rows without an assignment get the number E / n and lie behind those of all experts.
    owner = (begin + slots[:, None] >= plan.bounds[:, None]).sum(axis=-1).reshape(-1)
    order = jnp.argsort(owner, stable=True)
    inverse = jnp.argsort(order)
    before = jnp.clip(plan.bounds - begin, 0, capacity).sum(axis=0)
    y = of_groups(params, permuted(arrived, order, inverse), jnp.diff(before, prepend=0))
    returned = jax.lax.all_to_all(permuted(y, inverse, order), EXPERT_AXIS, 0, 0, tiled=True)
    return combined(returned, gates, places)


def _places(plan: Exchange, begin: Int[Array, ""], capacity: int, assignments: int) -> Places:
    """Returns the places of the assignments of a round among the rows that a device sends."""
    devices = len(plan.sent)
    within = begin + jnp.arange(capacity)
    # Beyond the last assignment, what is looked up is not used.
    in_order = plan.places.assignments.at[plan.begins[:, None] + within].get(mode="clip")
    numbers = jnp.where(within < plan.sent[:, None], in_order, assignments).reshape(-1)
    offset = plan.places.rows - plan.begins[plan.device] - begin
    here = (offset >= 0) & (offset < capacity)
    return Places(numbers, jnp.where(here, plan.device * capacity + offset, devices * capacity))


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _further_rounds(
    of_groups: OfGroups, capacity: int, params: Any, x: Array, gates: Array, plan: Exchange, rounds: Int[Array, ""]
) -> Float[Array, "T D"]:
    """Returns the part of the sum whose assignments the first round had no room for."""

    def add(state: tuple[Array, Array]) -> tuple[Array, Array]:
        number, total = state
        return number + 1, total + _round(of_groups, capacity, params, x, gates, plan, number)

    return _repeated(add, rounds, jnp.zeros(x.shape, jnp.float32))


def _repeated(add: Callable, rounds: Int[Array, ""], zero: Any) -> Any:
    with jax.named_scope(FURTHER_ROUNDS):
        return jax.lax.while_loop(lambda state: state[0] < rounds, add, (jnp.int32(1), zero))[1]


def _further_forward(of_groups: OfGroups, capacity: int, *arguments: Any) -> tuple[Array, Any]:
    return _further_rounds(of_groups, capacity, *arguments), arguments


def _further_backward(of_groups: OfGroups, capacity: int, kept: Any, change: Array) -> tuple[Any, ...]:
    params, x, gates, plan, rounds = kept

    def add(state: tuple[Array, Any]) -> tuple[Array, Any]:
        number, total = state
        _, pull = jax.vjp(
            lambda params, x, gates: _round(of_groups, capacity, params, x, gates, plan, number), params, x, gates
        )
        return number + 1, jax.tree.map(jnp.add, total, pull(change))

    changes = _repeated(add, rounds, jax.tree.map(jnp.zeros_like, (params, x, gates)))
    return *changes, None, None


_further_rounds.defvjp(_further_forward, _further_backward)


def exchanged_rows(of_groups: OfGroups, params: Any, taken: Float[Array, "E C D"]) -> Float[Array, "E C D"]:
    """Returns the outputs of the C rows of this device that each of the E experts takes: equally many,
    so one round without zeros has them all.
    """
    arrived = jax.lax.all_to_all(taken, EXPERT_AXIS, 0, 1, tiled=True)
    here, count, width = arrived.shape
    y = of_groups(params, arrived.reshape(-1, width), jnp.full((here,), count, jnp.int32))
    return jax.lax.all_to_all(y.reshape(arrived.shape), EXPERT_AXIS, 1, 0, tiled=True)
