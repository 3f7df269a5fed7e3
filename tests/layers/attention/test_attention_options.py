"""Easy mistakes in options of attention. Their equations are tested in `test_attention.py`."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from tests.support.building import call, close, counting, random_values, tiny, with_values
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.context import Context
from zoo.layers.position.rope import Rope

T, H, K = 8, 4, 4
X = np.random.default_rng(3).standard_normal((2, T, 16)).astype(np.float32)
KIND = "model.attention.kind"
NO_BIAS = {"model.attention.bias": False, "model.position.kind": "none"}


def run(changes, values=None, x=X, context=None):
    """The output of a layer, and its values: random ones if none are given."""
    abstract = make_attention(tiny(changes).model)
    values = random_values(abstract, 6) if values is None else values
    return call(lambda x: with_values(abstract, values)(x, context or counting(x.shape[1])), x), values


def test_output_gate_with_zero_weights_halves_the_output():
    plain, values = run(NO_BIAS)
    for gate, source, shape in (("elementwise", "x", (16, 16)), ("head", "x", (16, H)), ("head", "attended", (16, H))):
        changes = NO_BIAS | {"model.attention.gate": gate, "model.attention.gate_input": source}
        close(run(changes, values | {"output_gate": {"projection": {"kernel": jnp.zeros(shape)}}})[0], plain / 2, 1e-6)


def test_softmax_plus_one_equals_a_sink_with_score_zero():
    one, values = run({KIND: "softmax_plus_one"})
    sinks, _ = run({"model.attention.sinks": True}, values | {"sinks": jnp.zeros(H)})
    np.testing.assert_array_equal(one, sinks)


def test_sigmoid_attention_bias_is_minus_log_of_the_length():
    assert tiny({KIND: "sigmoid"}).model.attention.sigmoid_bias == pytest.approx(-math.log(T))
    # With scores of 0 every visible key has the weight 1 / (1 + n), and nothing divides by their sum.
    values = random_values(make_attention(tiny(NO_BIAS).model), 6)
    found, _ = run(NO_BIAS | {KIND: "sigmoid"}, values | {"query": {"kernel": jnp.zeros((16, 16))}})
    v = X @ np.asarray(values["value"]["kernel"])
    close(found, np.cumsum(v, axis=1) / (1 + T) @ np.asarray(values["output"]["kernel"]))


def test_p_rope_drops_low_frequencies_and_partial_rope_keeps_the_range():
    def frequencies(**fields):
        changes = {"model.position.kind": "rope", "model.attention.head_dim": 16}
        config = tiny(changes | {f"model.position.{name}": value for name, value in fields.items()}).model
        return np.asarray(Rope(config).frequencies(jnp.arange(T)[None]))

    whole, kept, spread = frequencies(), frequencies(kept_frequencies=0.5), frequencies(fraction=0.5)
    np.testing.assert_array_equal(kept, [*whole[:4], 0, 0, 0, 0])
    np.testing.assert_allclose(spread, whole[::2], rtol=1e-6)
    with pytest.raises(ConfigError, match=r"kept_frequencies=0\.3 of 8 frequencies is 2\.4, not a whole number"):
        frequencies(kept_frequencies=0.3)


def test_exclusive_heads_are_orthogonal_to_their_own_values():
    changes = NO_BIAS | {"model.attention.exclusive": True, "model.attention.num_kv_heads": 2}
    _, values = run(changes)
    attended = run(changes, values | {"output": {"kernel": jnp.eye(16)}})[0].reshape(2, T, H, K)
    own = np.repeat((X @ np.asarray(values["value"]["kernel"])).reshape(2, T, 2, K), 2, axis=2)
    assert np.abs((attended * own).sum(axis=-1)).max() < 1e-5
    # The first token sees only itself.
    assert np.abs(attended[:, 0]).max() < 1e-5 < np.abs(attended[:, 1]).max()


def test_forget_gates_are_summed_in_float32_within_documents():
    fields = {KIND: "forgetting", "model.position.kind": "none", "model.attention.implementation": "einsum"}
    long = np.random.default_rng(4).standard_normal((1, 600, 16)).astype(np.float32)
    exact, values = run(fields, x=long)
    half, _ = run(fields | {"model.dtype": "bfloat16"}, values, jnp.asarray(long, jnp.bfloat16))
    # In bfloat16, sums of several hundred would be rounded to multiples of 2.
    close(half[:, -100:], exact[:, -100:], 5e-2)
    first, second = X[:1, :3], X[1:, :5]
    context = Context(jnp.asarray([[0, 1, 2, 0, 1, 2, 3, 4]]), jnp.asarray([[0] * 3 + [1] * 5]), in_order=True)
    together, _ = run(fields, values, np.concatenate([first, second], axis=1), context)
    close(together[:, :3], run(fields, values, first)[0])
    close(together[:, 3:], run(fields, values, second)[0])


ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
XLA = {"model.attention.implementation": "xla"}
DIFFERENTIAL = {KIND: "differential"}
LATENT = {KIND: "latent"}


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({KIND: "performer", "model.attention.exclusive": True}, "cannot be combined with model.attention.exclusive"),
        ({KIND: "performer", "model.attention.ssmax": 0.4}, "cannot be combined with model.attention.ssmax"),
        (XLA | {KIND: "sigmoid"}, "xla does not support model.attention.kind=sigmoid"),
        (XLA | {KIND: "softmax_plus_one"}, "xla does not support model.attention.kind=softmax_plus_one"),
        (ENCODER | {KIND: "forgetting"}, "kind=forgetting forgets from left to right"),
        ({KIND: "forgetting", "objective.kind": "prefix"}, "cannot be combined with objective.kind=prefix"),
        ({KIND: "softmax_plus_one", "model.attention.sinks": True}, "softmax_plus_one is a sink of score 0"),
        ({KIND: "sigmoid", "model.attention.sinks": True}, "kind=sigmoid has no sum over the keys"),
        (XLA | DIFFERENTIAL, "xla does not support model.attention.kind=differential"),
        (DIFFERENTIAL | {"model.attention.num_heads": 3}, "num_kv_heads=3 must be even"),
        (DIFFERENTIAL | {"model.attention.num_kv_heads": 1}, "num_kv_heads=1 must be even"),
        (DIFFERENTIAL | {"model.attention.exclusive": True}, "exclusive=True acts on single heads"),
        (DIFFERENTIAL | {"model.attention.output_norm": True}, "output_norm=True acts on single heads"),
        (DIFFERENTIAL | {"model.attention.gate": "head"}, "gate=head acts on single heads"),
        (DIFFERENTIAL | {"model.position.kind": "shaw"}, "set model.position.relative_values=false"),
        (LATENT | {"model.attention.num_kv_heads": 2}, "num_kv_heads=2 shares heads"),
        (LATENT | {"model.attention.num_query_heads": 2}, "num_query_heads=2 shares heads"),
        (LATENT | {"model.attention.qk_norm": "head"}, "qk_norm=head cannot be combined"),
        (LATENT | {"model.attention.value_norm": True}, "value_norm=true cannot be combined"),
        (
            LATENT
            | ENCODER
            | {
                "model.attention.window": 3,
                "model.attention.global_tokens": 1,
                "model.attention.global_projections": True,
            },
            "global_projections=true cannot be combined",
        ),
        (LATENT | {"model.position.kind": "shaw"}, "kind=shaw adds vectors to the keys"),
        (LATENT | {"model.position.kind": "rope", "model.attention.rotary_dim": 3}, "rotary_dim=3 times"),
        (LATENT | {"model.parametrization": "mup", "model.base_dim": 8}, "takes all widths to grow"),
        (LATENT | {"model.convolution.kind": "kv_shift"}, "kind=kv_shift acts on the keys"),
        (LATENT | {"model.convolution.kind": "canon"}, "leave B out of model.convolution.places"),
        ({"model.attention.gate_input": "attended"}, "gate_input=attended has no effect"),
        ({"model.attention.bias": False, "model.attention.output_bias": False}, "output_bias=False has no effect"),
    ],
    ids=str,
)
def test_unsupported_combinations_are_refused_by_name(changes, line):
    with pytest.raises(ConfigError, match=line):
        tiny(changes)
