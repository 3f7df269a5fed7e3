"""Kinds of feed-forward layers."""

from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.ffn.kind"

# Traits: "gated" (three matrices), the activation if it is one of `ACTIVATIONS`, and "sparse" (hidden
# units are never below 0, and exactly 0 when they are off).
ACTIVATIONS = ("relu", "gelu", "silu")
FEED_FORWARD_KINDS = KindTable(
    KIND,
    (
        Kind(KIND, "relu", "max(0, x W1) W2 (Vaswani et al. 2017)", frozenset({"relu", "sparse"})),
        Kind(KIND, "gelu", "gelu(x W1) W2 (Hendrycks & Gimpel 2016; GPT)", frozenset({"gelu"})),
        Kind(KIND, "silu", "silu(x W1) W2, also called Swish", frozenset({"silu"})),
        Kind(KIND, "swiglu", "(silu(x W1) * x W3) W2 (Shazeer 2020; LLaMA)", frozenset({"gated", "silu"})),
        Kind(KIND, "geglu", "(gelu(x W1) * x W3) W2 (Shazeer 2020)", frozenset({"gated", "gelu"})),
        Kind(KIND, "reglu", "(relu(x W1) * x W3) W2 (Shazeer 2020)", frozenset({"gated", "relu", "sparse"})),
    ),
)


def activation_of(kind: str) -> str | None:
    """Returns the activation of a kind of feed-forward layer; None if it is none of `ACTIVATIONS`."""
    traits = FEED_FORWARD_KINDS.by_name[kind].traits
    return next((name for name in ACTIVATIONS if name in traits), None)
