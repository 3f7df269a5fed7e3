"""Multi-head latent attention: what it becomes in special cases, and what it keeps for decoding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import call, close, counting, random_values, tiny, with_values
from zoo.config.kinds import ATTENTION_KINDS
from zoo.layers.attention import make_attention
from zoo.layers.cache import Cache
from zoo.layers.context import Context
from zoo.models import cost

LATENT = {"model.attention.kind": "latent", "model.attention.bias": False}
ROPE = {"model.position.kind": "rope"}
B, T, D = 2, 7, 16


def normalised_rows():
    """Returns inputs [B, T, D] whose root mean square is 1, which a norm leaves as they are."""
    x = np.random.default_rng(3).standard_normal((B, T, D))
    return np.float32(x / np.sqrt((x**2).mean(axis=-1, keepdims=True)))


def test_a_latent_vector_that_is_the_input_gives_multi_head_attention():
    latent = tiny(LATENT | {"model.attention.latent_dim": D}).model
    plain = tiny({"model.attention.bias": False}).model
    values = random_values(make_attention(plain), 2)
    identity = {"latent": {"kernel": np.eye(D, dtype=np.float32)}, "latent_norm": {"scale": np.ones(D, np.float32)}}
    context, x = counting(T), normalised_rows()
    expected = call(lambda x: with_values(make_attention(plain), values)(x, context), x)
    found = call(lambda x: with_values(make_attention(latent), values | identity)(x, context), x)
    close(found, expected, 1e-5)


def test_scores_depend_on_distances_alone_and_only_by_the_rotated_part():
    config = tiny(LATENT | ROPE).model
    values = random_values(make_attention(config), 4)
    x = normalised_rows()

    def at(first, values):
        context = Context(jnp.arange(T)[None] + first, causal=False)
        return call(lambda x: with_values(make_attention(config), values)(x, context), x)

    close(at(0, values), at(5, values), 1e-5)
    # Without k' nothing depends on positions, so that permuted tokens give permuted outputs.
    without = values | {"rotary_key": jax.tree.map(np.zeros_like, values["rotary_key"])}
    order = np.random.default_rng(1).permutation(T)
    context = Context(jnp.arange(T)[None], causal=False)
    module = with_values(make_attention(config), without)
    close(call(lambda x: module(x, context), x)[:, order], call(lambda x: module(x, context), x[:, order]), 1e-5)
    assert np.abs(at(0, values) - at(0, without)).max() > 1e-2


@pytest.mark.parametrize(("position", "kept"), [(ROPE, 16 + 2), ({}, 16)])
def test_the_cache_keeps_the_latent_vector_and_the_rotated_key(position, kept):
    config = tiny(LATENT | position).model
    assert kept == config.attention.latent_dim + config.attention.rotary_dim
    assert ATTENTION_KINDS.code_of("latent").cached_numbers(config) == kept
    assert ATTENTION_KINDS.code_of("softmax").cached_numbers(config) == 2 * D
    module = with_values(make_attention(config), random_values(make_attention(config), 2))

    def fill(x):
        cache = Cache([{}], jnp.full(B, T - 1), jnp.int32(T - 1), 12)
        module(x, Context(jnp.arange(T)[None], in_order=True, cache=cache))
        return cache.entries["attention"]

    entry = call(fill, normalised_rows())
    assert sum(leaf.size for leaf in jax.tree.leaves(entry)) == B * 12 * kept
    assert [leaf.shape for leaf in jax.tree.leaves(entry.take(np.array([1])))] == [(12, kept), (12, 0)]


def test_scores_and_values_cost_what_their_widths_say():
    def flops(changes):
        config = tiny(changes)
        return ATTENTION_KINDS.code_of(config.model.attention.kind).product_flops(config.model, 10, 3)

    # Four heads: 4 wide in softmax attention, and queries and keys 2 wider with RoPE.
    assert flops({}) == 4 * 4 * 4 * 30
    assert flops(LATENT | ROPE) == 2 * 4 * (4 + 2 + 4) * 30
    counted = cost.summary(tiny(LATENT | ROPE | {"model.num_layers": 1})).blocks
    # W: 16 x 24, W_c: 16 x 16, its norm, W': 16 x 2, W_k and W_v: 16 x 16 each, W_o: 16 x 16.
    assert counted["blocks/attention"] == 16 * 24 + 16 * 16 + 16 + 16 * 2 + 3 * 16 * 16
