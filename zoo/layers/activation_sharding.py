"""Divides activations over the devices of a mesh.

Parameters and batches carry their shardings as arguments of a program. What lies between them does
not, and XLA's partitioner may then keep the weights where they are and move the activations of the
whole batch instead. Constraints on the activations make it gather weights (fully sharded data
parallelism; Rajbhandari et al. 2020, ZeRO, section 5.3) and keep every row on its own device.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

DATA_AXIS, FSDP_AXIS, EXPERT_AXIS = BATCH_AXES = ("data", "fsdp", "expert")
"""Axes of the mesh that divide the rows of a batch; the last one also divides experts."""
TENSOR_AXIS = "tensor"
"""Axis of the mesh that divides heads, hidden units and the vocabulary."""
FURTHER_ROUNDS = "further rounds of an exchange"
"""Name of the loops, in a compiled program, that run only where experts have unequal loads
(`zoo.layers.expert_exchange`)."""


@dataclass(frozen=True)
class ActivationSharding:
    """Divides the rows of activations over the axes of a mesh.

    Attributes:
        mesh: the devices.
        batch_axes: axes that divide the rows that a function sees. Inside of a `vmap` over an axis
            of the mesh these are the remaining ones.
    """

    mesh: Mesh
    batch_axes: tuple[str, ...] = BATCH_AXES

    @property
    def groups(self) -> int:
        """Returns the number of parts that the rows are divided into."""
        return math.prod(self.mesh.shape[axis] for axis in self.batch_axes)

    def shard_rows(self, x: Float[Array, "B ..."]) -> Float[Array, "B ..."]:
        """Returns x with its rows divided over the batch axes and nothing else divided."""
        return self._constrained(x, self.batch_axes)

    def shard_lookup(self, x: Float[Array, "B T D"]) -> Float[Array, "B T D"]:
        """Returns the result of a look-up in a table whose width is divided over the fsdp axis.

        It passes through the layout of the table: the devices of that axis then exchange widths for
        rows, instead of each making the whole array.
        """
        if FSDP_AXIS in self.batch_axes and x.shape[-1] % self.mesh.shape[FSDP_AXIS] == 0:
            others = tuple(axis for axis in self.batch_axes if axis != FSDP_AXIS)
            x = self._constrained(x, others or None, None, FSDP_AXIS)
        return self.shard_rows(x)

    def divides_heads(self, *heads: int) -> bool:
        """Returns whether the tensor axis divides each of these numbers of heads."""
        return all(number % self.mesh.shape[TENSOR_AXIS] == 0 for number in heads)

    def heads(self, x: Float[Array, "B ..."], axis: int, divided: bool, rows: bool = True) -> Float[Array, "B ..."]:
        """Returns x with its rows over the batch axes, if they are not shared, and the heads along an
        axis over the tensor axis if `divided`.
        """
        between = (None,) * (axis - 1)
        return self._constrained(x, self.batch_axes if rows else None, *between, TENSOR_AXIS if divided else None)

    def head(self, x: Float[Array, "V D"]) -> Float[Array, "V D"]:
        """Returns a head's matrix with its vocabulary divided over the tensor axis, if that divides
        it, and its width whole, as the product with the rows of a device needs it.
        """
        return self._constrained(x, self._tensor_axis(x.shape[0]))

    def head_gradient(self, x: Float[Array, "D V"]) -> Float[Array, "D V"]:
        """Returns the transposed gradient of such a matrix, divided like it."""
        return self._constrained(x, None, self._tensor_axis(x.shape[1]))

    def _tensor_axis(self, size: int) -> str | None:
        return TENSOR_AXIS if size % self.mesh.shape[TENSOR_AXIS] == 0 else None

    def _constrained(self, x: Array, *axes: Any) -> Array:
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, PartitionSpec(*axes)))

    def on_rows(self, function: Callable, rows: Any, others: Any = None) -> Any:
        """Returns `function(rows, others)`, of each device's rows on that device. It is for what XLA
        computes of all rows on every device, such as the largest elements along an axis.

        Args:
            function: from arrays with the rows first, and others, to arrays with the rows first.
            rows: the arrays.
            others: arrays that every device has as a whole.
        """
        axes = PartitionSpec(self.batch_axes)
        specs = axes, PartitionSpec()
        return jax.shard_map(function, mesh=self.mesh, in_specs=specs, out_specs=axes, check_vma=False)(rows, others)

    def split_rows(self, tree: Any) -> Any:
        """Cuts the rows of all arrays [B, ...] into [G, B / G, ...], one part for each of the G
        groups of devices that hold them.
        """
        return jax.tree.map(lambda x: x.reshape(self.groups, x.shape[0] // self.groups, *x.shape[1:]), tree)

    def per_group(self, function: Callable) -> Callable:
        """Returns `function` mapped over the leading axis of its arguments, every group on its own
        devices: what it sums is summed over the group's own rows, without communication.
        """
        return jax.vmap(function, spmd_axis_name=self.batch_axes)


def activation_sharding(mesh: Mesh) -> ActivationSharding | None:
    """Returns the sharding of activations on a mesh; None for a single device, whose programs need
    none.
    """
    return ActivationSharding(mesh) if mesh.size > 1 else None


def merge_rows(x: Float[Array, "G R ..."]) -> Float[Array, "B ..."]:
    """Reverses `ActivationSharding.split_rows`."""
    return jnp.reshape(x, (-1, *x.shape[2:]))
