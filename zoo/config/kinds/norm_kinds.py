"""Kinds of normalisation."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import AUTO, Field
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.norm.kind"


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
