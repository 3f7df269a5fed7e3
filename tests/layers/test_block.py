"""Norm placements against the papers' equations, written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import (
    ENCODER_DECODER,
    as_float64,
    call,
    call_and_statistics,
    close,
    counting,
    random_statistics,
    random_values,
    tiny,
    with_values,
)
from tests.support.comparisons import compared
from zoo.config import side
from zoo.config.kinds import PLACEMENT_KINDS
from zoo.errors import ConfigError
from zoo.layers.context import Memory
from zoo.layers.norm import LayerNorm, NoNorm, RMSNorm
from zoo.layers.placement import make_block, make_final_norm
from zoo.models.functional import initialise

pytestmark = pytest.mark.usefixtures("einsum_kernel")

T = 6
BLOCK = ("model.norm", "model.residual", "model.parallel")
# The index of the block's layer, from 0, and its number, from 1.
INDEX, NUMBER = 2, 3
WEIGHED = ("layerscale", "x0_shortcut", "resi_dual", "interpolated", *PLACEMENT_KINDS.having("streams", "depth"))
OTHER = pytest.mark.promise(reason="the same placements with another norm, or without a residual")


def equation(config, values, x):
    """Returns the output of the reference's block for a batch of rows."""
    return reference.block(
        config, values, x, reference.counting(len(x), x.shape[1]), number=NUMBER, first=embedding_of(x)
    )


def embedding_of(x):
    """Returns the input of the first block."""
    return 2 * x[::-1, ::-1]


def entering(config, generator):
    """Returns what enters a block: a vector of each token, or one for each of its streams."""
    streams = PLACEMENT_KINDS.code_of(config.norm.placement).expand(jnp.zeros((2, T, 16)), config)
    return generator.standard_normal(streams.shape)


def context_of(x, **more):
    """Returns the context of a block that is not the first."""
    return counting(x.shape[1], layer_index=INDEX, embedding=jnp.asarray(embedding_of(x), jnp.float32), **more)


def run(overrides, seed=0):
    """Returns a block's output, its config, its values as float64, and its input."""
    config = tiny({"model.num_layers": 4} | overrides).model
    values = random_values(make_block(config), seed)
    x = 2 * entering(config, np.random.default_rng(seed + 1)) + 0.5
    block = with_values(make_block(config), values)
    context = context_of(x)
    actual = call(lambda x: block(x, context), np.float32(x))
    return actual, config, as_float64(values), x


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("kind", ["layernorm", pytest.param("rmsnorm", marks=OTHER)])
@pytest.mark.parametrize("placement", [name for name in PLACEMENT_KINDS.by_name if name != "deepnorm"])
def test_block_matches_its_equation(placement, kind, residual):
    if placement in WEIGHED and not residual:
        pytest.skip("refused by the config")
    actual, config, values, x = run(
        {"model.norm.placement": placement, "model.norm.kind": kind, "model.residual": residual}
    )
    compared(actual, equation(config, values, x), config=config, parts=BLOCK)


@pytest.mark.parametrize("residual", [True, False])
def test_block_without_norms_matches_its_equation(residual):
    actual, config, values, x = run({"model.norm.kind": "none", "model.residual": residual})
    assert set(values) == {"attention", "ffn"}
    compared(actual, equation(config, values, x), config=config, parts=BLOCK)


@pytest.mark.parametrize("changes", [{}, {"model.norm.placement": "sandwich"}, {"model.parallel": "own_norms"}])
def test_attention_without_input_norm_matches_its_equation(changes):
    actual, config, values, x = run(changes | {"model.attention.input_norm": False})
    assert "attention_norm" not in values
    assert "ffn_norm" in values
    compared(actual, equation(config, values, x), config=config, parts=(*BLOCK, "model.attention.input_norm"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.norm.placement": "post"}, "model.norm.placement"),
        ({"model.norm.kind": "none"}, "model.norm.kind=none"),
        ({"model.parallel": "shared_norm"}, "use own_norms"),
    ],
)
def test_leaving_out_an_absent_input_norm_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        tiny(changes | {"model.attention.input_norm": False})


@pytest.mark.parametrize(
    "changes",
    [
        {"model.convolution.kind": "kv_shift"},
        pytest.param({"model.attention.gate": "elementwise"}, marks=OTHER),
        pytest.param({"model.attention.input_norm": False}, marks=OTHER),
        pytest.param({"model.attention.kind": "differential"}, marks=OTHER),
    ],
    ids=str,
)
def test_keys_and_values_have_inputs_of_their_own(changes):
    actual, config, values, x = run({"model.norm.placement": "mudd"} | changes)
    close(actual, equation(config, values, x))


