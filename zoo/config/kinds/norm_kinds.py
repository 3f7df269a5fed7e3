"""Kinds of normalisation and of its placement."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.kind import Kind, KindTable

KIND, PLACEMENT = "model.norm.kind", "model.norm.placement"

NORM_KINDS = KindTable(
    KIND,
    traits={
        "normalises": "it does something, so that it has a placement and a scale",
        "epsilon": "it divides by a root, to which epsilon is added",
        "bias": "it can shift its outputs by a learned vector",
        "batch": "what it computes for a token depends on the other rows of a batch",
    },
    kinds=(
        Kind(
            KIND,
            "layernorm",
            "subtract the mean, divide by the standard deviation, scale, shift (Ba et al. 2016)",
            frozenset({"normalises", "epsilon", "bias"}),
            code="zoo.layers.norm:LayerNorm",
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
            code="zoo.layers.norm:RMSNorm",
        ),
        Kind(
            KIND,
            "centering",
            "subtract the mean, scale, shift: LayerNorm without the division",
            frozenset({"normalises", "bias"}),
            code="zoo.layers.norm:CenteringNorm",
        ),
        Kind(
            KIND,
            "dyt",
            "tanh(alpha x), scale, shift, with a learned number alpha (dynamic tanh, Zhu et al. 2025)",
            frozenset({"normalises", "bias"}),
            (
                Field("model.norm.alpha_start", 0.5, float, "initial value of alpha", above=0, added=True),
                Field(
                    "model.norm.attention_alpha_start",
                    AUTO,
                    float,
                    "initial value in the norms of (cross-)attention; larger in the paper's language models",
                    above=0,
                    auto="model.norm.alpha_start",
                    added=True,
                ),
            ),
            derive=lambda flat: {"model.norm.attention_alpha_start": flat["model.norm.alpha_start"]},
            code="zoo.layers.norm:DynamicTanh",
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
            code="zoo.layers.norm:BatchNorm",
        ),
        Kind(KIND, "none", "no normalisation anywhere", code="zoo.layers.norm:NoNorm"),
    ),
)


def _residual_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if not flat["model.residual"]:
        yield f"model.norm.placement={flat[PLACEMENT]} weighs the residual connection; it needs model.residual=true"


def _deepnorm_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _residual_problems(flat, architecture)
    for name in ("scale_residual", "zero_outputs"):
        if flat[f"model.init.{name}"]:
            yield f"model.norm.placement=deepnorm has its own initial values; set model.init.{name}=false"


def _normed_output_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.init.zero_outputs"]:
        yield (
            f"model.init.zero_outputs=true: model.norm.placement={flat[PLACEMENT]} normalises the outputs, so that "
            "they are as large as any after one update; set it to false"
        )


def _layerscale_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _residual_problems(flat, architecture)
    if flat["model.init.zero_outputs"] and flat["model.norm.layerscale_start"] == 0:
        yield (
            "model.init.zero_outputs=true and model.norm.layerscale_start=0: each has the gradient 0 as long as the "
            "other is 0, so no sublayer would ever learn; set one of them otherwise"
        )


_INPUT = frozenset({"input_norm"})
PLACEMENT_KINDS = KindTable(
    PLACEMENT,
    traits={"input_norm": "each sublayer reads a normalised input"},
    kinds=(
        Kind(
            PLACEMENT,
            "pre",
            "x + f(norm(x)), and one norm after the last block (Xiong et al. 2020)",
            _INPUT,
            code="zoo.layers.block:PreNormBlock",
        ),
        Kind(
            PLACEMENT,
            "post",
            "norm(x + f(x)), as in the original Transformer (Vaswani et al. 2017)",
            code="zoo.layers.block:PostNormBlock",
        ),
        Kind(
            PLACEMENT,
            "sandwich",
            "x + norm(f(norm(x))), and one norm after the last block (Ding et al. 2021; Gemma 2)",
            _INPUT,
            problems=_normed_output_problems,
            code="zoo.layers.block:SandwichBlock",
        ),
        Kind(
            PLACEMENT,
            "reordered",
            "x + norm(f(x)), and one norm after the last block (Liu et al. 2021; OLMo 2)",
            problems=_normed_output_problems,
            code="zoo.layers.block:ReorderedBlock",
        ),
        Kind(
            PLACEMENT,
            "pre_scaled",
            "x + f(norm(x) / sqrt(l)) in layer l, counted from 1 (LayerNorm scaling, Sun et al. 2025)",
            _INPUT,
            code="zoo.layers.block:PreScaledBlock",
        ),
        Kind(
            PLACEMENT,
            "layerscale",
            "x + s * f(norm(x)), with a learned vector s for each sublayer (Touvron et al. 2021)",
            _INPUT,
            fields=(
                Field(
                    "model.norm.layerscale_start",
                    0.1,
                    float,
                    "initial value of s; the paper uses smaller values in deeper models",
                    minimum=0,
                    added=True,
                ),
            ),
            problems=_layerscale_problems,
            code="zoo.layers.block:LayerScaleBlock",
        ),
        Kind(
            PLACEMENT,
            "x0_shortcut",
            "before each block x = a x + b x0, then pre-norm; x0 enters the first block (modded-nanogpt; nanochat)",
            _INPUT,
            problems=_residual_problems,
            code="zoo.layers.block:ShortcutBlock",
        ),
        Kind(
            PLACEMENT,
            "deepnorm",
            "norm(alpha * x + f(x)), alpha and the initial values by depth (Wang et al. 2022)",
            problems=_deepnorm_problems,
            code="zoo.layers.block:DeepNormBlock",
        ),
    ),
)
