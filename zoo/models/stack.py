"""A stack of equal layers: parameters stored with a leading layer dimension, run unrolled or scanned."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig
from zoo.layers.block import make_block
from zoo.layers.context import Context
from zoo.layers.position import Position
from zoo.models.functional import split, stack

REMAT_POLICIES = {"full": None, "dots": jax.checkpoint_policies.dots_saveable}


class Stack(nnx.Module):
    """L blocks, one after the other.

    `scan_layers` only chooses how they run: a `jax.lax.scan` over the stacked parameters, which compiles in constant time, or a
    loop over their slices, which is faster per step on a CPU. `remat` names what the backward pass computes again.
    """

    def __init__(self, config: ResolvedConfig):
        self.layers = stack(make_block(config), config.num_layers)
        self.num_layers, self.scan, self.remat = config.num_layers, config.scan_layers, config.remat

    def __call__(self, x: Float[Array, "B T D"], context: Context, position: Position) -> Float[Array, "B T D"]:
        """Applies the blocks in order."""
        graph, params = split(self.layers)

        def apply(x, layer):
            values, index = layer
            return nnx.merge(graph, values)(x, context.layer(index), position), None

        if self.remat != "none":
            apply = jax.checkpoint(apply, policy=REMAT_POLICIES[self.remat], prevent_cse=not self.scan)
        if self.scan:
            return jax.lax.scan(apply, x, (params, jnp.arange(self.num_layers)))[0]
        leaves, structure = jax.tree.flatten(params)
        for index, values in enumerate(zip(*(jnp.unstack(leaf) for leaf in leaves), strict=True)):
            x, _ = apply(x, (jax.tree.unflatten(structure, values), index))
        return x