def test_post_norm_normalises_the_stream_after_attention():
    # A common mistake is x += attention(x); x += ffn(norm(x)); norm(x), which leaves the stream
    # unnormalised between the sublayers.
    actual, config, values, x = run({"model.norm.placement": "post"})
    rows = reference.counting(len(x), T)
    wrong = x + reference.attention_layer(config, values["attention"], x, rows)
    wrong = wrong + reference.feed_forward(
        config, values["ffn"], reference.norm(config, values["attention_norm"], wrong)
    )
    assert abs(actual - reference.norm(config, values["ffn_norm"], wrong)).max() > 0.1


@pytest.mark.parametrize("layers", [1, 6])
def test_deepnorm_weights_the_stream_and_scales_initial_values(layers):
    actual, config, values, x = run({"model.norm.placement": "deepnorm", "model.num_layers": layers})
    compared(actual, equation(config, values, x), config=config, parts=BLOCK)
    # Wang et al. 2022, figure 2, decoder-only.
    assert PLACEMENT_KINDS.code_of("deepnorm").constants(config, None) == pytest.approx(
        ((2 * layers) ** 0.25, (8 * layers) ** -0.25)
    )
    encoder = reference.overlaid(config, {"architecture": "encoder"})
    decoder = reference.overlaid(config, {"architecture": "decoder"})
    N, M = 18, 6
    assert PLACEMENT_KINDS.code_of("deepnorm").constants(encoder, (N, M)) == pytest.approx(
        (0.81 * (N**4 * M) ** 0.0625, 0.87 * (N**4 * M) ** -0.0625)
    )
    assert PLACEMENT_KINDS.code_of("deepnorm").constants(decoder, (N, M)) == pytest.approx(
        ((3 * M) ** 0.25, (12 * M) ** -0.25)
    )


@pytest.mark.parametrize("parallel", ["shared_norm", "own_norms"])
@pytest.mark.parametrize("residual", [True, False])
def test_parallel_sublayers_match_their_equation(parallel, residual):
    actual, config, values, x = run({"model.parallel": parallel, "model.residual": residual})
    assert ("ffn_norm" in values) == (parallel == "own_norms")
    compared(actual, equation(config, values, x), config=config, parts=BLOCK)


@pytest.mark.parametrize("residual", [True, pytest.param(False, marks=OTHER)])
@pytest.mark.parametrize("placement", list(PLACEMENT_KINDS.by_name))
def test_cross_attention_is_between_attention_and_feed_forward(placement, residual):
    if placement in ("deepnorm", *WEIGHED) and not residual:
        pytest.skip("refused by the config")
    if placement in ("depth_attention", "mudd"):
        pytest.skip("it is refused beside cross-attention")
    fields = {"model.norm.placement": placement, "model.residual": residual, "model.decoder.num_layers": 3}
    config = side(tiny(ENCODER_DECODER | fields).model, "decoder")
    module, generator = make_block(config, cross=True, sides=(2, 3)), np.random.default_rng(1)
    values = random_values(module, 0)
    x, hidden = entering(config, generator), generator.standard_normal((2, 4, 16))
    places = np.array([[0, 1, 2, 3], [0, 1, -1, -1]])
    block = with_values(module, values)
    actual = call(
        lambda x, hidden: block(x, context_of(x, memory=Memory(hidden, places))), np.float32(x), np.float32(hidden)
    )
    rows = reference.Rows(np.tile(np.arange(T), (2, 1)), memory=hidden, memory_positions=places)
    expected = reference.block(config, as_float64(values), x, rows, sides=(2, 3), number=NUMBER, first=embedding_of(x))
    close(actual, expected)


@pytest.mark.parametrize(
    "fields", [{}, {"model.norm.placement": "sandwich"}, {"model.parallel": "shared_norm"}], ids=str
)
def test_batch_norms_of_a_block_use_and_record_batch_moments(fields):
    config = tiny({"model.norm.kind": "batchnorm", "model.norm.momentum": 0.75, **fields}).model
    module, x = make_block(config), np.random.default_rng(1).standard_normal((2, T, 16))
    values, stats = random_values(module, 0), random_statistics(module, 1)
    use = lambda block, x: block(x, counting(T, training=True))  # noqa: E731
    actual, after = call_and_statistics(module, values, stats, use, np.float32(x))
    rows = reference.Rows(np.tile(np.arange(T), (2, 1)), training=True)
    close(actual, reference.block(config, as_float64(values), x, rows))
    order = ("attention_norm", "attention_output_norm", "ffn_norm", "ffn_output_norm")
    names = [name for name in order if name in stats]
    assert len(names) == len(rows.moments) == len(stats)
    for name, (mean, variance) in zip(names, rows.moments, strict=True):
        close(after[name]["mean"], 0.75 * np.float64(stats[name]["mean"]) + 0.25 * mean)
        close(after[name]["variance"], 0.75 * np.float64(stats[name]["variance"]) + 0.25 * variance)


