"""Prints, as JSON, what a mixture of experts does on meshes of eight simulated devices: the largest
differences of outputs and gradients from those of one device, and the bytes of its exchanges. It is a
script because JAX fixes the number of devices when it starts.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.building import ENCODER, quick_compilation, random_values, tiny, with_values
from zoo.layers.activation_sharding import ActivationSharding
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.resources.compiled_program import CompiledProgram
from zoo.training.mesh import make_mesh

B, T, D = 8, 16, 16
MIXTURE = {"model.ffn.kind": "moe", "model.ffn.hidden_dim": 12, "model.ffn.bias": True, "data.batch_size": B}
BY_EXPERT = ENCODER | {"model.ffn.experts.choice": "experts", "model.ffn.experts.renormalise": False}
MESHES = {
    "all axes": ({"data": 1, "fsdp": 2, "expert": 2, "tensor": 2}, {}),
    "experts alone": ({"data": 1, "expert": 8}, {}),
    "experts choose": ({"data": 2, "expert": 4}, BY_EXPERT),
}


def program(axes, fields):
    """Returns (compiled function of (values, x) -> (loss, outputs), gradients; values; its bytes)."""
    config = tiny(MIXTURE | fields | {f"mesh.{axis}": size for axis, size in axes.items()})
    layer = make_feed_forward(config.model)
    sharding = ActivationSharding(make_mesh(config)) if axes else None

    def loss(values, x):
        y = with_values(layer, values)(x, Context(jnp.zeros((1, T), jnp.int32), training=True, sharding=sharding))
        return (jnp.sin(y) * jnp.arange(D)).sum() / 100, y

    values, x = random_values(layer, 1), jnp.zeros((B, T, D))
    compiled = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True)).lower(values, x)
    compiled = compiled.compile(compiler_options=quick_compilation())
    sent = [each.wire_bytes for each in CompiledProgram(compiled.as_text()).collectives() if each.kind == "all-to-all"]
    return compiled, values, sum(sent)


def measured(case, alone):
    compiled, values, sent = program(*MESHES[case])
    differences = {}
    # Without weights, a router sends every token to the first two experts.
    for loads, factor in (("loads of the router", 1), ("all to two experts", 0)):
        own = values | {"router": {"kernel": values["router"]["kernel"] * factor}}
        x = jnp.asarray(np.random.default_rng(0).standard_normal((B, T, D)), jnp.float32)
        found, expected = (jax.tree.leaves(each(own, x)) for each in (compiled, alone))
        differences[loads] = max(
            float(abs(np.asarray(one) - np.asarray(other)).max() / (abs(np.asarray(other)).max() + 1e-9))
            for one, other in zip(found, expected, strict=True)
        )
    return {"sent": sent, "differences": differences}


if __name__ == "__main__":
    assert len(jax.devices()) == 8
    by_token, by_expert = (program({}, fields)[0] for fields in ({}, BY_EXPERT))
    print(json.dumps({case: measured(case, by_expert if MESHES[case][1] else by_token) for case in MESHES}))
