"""Feed-forward layers against their equations."""

import math

import jax
import numpy as np
import pytest

from tests import reference
from tests.support.building import as_float64, call, random_values, tiny, with_values
from tests.support.comparisons import compared, note
from zoo import config as configs
from zoo.errors import ConfigError
from zoo.layers.feedforward import hidden_dim, make_feed_forward
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, split

PLAIN = ("relu", "gelu", "silu", "relu_squared", "leaky_relu_squared", "xielu")
GATED = ("swiglu", "geglu", "reglu", "swiglu_clamped")
# A clamp that about half of the units reach, and a slope other than the default.
FIELDS = {"swiglu_clamped": {"model.ffn.clamp": 1.0}, "leaky_relu_squared": {"model.ffn.negative_slope": 0.3}}
MATCHED = ("matched-parameters",)
NUMBERS = {"xielu": {"positive", "negative"}}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [*PLAIN, *GATED, "gelu tanh", "geglu tanh"])
def test_layer_matches_its_equation(kind, bias):
    name, _, form = kind.partition(" ")
    config = tiny(
        {"model.ffn.kind": name, "model.ffn.bias": bias, "model.ffn.gelu_approximation": form or "none"}
        | FIELDS.get(name, {})
    ).model
    module, values = make_feed_forward(config), random_values(make_feed_forward(config), 1)
    matrices = {"gate", "up", "down"} if name in GATED else {"up", "down"}
    assert set(values) == matrices | NUMBERS.get(name, set())
    assert all(("bias" in values[part]) == bias for part in matrices)
    x = 2 * np.random.default_rng(2).standard_normal((2, 5, 16))
    expected = reference.feed_forward(config, as_float64(values), x)
    compared(call(with_values(module, values), np.float32(x)), expected, 2e-6, config=config, parts="model.ffn")


@pytest.mark.parametrize("kind", ["swiglu", "relu_squared", "swiglu_clamped"])
def test_factors_of_hidden_units_match_their_equation(kind):
    config = tiny({"model.ffn.kind": kind, "model.ffn.hidden_scale": True}).model
    module, values = make_feed_forward(config), random_values(make_feed_forward(config), 1)
    assert {name for name in values if name.endswith("scale")} == {
        f"{name}_scale" for name in (("up", "gate") if kind in GATED else ("up",))
    }
    x = np.random.default_rng(2).standard_normal((2, 5, 16))
    expected = reference.feed_forward(config, as_float64(values), x)
    compared(call(with_values(module, values), np.float32(x)), expected, 2e-6, config=config, parts="model.ffn")


def test_factors_of_the_hidden_units_of_experts_are_refused():
    with pytest.raises(ConfigError, match=r"model\.ffn\.hidden_scale=true has no factors for each expert"):
        tiny({"model.ffn.kind": "moe", "model.ffn.hidden_scale": True})


def test_exact_and_tanh_gelu_differ():
    x = np.linspace(-4, 4, 81)
    assert 1e-4 < abs(reference.activation("gelu", x) - reference.activation("gelu_tanh", x)).max() < 1e-3


def weights(kind, hidden, bias):
    config = tiny(
        {
            "model.ffn.kind": kind,
            "model.ffn.hidden_dim": hidden,
            "model.ffn.match_parameters": True,
            "model.ffn.bias": bias,
        }
    ).model
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(split(make_feed_forward(config))[1]))


@pytest.mark.parametrize("kind", GATED)
def test_matched_gated_kinds_have_equal_parameter_counts(kind):
    for hidden in (24, 96, 300):
        assert weights(kind, hidden, bias=False) == weights("gelu", hidden, bias=False)
    for hidden in (64, 128, 1000, 4096):
        assert weights(kind, hidden, bias=False) == pytest.approx(weights("gelu", hidden, bias=False), rel=0.01)
        # Two biases of 2/3 F against one of F: less than one part in 2 D of the whole.
        gated, plain = weights(kind, hidden, bias=True), weights("gelu", hidden, bias=True)
        note(abs(gated / plain - 1), 0.02, against="the parameter count of a layer without a gate", variants=MATCHED)


def test_hidden_width_is_that_of_the_config_unless_matched():
    for match, gated in ((False, 24), (True, 16)):
        for kind in (*PLAIN, *GATED):
            width = hidden_dim(tiny({"model.ffn.kind": kind, "model.ffn.match_parameters": match}).model)
            assert width == (gated if kind in GATED else 24)


def hidden_units(kind, x, **fields):
    """Returns the output for x of a layer with identity matrices and no biases."""
    config = tiny({"model.ffn.kind": kind, "model.ffn.hidden_dim": 16, "model.ffn.bias": False} | fields).model
    layer = make_feed_forward(config)
    values = initialise(layer, 0)
    for name in ("up", "gate", "down"):
        values |= {name: {"kernel": np.eye(16, dtype=np.float32)}} if name in values else {}
    return call(with_values(layer, values), np.full((1, 1, 16), x, np.float32))[0, 0, 0]


def test_clamped_gate_is_bounded_above_only_and_linear_unit_adds_one():
    # u = -7 + 1 and g = -20, which a bound on both sides would make -7.
    assert hidden_units("swiglu_clamped", -20.0) == pytest.approx(-6 * -20 / (1 + math.exp(1.702 * 20)), rel=1e-5)
    assert hidden_units("swiglu_clamped", 20.0) == pytest.approx(8 * 7 / (1 + math.exp(-1.702 * 7)), rel=1e-6)
    assert hidden_units("swiglu_clamped", 0.0) == 0


