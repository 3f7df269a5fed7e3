"""Arrays of a scanned stack that are kept for the backward pass."""

import jax
import pytest

from zoo import config as configs
from zoo.models.functional import split
from zoo.nested import unflatten
from zoo.objectives.objective import ForwardMode
from zoo.resources.abstract_run import abstract_batch, abstract_program

D, FFN, T, LAYERS, HEADS = 32, 128, 48, 3, 2
FIELDS = {
    "model.dim": D, "model.ffn.hidden_dim": FFN, "model.num_layers": LAYERS, "model.attention.num_heads": HEADS,
    "data.batch_size": 2, "data.sequence_length": T, "model.scan_layers": True,
    "model.attention.implementation": "einsum",
}  # fmt: skip


def kept(remat):
    """Returns the shapes, without the layer dimension, of per-token and per-row arrays that the
    layers keep.
    """
    config = configs.resolve(unflatten(FIELDS | {"model.remat": remat}))
    program = abstract_program(config, jax.devices()[:1])
    graph, state = split(program.model)[0], program.abstract_state

    def loss(params, batch, constants):
        sums = program.objective.sums(graph, params, state["stats"], batch, constants, ForwardMode(training=True))
        return sums[0]["loss"]

    def pull_back(params, batch, constants):
        return jax.vjp(lambda values: loss(values, batch, constants), params)[1]

    residuals = jax.eval_shape(pull_back, state["params"], abstract_batch(config), program.constants.abstract())
    return [leaf.shape[1:] for leaf in jax.tree.leaves(residuals) if leaf.shape[:1] == (LAYERS,) and 2 * T in (
        leaf.shape[1], leaf.shape[1] * leaf.shape[2] if leaf.ndim > 2 else 0, 2 * T if T in leaf.shape else 0)]  # fmt: skip


def size_per_token(shapes):
    total = 0
    for shape in shapes:
        size = 1
        for extent in shape:
            size *= extent
        total += size
    return total / (2 * T)


def test_dots_remat_keeps_products_but_no_token_pairs():
    none, products, full = (kept(remat) for remat in ("none", "products", "full"))
    assert any(shape.count(T) == 2 for shape in none)
    assert not any(shape.count(T) == 2 for shape in products)
    # The block's input, query, key, value and the two other projections; norms, GELU and sums are
    # recomputed.
    assert size_per_token(products) == 5 * D + FFN + D - D
    assert size_per_token(full) == D
    assert size_per_token(none) > 2.5 * size_per_token(products)


@pytest.mark.parametrize(
    ("file", "size", "expected"),
    [
        ("gpt2", "medium", False),
        ("gpt2", "large", True),
        ("byt5", "large", True),
        ("t5", "large", False),
        ("llama", "tiny", False),
    ],
)
def test_deep_stacks_are_scanned(file, size, expected):
    assert configs.load(f"configs/{file}.py:{size}").model.scan_layers is expected
