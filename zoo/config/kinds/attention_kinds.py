"""Kinds of attention."""

import math
from collections.abc import Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.attention.kind"


def _derive_performer(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    head_dim = flat["model.attention.head_dim"]
    return {} if head_dim == AUTO else {"model.attention.features": max(1, int(head_dim * math.log(head_dim)))}


# Traits: "heads" (it projects tokens to the queries, keys and values of heads), "cross" (it can read
# an encoder's output), "positions" (it rotates queries and keys), "window", "documents" (it can keep
# packed documents apart), "prefix" (it can show the keys of a prefix to all tokens), "scores" (it
# forms the score of each query and key, to which position biases, sinks and caps belong), "kernels"
# (its product is one of the implementations of softmax attention). What else a config asks for is
# refused (`zoo.config.constraints.attention_constraints`).
ATTENTION_KINDS = KindTable(
    KIND,
    (
        Kind(
            KIND,
            "softmax",
            "softmax of the scaled scores (Vaswani et al. 2017, section 3.2.1)",
            frozenset({"heads", "cross", "positions", "window", "documents", "prefix", "scores", "kernels"}),
        ),
        Kind(
            KIND,
            "performer",
            "softmax's kernel by positive orthogonal random features, linear in T (FAVOR+, Choromanski et al. 2021)",
            frozenset({"heads", "cross", "positions"}),
            fields=(
                Field(
                    "model.attention.features",
                    AUTO,
                    int,
                    "number of random features of a head",
                    minimum=1,
                    auto="K * ln(K)",
                ),
                Field(
                    "model.attention.redraw_every",
                    1000,
                    int,
                    "steps between new random features; 0 keeps the first",
                    minimum=0,
                ),
            ),
            derive=_derive_performer,
        ),
    ),
)
