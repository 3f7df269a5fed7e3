"""Prints, as JSON, the largest differences between gradients of splash attention on a mesh of four
simulated devices and of einsum on one. It is a script because JAX fixes the number of devices when it
starts.
"""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from zoo.config import default, override, resolve
from zoo.layers.activation_sharding import ActivationSharding
from zoo.layers.attention.kernels.products import KERNELS
from zoo.layers.attention.kernels.scoring import Scoring
from zoo.layers.context import Context
from zoo.training.mesh import make_mesh

B, T, H, G, K = 4, 130, 4, 2, 8
POSITIONS = np.stack([np.concatenate([np.arange(n), np.arange(T - n)]) for n in (50, 100, 7, 129)])
DOCUMENTS = np.cumsum(POSITIONS == 0, axis=1)


def heads():
    generator = np.random.default_rng(0)
    return [generator.standard_normal((B, T, n, K)).astype(np.float32) for n in (H, G, G)]


def gradients(kernel, sharding, groups=1):
    """Returns gradients; groups of rows, if there are several, are mapped over the data axis."""

    def attend(q, k, v, positions, documents, sinks):
        context = Context(positions, documents, in_order=True, sharding=sharding)
        return KERNELS[kernel](q, k, v, context, Scoring(0.3, sinks=sinks))

    def loss(q, k, v, sinks):
        arrays = (q, k, v, jnp.asarray(POSITIONS), jnp.asarray(DOCUMENTS))
        if groups == 1:
            return (attend(*arrays, sinks) ** 2).sum()
        parts = [x.reshape(groups, B // groups, *x.shape[1:]) for x in arrays]
        mapped = jax.vmap(attend, in_axes=(0,) * 5 + (None,), spmd_axis_name="data")
        return (mapped(*parts, sinks) ** 2).sum()

    return jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*heads(), jnp.linspace(-1, 1, H))


def sharding_of(**sizes):
    base = {"data.batch_size": B, "data.tokenizer.kind": "bytes"}
    axes = {f"mesh.{axis}": size for axis, size in sizes.items()}
    return ActivationSharding(make_mesh(resolve(override(default(), base | axes)), jax.devices()))


if __name__ == "__main__":
    assert len(jax.devices()) == 4
    expected, found = gradients("einsum", None), {}
    cases = {
        "heads divided": (sharding_of(data=2, tensor=2), 1),
        "heads whole": (sharding_of(data=1, tensor=4), 1),
        "groups": (replace(sharding_of(data=2, fsdp=2), batch_axes=("fsdp",)), 2),
    }
    for name, (sharding, groups) in cases.items():
        both = zip(gradients("splash", sharding, groups), expected, strict=True)
        found[name] = max(float(jnp.abs(one - other).max() / jnp.abs(other).max()) for one, other in both)
    print(json.dumps(found))
