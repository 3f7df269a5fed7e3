"""Kinds of normalisation and of its placement."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.kind import Kind, KindTable

KIND, PLACEMENT = "model.norm.kind", "model.norm.placement"

# Traits: "normalises" (it does something), "epsilon" (it divides by a root), "bias", "batch" (what it
# computes for a token depends on the other rows of a batch).
NORM_KINDS = KindTable(
    KIND,
    (
        Kind(
            KIND,
            "layernorm",
            "subtract the mean, divide by the standard deviation, scale, shift (Ba et al. 2016)",
            frozenset({"normalises", "epsilon", "bias"}),
        ),
        Kind(
            KIND,
            "rmsnorm",
            "divide by the root mean square, scale (Zhang & Sennrich 2019)",
            frozenset({"normalises", "epsilon"}),
            (
                Field(
                    "model.norm.unit_offset",
                    False,
                    bool,
                    "the learned scale is stored as its difference from 1 (Gemma)",
                ),
            ),
        ),
        Kind(
            KIND,
            "centering",
            "subtract the mean, scale, shift: LayerNorm without the division",
            frozenset({"normalises", "bias"}),
        ),
        Kind(
            KIND,
            "batchnorm",
            "normalise each dimension over the tokens of the batch, running statistics in evaluation (Ioffe "
            "& Szegedy 2015)",
            frozenset({"normalises", "epsilon", "bias", "batch"}),
            (
                Field(
                    "model.norm.momentum",
                    0.99,
                    float,
                    "share of the running statistics that each step keeps",
                    minimum=0,
                    maximum=0.99999,
                ),
            ),
        ),
        Kind(KIND, "none", "no normalisation anywhere"),
    ),
)


def _deepnorm_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if not flat["model.residual"]:
        yield "model.norm.placement=deepnorm weighs the residual connection; it needs model.residual=true"
    if flat["model.init.scale_residual"]:
        yield "model.norm.placement=deepnorm has its own initial values; set model.init.scale_residual=false"


PLACEMENT_KINDS = KindTable(
    PLACEMENT,
    (
        Kind(PLACEMENT, "pre", "x + f(norm(x)), and one norm after the last block (Xiong et al. 2020)"),
        Kind(PLACEMENT, "post", "norm(x + f(x)), as in the original Transformer (Vaswani et al. 2017)"),
        Kind(
            PLACEMENT, "sandwich", "x + norm(f(norm(x))), and one norm after the last block (Ding et al. 2021; Gemma 2)"
        ),
        Kind(PLACEMENT, "reordered", "x + norm(f(x)), and one norm after the last block (Liu et al. 2021; OLMo 2)"),
        Kind(
            PLACEMENT,
            "deepnorm",
            "norm(alpha * x + f(x)), alpha and the initial values by depth (Wang et al. 2022)",
            problems=_deepnorm_problems,
        ),
    ),
)
