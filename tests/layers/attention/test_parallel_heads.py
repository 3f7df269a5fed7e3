"""Softmax attention and a mixer with a state side by side: gradients and rows against the numpy
reference, costs, and what is refused.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.decoding.making import random_model
from tests.fields.refused_configs import ENCODER, check_refused
from tests.support.building import as_float64, call, counting, random_values, tiny, with_values
from tests.support.comparisons import compared
from tests.support.packed_rows import compare_packed_and_padded_rows
from tests.support.visibility import normal
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, unstack_layers
from zoo.layers.attention.key_values import KeyValues
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten, unflatten

AT = "model.attention."
NORMED = {f"{AT}kind": "parallel_heads", f"{AT}state_heads": 2, f"{AT}state_dim": 3, "model.position.kind": "rope",
          f"{AT}num_kv_heads": 2, f"{AT}window": 3, "model.num_layers": 1}  # fmt: skip
ADDED = NORMED | {f"{AT}mixing": "sum", f"{AT}state_kind": "kimi_delta", f"{AT}value_dim": 5}
TOKENS = np.array([[3, 1, 12, 0, 7, 7], [0, 5, 4, 4, 1, 9]])


def test_gradients_match_differences_of_the_reference():
    model = make_model(tiny(NORMED))
    values = random_values(model, 1)

    def loss(values):
        out = with_values(model, values)(TOKENS, counting(6))
        return (out * normal(*out.shape)).sum()

    gradient, wide = flatten(call(jax.grad(loss), values), "/"), flatten(as_float64(values), "/")

    def expected(changes):
        hidden = reference.model.hidden_states(
            model.config, unflatten(wide | changes, "/"), TOKENS, reference.counting(2, 6)
        )
        return (hidden * np.asarray(normal(*hidden.shape), np.float64)).sum()

    generator, found, wanted = np.random.default_rng(0), [], []
    for path in (path for path in gradient if "/attention/" in path):
        way = generator.standard_normal(wide[path].shape)
        way *= 1e-4 / np.sqrt((way**2).sum())
        wanted.append((expected({path: wide[path] + way}) - expected({path: wide[path] - way})) / 2)
        found.append((np.asarray(gradient[path], np.float64) * way).sum())
    assert len(found) > 20
    compared(np.array(found), np.array(wanted), 1e-4, config=model.config)


@pytest.mark.parametrize("fields", [NORMED, ADDED], ids=["normed", "added"])
def test_packed_and_padded_rows_match_the_reference(fields):
    compare_packed_and_padded_rows(fields, TOKENS)


@pytest.mark.parametrize("fields", [NORMED, ADDED], ids=["normed", "added"])
def test_keys_values_and_states_are_counted_as_they_are_kept(fields):
    fields = fields | {f"{AT}window": 0, "model.tie_embeddings": False}
    model, values, _ = random_model(fields)
    config = model.config
    decoder = IncrementalDecoder(split(model)[0], False, 1, 12, config.vocab_size, True)

    def cache():
        weights = unstack_layers(values, {}, "float32")
        return decoder.prefill(weights, PaddedTokens(jnp.zeros((1, 12), int), jnp.array([12])))[0].layers

    (entries,) = jax.eval_shape(cache)
    kept = [entry for entry in entries.values() if isinstance(entry, KeyValues)]
    states = [leaf for entry in entries.values() if not isinstance(entry, KeyValues) for leaf in jax.tree.leaves(entry)]
    assert cost.cached_numbers(config, 12) == sum(leaf.size for leaf in jax.tree.leaves(kept))
    assert cost.state_bytes(config) == sum(leaf.size * leaf.dtype.itemsize for leaf in states)
    assert len(kept) == 1
    assert states


def test_operations_are_those_of_both_parts():
    rest = {"model.tie_embeddings": False, "model.num_layers": 1, "model.position.kind": "none"}
    added, softmax, state = (
        cost.summary(tiny(fields | rest)).flops_per_token
        for fields in ({f"{AT}kind": "parallel_heads", f"{AT}mixing": "sum"}, {}, {f"{AT}kind": "mamba2"})
    )
    # The feed-forward layer, and the head for 13 tokens, forward and backward.
    others = 3 * 2 * (2 * 16 * 24 + 16 * 13)
    assert added == softmax + state - others


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (NORMED | {f"{AT}value_dim": 3}, ["mixing=normed", "num_heads * head_dim = 256", "state_heads * value_dim = 6", "sum"]),
        (NORMED | ENCODER, ["state_kind=mamba2 reads a row from left to right", "decoder"]),
        (ADDED | {f"{AT}key_heads": 3}, ["model.attention.state_heads=2 is not divisible by model.attention.key_heads=3"]),
        (NORMED | {f"{AT}decay_rank": 3}, ["model.attention.decay_rank=3 has no effect"]),
        ({f"{AT}state_dim": 4}, ["model.attention.state_dim=4 has no effect", "parallel_heads"]),
        (NORMED | {f"{AT}state_kind": "rwkv7"}, ["model.attention.state_kind='rwkv7'"]),
    ],
)  # fmt: skip
def test_impossible_parts_are_refused_in_one_line(changes, words):
    check_refused(changes, words)
