"""Kinds of placement of norms and residual connections around sublayers."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.attention_kinds import ATTENTION_KINDS
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind, KindTable

PLACEMENT = "model.norm.placement"

_ORDER_RESULT = (
    "Xiong et al. 2020, BLEU on IWSLT14 German-English with Adam: post-norm without warm-up 8.45, with it about 34; "
    "pre-norm about 34 without."
)


def _residual_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if not flat["model.residual"]:
        yield f"model.norm.placement={flat[PLACEMENT]} weighs the residual connection; it needs model.residual=true"


def _two_sublayer_problems(flat: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line if layers have no feed-forward layer."""
    if flat["model.ffn.kind"] == "none":
        yield f"model.ffn.kind=none: {PLACEMENT}={flat[PLACEMENT]} counts on a feed-forward layer in each layer"


def _deepnorm_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _residual_problems(flat, architecture)
    yield from _two_sublayer_problems(flat)
    for name in ("scale_residual", "zero_outputs"):
        if flat[f"model.init.{name}"]:
            yield f"model.norm.placement=deepnorm has its own initial values; set model.init.{name}=false"


def _normed_output_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.init.zero_outputs"]:
        yield (
            f"model.init.zero_outputs=true: model.norm.placement={flat[PLACEMENT]} normalises the outputs, so "
            "they are as large as any after one update; set it to false"
        )


def _layerscale_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _residual_problems(flat, architecture)
    if flat["model.init.zero_outputs"] and flat["model.norm.layerscale_start"] == 0:
        yield (
            "model.init.zero_outputs=true and model.norm.layerscale_start=0: each has the gradient 0 as long as the "
            "other is 0, so no sublayer would ever learn; set one of them otherwise"
        )


def _stream_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _residual_problems(flat, architecture)
    yield from _two_sublayer_problems(flat)
    if flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} has no rule for the weights of streams of "
            f"{PLACEMENT}={flat[PLACEMENT]}; leave it standard"
        )


def _depth_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _stream_problems(flat, architecture)
    if flat[PLACEMENT] == "depth_attention" and flat["model.architecture"] == "encoder_decoder":
        yield (
            f"{PLACEMENT}=depth_attention counts two sublayers in each layer, and a decoder with cross-attention has "
            "three; use it with model.architecture=decoder or encoder"
        )
    if flat[PLACEMENT] == "unet" and flat["model.num_layers"] < 2:
        yield f"{PLACEMENT}=unet leads from the first half of the layers to the second; it needs model.num_layers >= 2"


def _mudd_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _stream_problems(flat, architecture)
    reads = f"{PLACEMENT}=mudd gives queries, keys and values an input each"
    attention, kind = "model.attention", flat["model.attention.kind"]
    if flat["model.architecture"] == "encoder_decoder":
        yield f"{reads}, and a layer with cross-attention has no such form; use model.architecture=decoder or encoder"
    able = ATTENTION_KINDS.having("own_inputs")
    if kind not in able:
        yield f"{attention}.kind={kind} computes them from one input, and {reads}; use one of {', '.join(able)}"
    if flat[f"{attention}.keys_from"]:
        source = flat[f"{attention}.keys_from"]
        yield f"{attention}.keys_from={source}: {reads}, so each layer has keys of its own; leave it out"
    if flat[f"{attention}.global_projections"]:
        yield f"{attention}.global_projections=true projects one input for global tokens, and {reads}; set it to false"
    if flat["model.convolution.kind"] == "canon" and "A" in flat["model.convolution.places"]:
        yield f"model.convolution.places: place A is on the one input of attention, and {reads}; leave A out"


def _interpolation_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _residual_problems(flat, architecture)
    yield from _normed_output_problems(flat, architecture)
    if flat["model.residual_multiplier"] != 1:
        yield (
            f"model.residual_multiplier={flat['model.residual_multiplier']:g} has no effect: {PLACEMENT}="
            f"{flat[PLACEMENT]} normalises what it multiplies; leave it at 1, or set model.norm.step_start"
        )
    if flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} has no rule for the learned steps of {PLACEMENT}="
            f"{flat[PLACEMENT]}; leave it standard"
        )


