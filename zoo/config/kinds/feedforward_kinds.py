"""Kinds of feed-forward layers."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.description import Description
from zoo.config.kinds.expert_kinds import MIXTURE
from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.ffn.kind"

ACTIVATIONS = ("relu", "gelu", "silu")
_RELU = "act(x) = max(0, x)."
_GELU = "act(x) = x Phi(x), Phi the distribution function of the standard normal distribution."
_SILU = "act(x) = x / (1 + exp(-x)), also called Swish."
GLU_RESULT = (
    "Shazeer 2020, table 1, log-perplexity of T5-base after 65,536 and 524,288 steps, at equal parameters: ReLU "
    "1.997, 1.677; GELU 1.983, 1.679; SiLU 1.994, 1.683; ReGLU 1.953, 1.645; GEGLU 1.942, 1.633; SwiGLU 1.944, 1.636."
)
SQUARED_OR_GATED_RESULT = (
    "Karpathy 2026 (nanochat's experiment log), 12 and 24 layers, equal parameters and FLOPs: SwiGLU is worse than "
    "squared ReLU at equal steps, FLOPs and time."
)
_ACTIVATIONS_RESULT = (
    "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: ReLU 1.838, GELU 1.838, SiLU 1.847, ReGLU "
    "1.803, GEGLU 1.792, SwiGLU 1.789."
)
_XIELU_RESULT = (
    "Huang & Schlag 2024, LLaMA models of 1.1B and 3B parameters, 125B tokens of FineWeb-Edu, equal parameters and "
    "FLOPs: xIELU has a lower perplexity than squared ReLU and SwiGLU."
)

_HIDDEN = frozenset({"hidden"})


def _problems_without_layer(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    """Yields what needs a feed-forward layer."""
    del architecture
    if flat["model.parallel"] != "none":
        yield f"{KIND}=none: model.parallel={flat['model.parallel']} needs two sublayers; set it to none"
    places = set("CD") & set(flat["model.convolution.places"]) if flat["model.convolution.kind"] != "none" else set()
    if places:
        yield (
            f"{KIND}=none: model.convolution.places={flat['model.convolution.places']} has places of the feed-forward "
            f"layer; leave out {' and '.join(sorted(places))}"
        )


FEED_FORWARD_KINDS = KindTable(
    KIND,
    traits={
        "hidden": "it has hidden units",
        "gated": "it has three matrices, one of them for the gates",
        **{name: f"its activation is {name}" for name in ACTIVATIONS},
        "sparse": "hidden units are never below 0, and exactly 0 when they are off",
        "experts": "it consists of feed-forward layers of another kind, of which a router chooses some for each token",
    },
    kinds=(
        Kind(
            KIND,
            "relu",
            "max(0, x W1) W2 (Vaswani et al. 2017)",
            _HIDDEN | {"relu", "sparse"},
            code="zoo.layers.feedforward:FeedForward",
            description=Description(details=(_RELU,), published=(GLU_RESULT, _ACTIVATIONS_RESULT)),
        ),
        Kind(
            KIND,
            "gelu",
            "gelu(x W1) W2 (Hendrycks & Gimpel 2016; GPT)",
            _HIDDEN | {"gelu"},
            code="zoo.layers.feedforward:FeedForward",
            description=Description(details=(_GELU,), published=(GLU_RESULT, _ACTIVATIONS_RESULT)),
        ),
        Kind(
            KIND,
            "silu",
            "silu(x W1) W2, also called Swish",
            _HIDDEN | {"silu"},
            code="zoo.layers.feedforward:FeedForward",
            description=Description(details=(_SILU,), published=(GLU_RESULT, _ACTIVATIONS_RESULT), synonyms=("swish",)),
        ),
        Kind(
            KIND,
            "swiglu",
            "(silu(x W1) * x W3) W2 (Shazeer 2020; LLaMA)",
            _HIDDEN | {"gated", "silu"},
            code="zoo.layers.feedforward:GatedFeedForward",
            description=Description(
                details=(_SILU,), published=(GLU_RESULT, _ACTIVATIONS_RESULT, SQUARED_OR_GATED_RESULT, _XIELU_RESULT)
            ),
        ),
        Kind(
            KIND,
            "geglu",
            "(gelu(x W1) * x W3) W2 (Shazeer 2020)",
            _HIDDEN | {"gated", "gelu"},
            code="zoo.layers.feedforward:GatedFeedForward",
            description=Description(details=(_GELU,), published=(GLU_RESULT, _ACTIVATIONS_RESULT)),
        ),
        Kind(
            KIND,
            "reglu",
            "(relu(x W1) * x W3) W2 (Shazeer 2020)",
            _HIDDEN | {"gated", "relu", "sparse"},
            code="zoo.layers.feedforward:GatedFeedForward",
            description=Description(details=(_RELU,), published=(GLU_RESULT, _ACTIVATIONS_RESULT)),
        ),
        Kind(
            KIND,
            "relu_squared",
            "max(0, x W1)^2 W2 (So et al. 2021; Nemotron, Arcee)",
            _HIDDEN | {"sparse"},
            code="zoo.layers.feedforward:SquaredReLU",
            description=Description(
                published=(
                    (
                        "So et al. 2021: a T5 of 500M parameters with squared ReLU and convolutions after the "
                        "projections of attention needs a quarter of the training cost for the same loss on C4. Most "
                        "of the gain is due to these two changes."
                    ),
                    SQUARED_OR_GATED_RESULT,
                    _XIELU_RESULT,
                ),
                synonyms=("relu2",),
            ),
        ),
        Kind(
            KIND,
            "leaky_relu_squared",
            "leaky_relu(x W1)^2 W2 (Maas et al. 2013, squared as in So et al. 2021)",
            _HIDDEN,
            fields=(
                Field(
                    "model.ffn.negative_slope",
                    0.5,
                    float,
                    "slope below 0, before the square; 0 would be relu_squared",
                    above=0,
                    maximum=1,
                    added=True,
                ),
            ),
            code="zoo.layers.feedforward:LeakySquaredReLU",
            description=Description(
                paper="Maas et al. 2013; So et al. 2021, section 4",
                published=(
                    (
                        "Karpathy 2026 (nanochat's experiment log), slope 0.5: slightly better than squared ReLU at "
                        "equal steps, worse at equal time."
                    ),
                    (
                        "Parameter-golf 2026 (pull request 1970), one seed, bits per byte: 1.0819 with the slope of "
                        "the recipe, 1.0822 with 0.3, 1.0837 with 0, which is squared ReLU."
                    ),
                ),
            ),
        ),
        Kind(
            KIND,
            "swiglu_clamped",
            "(swish(min(x W1, c)) * (clip(x W3, -c, c) + 1)) W2, swish(g) = g sigmoid(1.702 g) (gpt-oss)",
            _HIDDEN | {"gated"},
            fields=(
                Field(
                    "model.ffn.clamp",
                    7.0,
                    float,
                    "c: gates are at most c, linear units between -c and c",
                    above=0,
                    added=True,
                ),
            ),
            code="zoo.layers.feedforward:ClampedSwiGLU",
        ),
        Kind(
            KIND,
            "xielu",
            "xielu(x W1) W2: quadratic above 0, exponential below, with two learned numbers "
            "(Huang & Schlag 2024; Apertus)",
            _HIDDEN,
            code="zoo.layers.feedforward:XIELU",
            description=Description(published=(_XIELU_RESULT,)),
        ),
        MIXTURE,
        Kind(
            KIND,
            "none",
            "no feed-forward layer: a block is its mixer of tokens alone (Mamba-2)",
            problems=_problems_without_layer,
            code="zoo.layers.feedforward:NoFeedForward",
            description=Description(
                name="no-feed-forward",
                details=(
                    "Switched off: the sublayer with its norm and its residual connection. Initial values of the "
                    "last matrices, with `init.scale_residual`, count one sublayer for each block.",
                ),
                synonyms=("attention-only",),
            ),
        ),
    ),
    part="feed-forward layer",
)


# What `hidden_width` reads, below `model.ffn`; after the first two, what adjusts the width.
WIDTH_FIELDS = ("kind", "hidden_dim", "match_parameters", "dim_multiplier", "multiple_of")


def hidden_width(kind: str, hidden_dim: int, match_parameters: bool, dim_multiplier: float, multiple_of: int) -> int:
    """Returns F' = m ceil(int(c int(2 F / 3)) / m), the number of hidden units: F = `hidden_dim`,
    c = `dim_multiplier`, m = `multiple_of`; 2/3 is for gated kinds with `match_parameters` alone.

    This is the computation of LLaMA's code (Touvron et al. 2023a and b), which rounds down before
    each factor. Without c and m, 2 F / 3 is rounded to the nearest.
    """
    share, adjusted = hidden_dim, (dim_multiplier, multiple_of) != (1, 1)
    if match_parameters and kind in FEED_FORWARD_KINDS.having("gated"):
        share = 2 * hidden_dim // 3 if adjusted else round(2 * hidden_dim / 3)
    return max(1, -(-int(dim_multiplier * share) // multiple_of)) * multiple_of


def unit_kind(kind: str, experts: str) -> str:
    """Returns the kind of the layers that have hidden units: `kind`, or that of the experts."""
    return experts if kind in FEED_FORWARD_KINDS.having("experts") else kind


def unit_field(flat: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the field that names the kind of the hidden units, and that kind."""
    path = "model.ffn.experts.kind" if flat[KIND] in FEED_FORWARD_KINDS.having("experts") else KIND
    return path, flat[path]


def activation_of(kind: str) -> str | None:
    """Returns the activation of a kind of feed-forward layer; None if it is none of `ACTIVATIONS`."""
    return next((name for name in ACTIVATIONS if kind in FEED_FORWARD_KINDS.having(name)), None)
