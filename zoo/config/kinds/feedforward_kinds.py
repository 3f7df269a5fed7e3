"""Kinds of feed-forward layers."""

from zoo.config.field import Field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.ffn.kind"

ACTIVATIONS = ("relu", "gelu", "silu")
FEED_FORWARD_KINDS = KindTable(
    KIND,
    traits={
        "gated": "it has three matrices, one of them for the gates",
        **{name: f"its activation is {name}" for name in ACTIVATIONS},
        "sparse": "hidden units are never below 0, and exactly 0 when they are off",
    },
    kinds=(
        Kind(
            KIND,
            "relu",
            "max(0, x W1) W2 (Vaswani et al. 2017)",
            frozenset({"relu", "sparse"}),
            code="zoo.layers.feedforward:FeedForward",
        ),
        Kind(
            KIND,
            "gelu",
            "gelu(x W1) W2 (Hendrycks & Gimpel 2016; GPT)",
            frozenset({"gelu"}),
            code="zoo.layers.feedforward:FeedForward",
        ),
        Kind(
            KIND,
            "silu",
            "silu(x W1) W2, also called Swish",
            frozenset({"silu"}),
            code="zoo.layers.feedforward:FeedForward",
        ),
        Kind(
            KIND,
            "swiglu",
            "(silu(x W1) * x W3) W2 (Shazeer 2020; LLaMA)",
            frozenset({"gated", "silu"}),
            code="zoo.layers.feedforward:GatedFeedForward",
        ),
        Kind(
            KIND,
            "geglu",
            "(gelu(x W1) * x W3) W2 (Shazeer 2020)",
            frozenset({"gated", "gelu"}),
            code="zoo.layers.feedforward:GatedFeedForward",
        ),
        Kind(
            KIND,
            "reglu",
            "(relu(x W1) * x W3) W2 (Shazeer 2020)",
            frozenset({"gated", "relu", "sparse"}),
            code="zoo.layers.feedforward:GatedFeedForward",
        ),
        Kind(
            KIND,
            "relu_squared",
            "max(0, x W1)^2 W2 (So et al. 2021; Nemotron, Arcee)",
            frozenset({"sparse"}),
            code="zoo.layers.feedforward:SquaredReLU",
        ),
        Kind(
            KIND,
            "leaky_relu_squared",
            "leaky_relu(x W1)^2 W2 (Maas et al. 2013, squared as in So et al. 2021)",
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
        ),
        Kind(
            KIND,
            "swiglu_clamped",
            "(swish(min(x W1, c)) * (clip(x W3, -c, c) + 1)) W2, swish(g) = g sigmoid(1.702 g) (gpt-oss)",
            frozenset({"gated"}),
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
            code="zoo.layers.feedforward:XIELU",
        ),
    ),
)


def activation_of(kind: str) -> str | None:
    """Returns the activation of a kind of feed-forward layer; None if it is none of `ACTIVATIONS`."""
    return next((name for name in ACTIVATIONS if kind in FEED_FORWARD_KINDS.having(name)), None)
