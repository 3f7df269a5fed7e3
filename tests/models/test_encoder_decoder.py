"""Encoder-decoders against the numpy reference, and which embedding table each side reads."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import ENCODER_DECODER, by_default, call, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.layers.context import Context
from zoo.models.architectures import make_model

SINUSOIDS = {"model.position.kind": "sinusoidal", "model.position.layout": "half", "model.position.offset": 2,
             "model.position.endpoint": True, "model.embedding.scale": "sqrt_dim"}  # fmt: skip
MODELS = {
    "one embedding": {},
    "two embeddings, untied": {"model.embedding.shared": False, "model.tie_embeddings": False},
    "two embeddings, sinusoids to the end": {"model.embedding.shared": False} | SINUSOIDS,
    "fewer key heads across than within": {"model.attention.num_kv_heads": 2, "model.attention.cross_kv_heads": 1},
    "two key heads across": {"model.attention.cross_kv_heads": 2},
    "fewer key heads within, shared queries": {
        "model.decoder.attention.num_kv_heads": 1,
        "model.attention.cross_kv_heads": 4,
        "model.attention.num_query_heads": 2,
    },
    "values of the first layers": {
        "model.attention.kind": "value_residual",
        "model.encoder.num_layers": 2,
        "model.decoder.num_layers": 3,
    },
    "value embeddings": {"model.attention.kind": "value_embedding", "model.attention.value_gate_channels": 2},
    "sides apart": {"model.decoder.num_layers": 3, "model.encoder.ffn.kind": "relu", "model.norm.placement": "post"},
}
SOURCE = np.array([[3, 1, 12, 0, 7, 7, 2, 5], [0, 5, 4, 4, 1, 9, 11, 8]])
TARGETS = np.array([[2, 4, 4, 10, 6], [6, 0, 9, 12, 1]])
# The second source and the second target are shorter.
SOURCE_POSITIONS = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, -1, -1]])
POSITIONS = np.array([[0, 1, 2, 3, 4], [0, 1, 2, -1, -1]])


def scores(model, source, targets):
    contexts = Context(jnp.asarray(SOURCE_POSITIONS), causal=False), Context(jnp.asarray(POSITIONS))
    return model.logits(model(source, targets, *contexts))


def made(changes):
    learned = {} if "model.position.kind" in changes else {"model.position.max_length": 8}
    config = tiny(ENCODER_DECODER | {"model.num_layers": 1} | learned | changes)
    model = make_model(config)
    return config.model, model, random_values(model, 3)


@pytest.mark.parametrize(
    "name",
    by_default(
        ["one embedding", "two embeddings, untied", "fewer key heads within, shared queries", "sides apart"],
        MODELS,
        pytest.mark.promise(reason="other combinations of layers, which tests/layers compares one by one"),
    ),
)
def test_logits_match_the_reference(name):
    config, model, values = made(MODELS[name])
    actual = call(lambda source, targets: scores(with_values(model, values), source, targets), SOURCE, TARGETS)
    exact = jax.tree.map(lambda x: np.asarray(x, np.float64), values)
    for row, (places, positions) in enumerate(zip(SOURCE_POSITIONS, POSITIONS, strict=True)):
        source, targets = SOURCE[row, places >= 0][None], TARGETS[row, positions >= 0][None]
        rows = reference.Rows(np.arange(source.size)[None]), reference.Rows(np.arange(targets.size)[None])
        expected = reference.encoder_decoder_logits(config, exact, source, targets, *rows)[0]
        compared(actual[row, positions >= 0], expected, 2e-5, config=config)


def test_each_side_reads_its_own_embedding_table():
    _, model, values = made({"model.embedding.shared": False})
    program = jax.grad(lambda values: scores(with_values(model, values), SOURCE, TARGETS)[POSITIONS >= 0].sum())
    gradient = call(program, values)
    read = {
        name: set(np.flatnonzero(np.abs(np.asarray(gradient[name])).max(axis=1)))
        for name in ("embedding", "source_embedding")
    }
    assert read["source_embedding"] == set(SOURCE[SOURCE_POSITIONS >= 0])
    # The head is tied to the target table, so all of its rows have gradients.
    assert read["embedding"] == set(range(13))
