"""Kinds of feed-forward layers."""

from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.ffn.kind"

# Traits: "gated" (three matrices), and the activation.
FEED_FORWARD_KINDS = KindTable(
    KIND,
    (
        Kind(KIND, "relu", "max(0, x W1) W2 (Vaswani et al. 2017)", frozenset({"relu"})),
        Kind(KIND, "gelu", "gelu(x W1) W2 (Hendrycks & Gimpel 2016; GPT)", frozenset({"gelu"})),
        Kind(KIND, "silu", "silu(x W1) W2, also called Swish", frozenset({"silu"})),
        Kind(KIND, "swiglu", "(silu(x W1) * x W3) W2 (Shazeer 2020; LLaMA)", frozenset({"gated", "silu"})),
        Kind(KIND, "geglu", "(gelu(x W1) * x W3) W2 (Shazeer 2020)", frozenset({"gated", "gelu"})),
        Kind(KIND, "reglu", "(relu(x W1) * x W3) W2 (Shazeer 2020)", frozenset({"gated", "relu"})),
    ),
)
