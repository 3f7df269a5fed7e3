"""Kinds of optimizer."""

from zoo.config.kinds.kind import Kind, KindTable

KIND = "optimizer.kind"

# Traits: "moments" (it averages gradients with `beta1` and their squares with `beta2`), "epsilon" (it
# divides by a root).
OPTIMIZER_KINDS = KindTable(
    KIND,
    (
        Kind(
            KIND,
            "adamw",
            "Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
            frozenset({"moments", "epsilon"}),
        ),
    ),
)
