"""Norm placements against the papers' equations, written out."""

import numpy as np
import pytest

from tests import reference
from tests.building import as_float64, call, close, counting, random_values, tiny, with_values
from zoo.layers.block import PLACEMENTS, make_block, make_final_norm
from zoo.layers.norm import LayerNorm, NoNorm, RMSNorm
from zoo.layers.position import make_position

T = 6


def run(overrides, seed=0):
    """Returns a block's output, its config, its values as float64, and its input."""
    config = tiny(overrides).model
    values = random_values(make_block(config), seed)
    x = 2 * np.random.default_rng(seed + 1).standard_normal((2, T, 16)) + 0.5
    block = with_values(make_block(config), values)
    actual = call(lambda x: block(x, counting(T), make_position(config)), np.float32(x))
    return actual, config, as_float64(values), x


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("placement", ["pre", "post"])
def test_a_block_is_its_equation(placement, kind, residual):
    actual, config, values, x = run({"model.norm.placement": placement, "model.norm.kind": kind, "model.residual": residual})
    close(actual, [reference.block(config, values, row, np.arange(T)) for row in x])


@pytest.mark.parametrize("residual", [True, False])
def test_a_block_without_norm(residual):
    actual, config, values, x = run({"model.norm.kind": "none", "model.residual": residual})
    assert set(values) == {"attention", "ffn"}
    close(actual, [reference.block(config, values, row, np.arange(T)) for row in x])


def test_post_norm_normalises_the_residual_stream_after_attention_too():
    # A form met in the wild, x += attention(x); x += ffn(norm(x)); norm(x), is not post-norm: its stream is raw in between.
    actual, config, values, x = run({"model.norm.placement": "post"})
    wrong = []
    for row in x:
        row = row + reference.self_attention(config, values["attention"], row, np.arange(T))
        row = row + reference.feed_forward(config, values["ffn"], reference.norm(config, values["attention_norm"], row))
        wrong.append(reference.norm(config, values["ffn_norm"], row))
    assert abs(actual - wrong).max() > 0.1


def test_the_two_placements_differ():
    pre, post = (run({"model.norm.placement": placement})[0] for placement in ("pre", "post"))
    assert abs(pre - post).max() > 0.1


def test_a_pre_norm_stream_is_never_normalised():
    # Where both sublayers give nothing, pre-norm is the identity and post-norm is two norms.
    for placement in PLACEMENTS:
        config = tiny({"model.norm.placement": placement}).model
        values = random_values(make_block(config), 0)
        for last in (values["attention"]["output"], values["ffn"]["down"]):
            last.update({name: np.zeros(leaf.shape, np.float32) for name, leaf in last.items()})
        x = 3 * np.random.default_rng(1).standard_normal((1, T, 16))
        block = with_values(make_block(config), values)
        actual = call(lambda x, block=block, config=config: block(x, counting(T), make_position(config)), np.float32(x))
        wide = as_float64(values)
        expected = x
        if placement == "post":
            for name in ("attention_norm", "ffn_norm"):
                expected = reference.layer_norm(expected, wide[name]["scale"], wide[name]["bias"], 1e-5)
        close(actual, expected)


@pytest.mark.parametrize(("overrides", "final"), [
    ({"model.norm.placement": "pre", "model.norm.kind": "layernorm"}, LayerNorm),
    ({"model.norm.placement": "pre", "model.norm.kind": "rmsnorm"}, RMSNorm),
    ({"model.norm.placement": "post", "model.norm.kind": "layernorm"}, NoNorm),
    ({"model.norm.kind": "none"}, NoNorm),
])
def test_only_pre_norm_has_a_final_norm(overrides, final):
    assert type(make_final_norm(tiny(overrides).model)) is final


def test_the_two_norms_of_a_block_are_not_one():
    _, config, values, x = run({"model.norm.placement": "pre"})
    swapped = values | {"attention_norm": values["ffn_norm"], "ffn_norm": values["attention_norm"]}
    rows = [reference.block(config, values, x[0], np.arange(T)), reference.block(config, swapped, x[0], np.arange(T))]
    assert abs(rows[0] - rows[1]).max() > 0.1