_INPUT = frozenset({"input_norm"})
_ONE = frozenset({"by_kind"})
_STREAMS = _INPUT | {"streams"}
_DEPTH = _INPUT | {"depth"}
PLACEMENT_KINDS = KindTable(
    PLACEMENT,
    traits={
        "input_norm": "each sublayer reads a normalised input",
        "streams": "there are `norm.streams` residual streams",
        "depth": "layers read the outputs of earlier ones, beside the residual stream",
        "by_kind": "kinds of layers may differ in it: there is one residual stream, and a norm after the last block",
    },
    kinds=(
        Kind(
            PLACEMENT,
            "pre",
            "x + f(norm(x)), and one norm after the last block (Xiong et al. 2020)",
            _INPUT | _ONE,
            code="zoo.layers.block:PreNormBlock",
            description=Description(
                details=(
                    "The stream itself is never normalised: after the last of L layers it is x_0 plus the sum of "
                    "all sublayer outputs, and one norm stands before the head.",
                ),
                published=(_ORDER_RESULT,),
                synonyms=("pre-norm",),
            ),
        ),
        Kind(
            PLACEMENT,
            "post",
            "norm(x + f(x)), as in the original Transformer (Vaswani et al. 2017)",
            code="zoo.layers.block:PostNormBlock",
            description=Description(
                details=(
                    "The norm is on the path of the residual stream, so a gradient passes 2 L norms on its "
                    "way to the embedding.",
                ),
                published=(_ORDER_RESULT,),
                synonyms=("post-norm",),
                picture="architecture",
            ),
        ),
        Kind(
            PLACEMENT,
            "sandwich",
            "x + norm(f(norm(x))), and one norm after the last block (Ding et al. 2021; Gemma 2)",
            _INPUT | _ONE,
            problems=_normed_output_problems,
            code="zoo.layers.block:SandwichBlock",
            description=Description(
                published=(
                    (
                        "Kim et al. 2025 (Peri-LN), up to 3.2B parameters: variances grow more evenly with depth and "
                        "training is more stable than with pre-norm and post-norm."
                    ),
                    (
                        "Marin 2026 (issue 9290), mixture of experts of width 512, one run each: macro loss on Paloma "
                        "3.1559 with pre-norm, 3.1693 with sandwich norm."
                    ),
                ),
                synonyms=("peri-ln",),
                picture="architecture",
            ),
        ),
        Kind(
            PLACEMENT,
            "reordered",
            "x + norm(f(x)), and one norm after the last block (Liu et al. 2021; OLMo 2)",
            _ONE,
            problems=_normed_output_problems,
            code="zoo.layers.block:ReorderedBlock",
            description=Description(picture="architecture"),
        ),
        Kind(
            PLACEMENT,
            "pre_scaled",
            "x + f(norm(x) / sqrt(l)) in layer l, counted from 1 (LayerNorm scaling, Sun et al. 2025)",
            _INPUT | _ONE,
            code="zoo.layers.block:PreScaledBlock",
            description=Description(
                name="layernorm-scaling",
                published=(
                    (
                        "Sun et al. 2025, 130M to 7B parameters: lower perplexity than pre-norm and other placements "
                        "at every size. Smaller initial values of the output projections take away from the gain."
                    ),
                    (
                        "Karpathy 2026 (nanochat's experiment log): it did not help. Output projections begin at 0 "
                        "there."
                    ),
                ),
            ),
        ),
        Kind(
            PLACEMENT,
            "layerscale",
            "x + s * f(norm(x)), with a learned vector s for each sublayer (Touvron et al. 2021)",
            _INPUT | _ONE,
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
            description=Description(
                published=(
                    "Narang et al. 2021, table 1, T5 of 223M parameters, final loss: baseline 1.838; ReZero, one "
                    "number that begins at 0 in each sublayer, 1.939 in place of the norm and 1.858 with "
                    "LayerNorm.",
                )
            ),
        ),
        Kind(
            PLACEMENT,
            "x0_shortcut",
            "before each block x = a x + b x0, then pre-norm; x0 enters the first block (modded-nanogpt; nanochat)",
            _INPUT | _ONE,
            problems=_residual_problems,
            code="zoo.layers.block:ShortcutBlock",
            description=Description(
                published=(
                    (
                        "Karpathy 2026 (nanochat's experiment log), validation bits per byte without and with the "
                        "shortcut: 8 layers 1.0885, 1.0782; 12 layers 0.9770, 0.9693; 16 layers 0.9059, 0.9002; 20 "
                        "layers 0.8565, 0.8526. The gain shrinks with depth."
                    ),
                    (
                        "Jordan et al. 2024 (modded-nanogpt), GPT-2 of 124M parameters, 1.7B tokens of FineWeb, "
                        "validation loss: 3.3065 becomes 3.2972 with the shortcut. Runs differ by 0.0014 (standard "
                        "deviation)."
                    ),
                ),
                synonyms=("x0",),
            ),
        ),
        Kind(
            PLACEMENT,
            "hyper_static",
            "N residual streams, read, mixed and written by learned numbers (hyper-connections, Zhu et al. 2024)",
            _STREAMS,
            problems=_stream_problems,
            code="zoo.layers.residual_streams:StaticHyperBlock",
            description=Description(name="static-hyper-connections", synonyms=("shc",)),
        ),
        Kind(
            PLACEMENT,
            "hyper",
            "N residual streams that are read, mixed and written by functions of each token (Zhu et al. 2024)",
            _STREAMS,
            problems=_stream_problems,
            code="zoo.layers.residual_streams:HyperBlock",
            description=Description(
                name="hyper-connections",
                published=(
                    "Zhu et al. 2024, OLMoE of 7B parameters, 500B tokens: the loss on C4 is 0.028 lower than "
                    "with pre-norm, and that of pre-norm is reached with 1.8 times fewer tokens.",
                ),
                synonyms=("dhc", "hc"),
            ),
        ),
        Kind(
            PLACEMENT,
            "mhc",
            "N residual streams mixed by doubly stochastic matrices of each token (mHC, Xie et al. 2025)",
            _STREAMS,
            problems=_stream_problems,
            code="zoo.layers.residual_streams:ManifoldBlock",
            description=Description(
                name="manifold-hyper-connections",
                published=(
                    "Marin 2026 (issue 9290), mixture of experts, one run each: macro loss on Paloma 0.0074 lower at "
                    "width 512 and 0.0049 lower at 768, in steps that take 4 to 5 % longer.",
                ),
                synonyms=("mhc",),
            ),
        ),
        Kind(
            PLACEMENT,
            "depth_attention",
            "each sublayer reads a softmax average of the embedding and all earlier outputs (AttnRes, Kimi Team 2026)",
            _DEPTH,
            problems=_depth_problems,
            code="zoo.layers.depth_connections:DepthAttentionBlock",
            description=Description(
                published=(
                    ("Kimi Team 2026: the loss of a baseline that is trained with 1.25 times the compute."),
                    (
                        "Marin 2026 (issue 9290), mixture of experts, one run each: macro loss on Paloma 0.0089 lower "
                        "at width 512 and 0.0216 lower at 768, the most of 13 additions."
                    ),
                ),
                synonyms=("attnres", "attention-residuals"),
            ),
        ),
        Kind(
            PLACEMENT,
            "denseformer",
            "after each block a learned sum of the outputs of all blocks so far (DenseFormer, Pagliardini et al. 2024)",
            _DEPTH,
            problems=_depth_problems,
            code="zoo.layers.depth_connections:DenseBlock",
            description=Description(synonyms=("depth-weighted-average", "dwa")),
        ),
        Kind(
            PLACEMENT,
            "unet",
            "outputs of the first half of the blocks added before those of the second, in reverse (modded-nanogpt)",
            _DEPTH,
            problems=_depth_problems,
            code="zoo.layers.depth_connections:UNetBlock",
            description=Description(name="u-net-skips"),
        ),
        Kind(
            PLACEMENT,
            "mudd",
            "queries, keys, values and the stream of a layer each read a weighted sum of all earlier outputs, with "
            "weights of each token (MUDDFormer, Xiao et al. 2025)",
            _DEPTH,
            problems=_mudd_problems,
            code="zoo.layers.dynamic_dense:DynamicDenseBlock",
            description=Description(
                name="multiway-dynamic-dense",
                details=(
                    "The source also makes later feed-forward layers wider than earlier ones, which is left out here.",
                ),
                published=(
                    "Xiao et al. 2025: the loss of Transformers that are trained with 1.8 to 2.4 times the compute; "
                    "2.8B parameters match Pythia of 6.9B, with 0.23 % more parameters and 0.4 % more operations.",
                ),
                synonyms=("mudd", "muddformer"),
            ),
        ),
        Kind(
            PLACEMENT,
            "resi_dual",
            "norm(x + f(x)), and a second stream s + f(x), which is normalised after the last block (Xie et al. 2023)",
            problems=_residual_problems,
            code="zoo.layers.dual_residual:DualResidualBlock",
            description=Description(
                details=(
                    "The second stream costs memory and additions, and no product of matrices; a training step keeps "
                    "two vectors of each token for each layer. Recorded states are those of the second stream.",
                ),
                published=(
                    "Xie et al. 2023: better than post-norm and pre-norm in machine translation of several sizes and "
                    "depths.",
                ),
                synonyms=("residual-dual", "pre-post-norm"),
            ),
        ),
        Kind(
            PLACEMENT,
            "interpolated",
            "norm(x + a (norm(f(x)) - x)), with a learned vector a >= 0 for each sublayer (nGPT, Loshchilov et al. "
            "2024)",
            fields=(
                Field(
                    "model.norm.step_start",
                    0.05,
                    float,
                    "initial value of a, about 1 / (number of layers) in the paper",
                    above=0,
                    maximum=1,
                    added=True,
                ),
            ),
            problems=_interpolation_problems,
            code="zoo.layers.interpolated_residual:InterpolatedBlock",
            description=Description(
                details=(
                    "Each sublayer has two norms, of its output and of the stream. It is the residual connection of "
                    "nGPT alone, and works with every norm; the variant `ngpt` lists the rest of the model.",
                ),
                synonyms=("interpolated-residual", "lerp"),
            ),
        ),
        Kind(
            PLACEMENT,
            "deepnorm",
            "norm(alpha * x + f(x)), alpha and the initial values by depth (Wang et al. 2022)",
            problems=_deepnorm_problems,
            code="zoo.layers.block:DeepNormBlock",
            description=Description(
                published=(
                    "Wang et al. 2022: Transformers of 1,000 layers train; one of 200 layers and 3.2B parameters "
                    "is 5 BLEU better in multilingual translation than one of 48 layers and 12B parameters.",
                ),
                picture="architecture",
            ),
        ),
    ),
    part="placement",
)