def test_norm_placements_give_different_outputs():
    outputs = [run({"model.norm.placement": placement})[0] for placement in PLACEMENT_KINDS.by_name]
    outputs = [each if each.ndim == 3 else each[:, :, 0] for each in outputs]
    for index, one in enumerate(outputs):
        assert all(abs(one - other).max() > 0.1 for other in outputs[:index])


def begun(fields):
    """Returns a block's initial values as numpy arrays, and its output with them."""
    module = make_block(tiny(fields).model)
    values = jax.tree.map(np.asarray, initialise(module, 0))
    x = np.random.default_rng(1).standard_normal((2, T, 16)).astype(np.float32)
    context = context_of(x)
    return values, x, call(lambda x: with_values(module, values)(x, context), x)


def test_x0_shortcut_starts_as_pre_norm():
    (pre, _, plain), (own, _, shortcut) = (begun({"model.norm.placement": name}) for name in ("pre", "x0_shortcut"))
    assert {name: own[name].tolist() for name in own.keys() - pre.keys()} == {
        "stream_scale": [1],
        "shortcut_scale": [0],
    }
    np.testing.assert_array_equal(plain, shortcut)


@pytest.mark.parametrize(
    "fields",
    [{"model.init.zero_outputs": True}, {"model.norm.placement": "layerscale", "model.norm.layerscale_start": 0.0}],
    ids=str,
)
def test_block_initialised_as_the_identity_has_gradients(fields):
    values, x, y = begun(fields)
    compared(y, x, 0, config=tiny(fields), parts=("model.init", "model.norm.placement"), against="the identity")
    module, context = make_block(tiny(fields).model), context_of(x)
    gradients = call(jax.grad(lambda values: (with_values(module, values)(x, context) ** 2).sum()), values)
    zero = fields.get("model.init.zero_outputs")
    for part, last in (("attention", "output"), ("ffn", "down")):
        assert abs(gradients[part][last]["kernel"] if zero else gradients[f"{part}_scale"]).max() > 1e-3


def test_pre_norm_does_not_normalise_the_stream():
    # If both sublayers return 0, a pre-norm block is the identity and a post-norm block applies two
    # norms.
    for placement in ("pre", "post"):
        config = tiny({"model.norm.placement": placement}).model
        values = random_values(make_block(config), 0)
        for last in (values["attention"]["output"], values["ffn"]["down"]):
            last.update({name: np.zeros(leaf.shape, np.float32) for name, leaf in last.items()})
        x = 3 * np.random.default_rng(1).standard_normal((1, T, 16))
        block = with_values(make_block(config), values)
        actual = call(lambda x, block=block: block(x, counting(T)), np.float32(x))
        wide = as_float64(values)
        expected = x
        if placement == "post":
            for name in ("attention_norm", "ffn_norm"):
                expected = reference.layer_norm(expected, wide[name]["scale"], wide[name]["bias"], 1e-5)
        close(actual, expected)


@pytest.mark.parametrize(
    ("overrides", "final"),
    [
        ({"model.norm.placement": "pre", "model.norm.kind": "layernorm"}, LayerNorm),
        ({"model.norm.placement": "pre", "model.norm.kind": "rmsnorm"}, RMSNorm),
        ({"model.norm.placement": "post", "model.norm.kind": "layernorm"}, NoNorm),
        ({"model.norm.placement": "deepnorm"}, NoNorm),
        ({"model.norm.placement": "interpolated"}, NoNorm),
        ({"model.norm.placement": "sandwich"}, LayerNorm),
        ({"model.norm.placement": "reordered"}, LayerNorm),
        ({"model.norm.placement": "resi_dual"}, LayerNorm),
        ({"model.norm.kind": "none"}, NoNorm),
    ],
)
def test_final_norm_exists_only_for_an_unnormalised_stream(overrides, final):
    assert type(make_final_norm(tiny(overrides).model)) is final


def test_resi_dual_ends_in_one_stream_plus_the_norm_of_the_other():
    config = tiny({"model.norm.placement": "resi_dual"}).model
    x, block = entering(config, np.random.default_rng(1)), PLACEMENT_KINDS.code_of("resi_dual")
    module = make_final_norm(config)
    values = random_values(module, 0)
    norm = with_values(module, values)
    actual = call(lambda x: block.hidden_states(x, norm, config, counting(T)), np.float32(x))
    expected = x[:, :, 0] + reference.norm(config, as_float64(values), x[:, :, 1])
    compared(actual, expected, config=config, parts=BLOCK)
    begun = np.float32(x[:, :, 0])
    np.testing.assert_array_equal(block.expand(begun, config), np.stack([begun, begun], axis=2))


def test_the_two_norms_of_a_block_are_distinct():
    _, config, values, x = run({"model.norm.placement": "pre"})
    swapped = values | {"attention_norm": values["ffn_norm"], "ffn_norm": values["attention_norm"]}
    assert abs(equation(config, values, x) - equation(config, swapped, x)).max() > 0.1