def test_xielu_has_the_paper_s_initial_values_and_finite_gradients():
    assert hidden_units("xielu", 2.0) == pytest.approx(0.8 * 4 + 1, rel=1e-6)
    assert hidden_units("xielu", -2.0) == pytest.approx(0.8 * (math.exp(-2) - 1 + 2) - 1, rel=1e-6)
    layer = make_feed_forward(tiny({"model.ffn.kind": "xielu"}).model)
    values, x = random_values(layer, 1), np.float32([[[1e3] * 16, [-1e3] * 16]])
    gradients = call(jax.grad(lambda values: with_values(layer, values)(x).sum()), values)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    assert gradients["positive"] != 0 != gradients["negative"]


# D, `dim_multiplier`, `multiple_of` and the published F (Touvron et al. 2023a and b; Grattafiori et
# al. 2024).
LLAMA_WIDTHS = {
    "7b": (4096, 1.0, 256, 11008),
    "13b": (5120, 1.0, 256, 13824),
    "33b": (6656, 1.0, 256, 17920),
    "65b": (8192, 1.0, 256, 22016),
    "v2-70b": (8192, 1.3, 4096, 28672),
    "v3-8b": (4096, 1.3, 1024, 14336),
    "v3-70b": (8192, 1.3, 4096, 28672),
    "v3-405b": (16384, 1.2, 4096, 53248),
}


@pytest.mark.parametrize(("dim", "multiplier", "multiple", "published"), LLAMA_WIDTHS.values(), ids=LLAMA_WIDTHS)
def test_published_widths_follow_from_multiplier_and_multiple(dim, multiplier, multiple, published):
    changes = {
        "model.dim": dim,
        "model.attention.num_heads": 32,
        "model.ffn.kind": "swiglu",
        "model.ffn.match_parameters": True,
        "model.ffn.dim_multiplier": multiplier,
        "model.ffn.multiple_of": multiple,
    }
    config = configs.resolve(configs.override(configs.default(), changes))
    assert config.model.ffn.hidden_dim == 4 * dim
    difference = abs(hidden_dim(config.model) / published - 1)
    note(difference, 0, against="the published widths of LLaMA, LLaMA 2 and LLaMA 3", variants=("rounded-width",))
    # A resolved config is one too, and says the same.
    assert hidden_dim(configs.resolve(config).model) == published


def width_of(**fields):
    return hidden_dim(tiny({f"model.ffn.{name}": value for name, value in fields.items()}).model)


def test_width_is_rounded_down_before_each_factor_and_up_to_a_multiple():
    matched = {"kind": "swiglu", "match_parameters": True}
    # 2/3 of 47 is 31.3, of 46 30.7, which is 31 alone and 30 before a factor or a multiple.
    assert [width_of(hidden_dim=width, **matched) for width in (47, 46)] == [31, 31]
    assert width_of(hidden_dim=46, multiple_of=10, **matched) == 30
    assert width_of(hidden_dim=47, multiple_of=10, **matched) == 40
    # int(1.5 int(92 / 3)) = 45, where 1.5 x 92 / 3 is 46.
    assert width_of(hidden_dim=46, dim_multiplier=1.5, **matched) == 45
    # Kinds without a gate keep the whole width.
    assert width_of(kind="gelu", hidden_dim=46, dim_multiplier=1.5, multiple_of=8) == 72
    assert width_of(kind="gelu", hidden_dim=10, dim_multiplier=0.01) == 1


def test_adjustments_that_leave_a_given_width_as_it_is_are_refused():
    with pytest.raises(ConfigError, match=r"model.ffn.multiple_of=8 has no effect: .*=40 .* 40 hidden units") as error:
        width_of(hidden_dim=40, multiple_of=8)
    assert len(error.value.problems) == 1
    with pytest.raises(ConfigError, match=r"model.ffn.dim_multiplier=1.01 has no effect: .* 40 hidden units"):
        width_of(hidden_dim=40, dim_multiplier=1.01)
    # The width of this size needs no rounding; another of the same ladder may.
    assert width_of(hidden_dim="auto", multiple_of=8) == 64


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.ffn.hidden_dim": 32}, "model.ffn.hidden_dim=32 has no effect"),
        ({"model.ffn.bias": False}, "model.ffn.bias=False has no effect"),
        ({"model.parallel": "own_norms"}, "model.ffn.kind=none: model.parallel=own_norms needs two sublayers"),
        ({"model.convolution.kind": "canon"}, "model.ffn.kind=none: model.convolution.places=ABC .* leave out C"),
        ({"model.ffn.kind": "moe", "model.ffn.experts.kind": "none"}, "model.ffn.experts.kind=none: an expert has hidden"),
    ],
)  # fmt: skip
def test_what_needs_a_feed_forward_layer_is_refused_without_one(changes, words):
    with pytest.raises(ConfigError, match=words):
        tiny({"model.ffn.kind": "none", "model.ffn.hidden_dim": "auto"} | changes)


def test_without_feed_forward_layers_depth_counts_one_sublayer_per_block():
    fields = {"model.init.scale_residual": True, "model.num_layers": 8}
    with_both, alone = (
        initialise(make_model(tiny(fields | more)), 0)["stack"]["layers"]["attention"]["output"]["kernel"]
        for more in ({}, {"model.ffn.kind": "none", "model.ffn.hidden_dim": "auto"})
    )
    np.testing.assert_allclose(alone, 2**0.5 * with_both, rtol=1e-6)
