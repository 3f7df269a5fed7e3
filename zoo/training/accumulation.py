"""Accumulation of gradients over parts of a batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from zoo.config import AUTO, ResolvedConfig, used_loss_terms
from zoo.layers.activation_sharding import BATCH_AXES, DATA_AXIS, ActivationSharding
from zoo.models.functional import Params, Stats
from zoo.nested import flatten
from zoo.training.mesh import parameter_shardings


def accumulation_parts(config: ResolvedConfig, devices: int) -> int:
    """Returns into how many parts an update cuts its batch.

    Args:
        config: the resolved config. With `training.accumulation_steps=auto` a device processes at most
            `training.microbatch_size` of its rows at once.
        devices: number of devices that the rows are divided over.
    """
    setting = config.training.accumulation_steps
    if setting != AUTO:
        return setting
    rows = config.data.batch_size // devices
    least = -(-rows // config.training.microbatch_size)
    return next(parts for parts in range(least, rows + 1) if rows % parts == 0)


@dataclass(frozen=True)
class DataGroups:
    """The groups of devices that each hold all parameters, along the data axis of the mesh.

    Each group accumulates the gradient of its own rows, and the gradients of the groups are added
    once, after the last part. Along the fsdp axis every part's gradient is reduced: no device could
    hold it whole.

    Attributes:
        mesh: the devices.
        axes: logical axes of every parameter.
        adds: which statistics are counts, whose changes are summed over the groups.
    """

    mesh: Mesh
    axes: Params
    adds: Stats = field(default_factory=dict)

    @property
    def sharding(self) -> ActivationSharding:
        """Returns the sharding of activations inside of a group."""
        return ActivationSharding(self.mesh, tuple(axis for axis in BATCH_AXES if axis != DATA_AXIS))

    def constrain(self, gradients: Params) -> Params:
        """Returns gradients [G, ...] with each group's on its own devices."""
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), gradients)
        return jax.tree.map(
            lambda x, sharding: jax.lax.with_sharding_constraint(
                x, NamedSharding(self.mesh, PartitionSpec(DATA_AXIS, *sharding.spec))
            ),
            gradients,
            parameter_shardings(self.mesh, self.axes, shapes),
        )


def data_groups(
    mesh: Mesh | None, parts: int, config: ResolvedConfig, axes: Params, adds: Stats | None = None
) -> DataGroups | None:
    """Returns the groups that accumulate gradients separately, or None if there is one or there is
    one part.
    """
    if mesh is None or parts == 1 or mesh.shape[DATA_AXIS] == 1:
        return None
    # The balancing loss of experts is a product of means over all rows of a part.
    whole = "expert_balance" in used_loss_terms(flatten(config))
    return None if whole else DataGroups(mesh, axes, adds or {})


def accumulate_gradients(
    loss_of: Callable[[Params, Stats, Mapping[str, Array], Any], tuple[Array, tuple[Any, Stats]]],
    params: Params,
    stats: Stats,
    batch: Mapping[str, Array],
    parts: int,
    groups: DataGroups | None = None,
) -> tuple[Array, Any, Stats, Params]:
    """Accumulates loss, sums and gradients over micro-batches.

    The update equals that of the whole batch.

    Args:
        loss_of: (params, stats, part of the batch, numbers of its rows in the whole batch) -> (the
            part's share of the loss, (tree of sums, stats after it)). With groups, it gets each
            group's share of a part.
        params: the parameters, with respect to which the loss is differentiated.
        stats: statistics, passed from each part to the next.
        batch: arrays with the rows first. Part i is every `parts`-th row from row i on, so that a
            sharded batch stays in place.
        parts: number of parts.
        groups: the groups of devices that accumulate separately; None for one.

    Returns:
        (loss, sums, stats after the last part, gradient of the loss).
    """
    value_and_gradient = jax.value_and_grad(loss_of, has_aux=True)
    numbers = jnp.arange(len(jax.tree.leaves(batch)[0]))
    if parts == 1:
        (loss, (sums, stats)), gradient = value_and_gradient(params, stats, batch, numbers)
        return loss, sums, stats, gradient
    split_batch, split_numbers = jax.tree.map(
        lambda x: jnp.moveaxis(x.reshape(x.shape[0] // parts, parts, *x.shape[1:]), 1, 0), (batch, numbers)
    )
    if groups is None:
        step, total_of = value_and_gradient, lambda total: total
    else:
        step, total_of = _by_group(value_and_gradient, groups), lambda total: jax.tree.map(lambda x: x.sum(0), total)

    def body(carry, part):
        total, stats = carry
        (loss, (sums, stats)), gradient = step(params, stats, *part)
        return (jax.tree.map(jnp.add, total, (loss, sums, gradient)), stats), None

    first = jax.tree.map(lambda x: x[0], (split_batch, split_numbers))
    (loss, (sums, _)), gradient = jax.eval_shape(step, params, stats, *first)
    loss, sums, gradient = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (loss, sums, gradient))
    zero = loss, sums, gradient if groups is None else groups.constrain(gradient)
    (total, stats), _ = jax.lax.scan(body, (zero, stats), (split_batch, split_numbers))
    loss, sums, gradient = total_of(total)
    return loss, sums, stats, gradient


def _by_group(value_and_gradient: Callable, groups: DataGroups) -> Callable:
    """Returns `value_and_gradient` of the rows of each group, with leading axes [G]; the statistics
    have none.
    """
    across = ActivationSharding(groups.mesh, (DATA_AXIS,))
    stats_axes = jax.tree.map(lambda one: 0 if one else None, groups.adds)
    mapped = jax.vmap(
        value_and_gradient,
        in_axes=(None, None, 0, 0),
        out_axes=((0, (0, stats_axes or None)), 0),
        spmd_axis_name=DATA_AXIS,
    )

    def step(params, stats, part, numbers):
        (loss, (sums, after)), gradient = mapped(params, stats, *across.split_rows((part, numbers)))
        if stats:
            after = jax.tree.map(
                lambda one, new, old: old + (new - old).sum(0) if one else new, groups.adds, after, stats
            )
        return (loss, (sums, after)), groups.constrain(gradient)

    return step
