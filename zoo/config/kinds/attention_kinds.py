"""Kinds of attention."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.kind import Kind, KindTable, is_prefix_decoder
from zoo.config.kinds.position_kinds import POSITION_KINDS

KIND = "model.attention.kind"


def _performer_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    refused = {
        "model.attention.window": flat["model.attention.window"] > 0,
        "model.attention.softcap": flat["model.attention.softcap"] > 0,
        "model.attention.sinks": flat["model.attention.sinks"],
        "model.attention.dropout": flat["model.attention.dropout"] > 0,
        "model.position.kind": flat["model.position.kind"] in POSITION_KINDS.having("score_bias"),
        "data.isolate_documents": flat["data.isolate_documents"],
        "objective.kind": is_prefix_decoder(flat, architecture),
    }
    for path, wanted in refused.items():
        if wanted:
            yield (
                f"model.attention.kind=performer never forms the scores that {path}={flat[path]} acts on; "
                "leave it out or use softmax"
            )


def _derive_performer(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    head_dim = flat["model.attention.head_dim"]
    return {} if head_dim == AUTO else {"model.attention.features": max(1, int(head_dim * math.log(head_dim)))}


# Traits: "kernels" (the product is one of the implementations of softmax attention).
ATTENTION_KINDS = KindTable(
    KIND,
    (
        Kind(
            KIND, "softmax", "softmax of the scaled scores (Vaswani et al. 2017, section 3.2.1)", frozenset({"kernels"})
        ),
        Kind(
            KIND,
            "performer",
            "softmax's kernel by positive orthogonal random features, linear in T (FAVOR+, Choromanski et al. 2021)",
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
            problems=_performer_problems,
            derive=_derive_performer,
        ),
    ),
)
