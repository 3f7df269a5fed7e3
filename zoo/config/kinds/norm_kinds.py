"""Kinds of normalisation and of its placement."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind, KindTable

KIND, PLACEMENT = "model.norm.kind", "model.norm.placement"

_ORDER_RESULT = (
    "Xiong et al. 2020, BLEU on IWSLT14 German-English with Adam: post-norm without warm-up 8.45, with it about 34; "
    "pre-norm about 34 without."
)


# Norms that bound each value by itself.
_BOUNDING = ("dyt", "derf")


def _derive_alpha(flat: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"model.norm.attention_alpha_start": flat["model.norm.alpha_start"]}


def _gate_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    del architecture
    if flat["model.parametrization"] != "standard":
        yield (
            f"model.parametrization={flat['model.parametrization']} has no rule for the matrices of the gates of "
            f"{KIND}={flat[KIND]}, whose rank does not grow with the width; leave it standard"
        )


NORM_KINDS = KindTable(
    KIND,
    traits={
        "normalises": "it does something, so it has a placement and a scale",
        "epsilon": "it divides by a root, to which epsilon is added",
        "bias": "it can shift its outputs by a learned vector",
        "batch": "what it computes for a token depends on the other rows of a batch",
        "unit_offset": "its learned scale may be stored as its difference from 1",
    },
    kinds=(
        Kind(
            KIND,
            "layernorm",
            "subtract the mean, divide by the standard deviation, scale, shift (Ba et al. 2016)",
            frozenset({"normalises", "epsilon", "bias", "unit_offset"}),
            code="zoo.layers.norm:LayerNorm",
            description=Description(
                published=(
                    "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German: LayerNorm 26.6 BLEU, "
                    "RMSNorm 26.8, without a norm 0.",
                ),
                synonyms=("layer-norm", "layer-normalization"),
            ),
        ),
        Kind(
            KIND,
            "rmsnorm",
            "divide by the root mean square, scale (Zhang & Sennrich 2019)",
            frozenset({"normalises", "epsilon", "unit_offset"}),
            code="zoo.layers.norm:RMSNorm",
            description=Description(
                synonyms=("rms-norm",),
                published=(
                    (
                        "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German, BLEU on test14 and seconds "
                        "per 1,000 steps: LayerNorm 26.6, 248; RMSNorm 26.8, 231; without a norm training fails."
                    ),
                    (
                        "Narang et al. 2021, table 1, T5 of 223M parameters: final loss 1.838 with the baseline's "
                        "norm, 1.821 with RMSNorm; 3.50 and 3.68 steps per second."
                    ),
                ),
            ),
        ),
        Kind(
            KIND,
            "scalenorm",
            "divide by the length, multiply by one learned number (ScaleNorm, Nguyen & Salazar 2019)",
            frozenset({"normalises", "epsilon"}),
            code="zoo.layers.norm:ScaleNorm",
        ),
        Kind(
            KIND,
            "unit",
            "divide by the length, scale: with norm.scale=false a point of the unit sphere (nGPT, Loshchilov et al. "
            "2024)",
            frozenset({"normalises"}),
            code="zoo.layers.norm:UnitNorm",
            description=Description(name="unit-norm", synonyms=("l2-norm",)),
        ),
        Kind(
            KIND,
            "gated_rmsnorm",
            "RMSNorm times a gate, a function of what it gives through two narrow matrices (GatedNorm, Qiu et al. "
            "2026)",
            frozenset({"normalises", "epsilon", "unit_offset"}),
            (
                Field(
                    "model.norm.gate_rank",
                    16,
                    int,
                    "R, width between the two matrices of the gate",
                    minimum=1,
                    maximum=65536,
                    added=True,
                ),
            ),
            problems=_gate_problems,
            code="zoo.layers.norm:GatedNorm",
            description=Description(
                name="gated-norm",
                details=("Every norm of the model has its own gate, also the last one before the head.",),
                published=(
                    "Qiu et al. 2026: models whose residual streams need no large values, by gates or by learned "
                    "factors, gain 2 points on average over benchmarks, and lose 1.2 points with weights and "
                    "activations of 4 bits.",
                ),
                synonyms=("gatednorm",),
            ),
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
                Field(
                    "model.norm.alpha_start",
                    0.5,
                    float,
                    "initial value of alpha",
                    above=0,
                    when=(KIND, _BOUNDING),
                    added=True,
                ),
                Field(
                    "model.norm.attention_alpha_start",
                    AUTO,
                    float,
                    "initial value in the norms of (cross-)attention; larger in the paper's language models",
                    above=0,
                    auto="model.norm.alpha_start",
                    when=(KIND, _BOUNDING),
                    added=True,
                ),
            ),
            derive=_derive_alpha,
            code="zoo.layers.norm:DynamicTanh",
            description=Description(
                name="dynamic-tanh",
                published=(
                    (
                        "Zhu et al. 2025: vision and language models with DyT match or exceed those with LayerNorm or "
                        "RMSNorm, mostly without tuning."
                    ),
                    (
                        "Karpathy 2026 (nanochat's experiment log), 12 layers: no form of it was better than RMSNorm "
                        "at equal steps, and it was about 10 % slower."
                    ),
                    (
                        "Verma 2026, arXiv:2604.23434, GPT-2 of 64M parameters: validation loss 27.3 % better on 1M "
                        "tokens, 18.8 % worse on 118M. It regularises, which helps only where data is scarce."
                    ),
                ),
                synonyms=("dyt",),
            ),
        ),
        Kind(
            KIND,
            "derf",
            "erf(alpha x + s), scale, shift, with learned numbers alpha and s (dynamic erf, Chen et al. 2025)",
            frozenset({"normalises", "bias"}),
            derive=_derive_alpha,
            code="zoo.layers.norm:DynamicErf",
            description=Description(name="dynamic-erf", synonyms=("derf",)),
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
            description=Description(
                synonyms=("batch-norm", "batch-normalization"),
                published=(
                    (
                        "Shen et al. 2020: BatchNorm in place of LayerNorm is clearly worse in translation and "
                        "language modelling, because the statistics of a batch of text vary strongly during training."
                    ),
                    (
                        "Zhang & Sennrich 2019, test error of a convolutional network on CIFAR-10: no norm 8.96, "
                        "BatchNorm 8.25, LayerNorm 10.49, RMSNorm 8.83. For images the order is the opposite."
                    ),
                ),
            ),
        ),
        Kind(
            KIND,
            "none",
            "no normalisation anywhere",
            code="zoo.layers.norm:NoNorm",
            description=Description(
                name="no-norm",
                paper="a control",
                details=("Switched off: all norms, also the last one before the head.",),
                published=(
                    "Zhang & Sennrich 2019, Transformer-base on WMT14 English-German: training fails (0 BLEU).",
                ),
            ),
        ),
    ),
    part="normalisation",
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
_STREAMS = _INPUT | {"streams"}
_DEPTH = _INPUT | {"depth"}
PLACEMENT_KINDS = KindTable(
    PLACEMENT,
    traits={
        "input_norm": "each sublayer reads a normalised input",
        "streams": "there are `norm.streams` residual streams",
        "depth": "layers read the outputs of earlier ones, beside the residual stream",
    },
    kinds=(
        Kind(
            PLACEMENT,
            "pre",
            "x + f(norm(x)), and one norm after the last block (Xiong et al. 2020)",
            _INPUT,
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
            _INPUT,
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
            problems=_normed_output_problems,
            code="zoo.layers.block:ReorderedBlock",
            description=Description(picture="architecture"),
        ),
        Kind(
            PLACEMENT,
            "pre_scaled",
            "x + f(norm(x) / sqrt(l)) in layer l, counted from 1 (LayerNorm scaling, Sun et al. 2025)",
            _INPUT,
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
            _INPUT,
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
