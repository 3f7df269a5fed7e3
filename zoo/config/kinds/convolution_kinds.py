"""Kinds of short convolutions over the tokens of a row."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.attention_kinds import ATTENTION_KINDS
from zoo.config.kinds.description import Description
from zoo.config.kinds.kind import Kind, KindTable

KIND = "model.convolution.kind"
PLACES = "ABCD"
WIDTHS = {"canon": 4, "primer": 3}


def _causal_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    if architecture != "decoder":
        yield (
            f"model.convolution.kind={flat[KIND]} reads a row from left to right; an encoder has no such order (set it "
            "under model.decoder of an encoder-decoder)"
        )


def _projection_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    yield from _causal_problems(flat, architecture)
    kind = flat["model.attention.kind"]
    if kind not in (able := ATTENTION_KINDS.having("heads")):
        yield (
            f"model.convolution.kind={flat[KIND]} mixes queries, keys and values, and model.attention.kind={kind} has "
            f"none; use {' or '.join(able)}"
        )


def _canon_problems(flat: Mapping[str, Any], architecture: str) -> Iterator[str]:
    places = flat["model.convolution.places"]
    if not places or places != "".join(place for place in PLACES if place in places):
        yield (
            f"model.convolution.places={places!r} must be some of the letters A (input of attention), B (queries, keys "
            "and values), C (input of the feed-forward layer) and D (inside of it), in this order"
        )
    yield from (_projection_problems if "B" in places else _causal_problems)(flat, architecture)


PRO_RESULT = (
    "Lin et al. 2025: the Pro block, which adds an output norm, an output gate and the shift of keys and values, "
    "makes both FoX and the Transformer significantly better."
)


CONVOLUTION_KINDS = KindTable(
    KIND,
    traits={"width": "the number of tokens that it reads can be set"},
    kinds=(
        Kind(KIND, "none", "no convolution", code="zoo.layers.short_convolution:NoConvolution", description=None),
        Kind(
            KIND,
            "canon",
            "x_t + sum_i w_i * x_(t-i), w_i learned for each channel (Allen-Zhu 2025, Canon layers)",
            frozenset({"width"}),
            fields=(
                Field(
                    "model.convolution.places",
                    "ABC",
                    str,
                    "where: A input of attention, B queries, keys and values, C input of the feed-forward layer, D its "
                    "hidden units before the activation",
                    added=True,
                ),
            ),
            problems=_canon_problems,
            derive=lambda flat: {"model.convolution.width": WIDTHS["canon"]},
            code="zoo.layers.short_convolution:CanonConvolution",
            description=Description(
                published=(
                    (
                        "Allen-Zhu 2025, synthetic tasks: Canon layers double the depth of reasoning, and a model "
                        "without positions becomes as good as one with RoPE."
                    ),
                    (
                        "Marin 2026 (issue 7585), mixture of experts of width 1,024, one run each: similar "
                        "convolutions on keys, values and the outputs of both sublayers lower the macro loss on "
                        "Paloma by 0.023, to 3.0378; on keys alone by 0.007."
                    ),
                )
            ),
        ),
        Kind(
            KIND,
            "primer",
            "sum_i w_i * x_(t-i) of queries, keys and values, w_i learned for each channel (So et al. 2021, Primer)",
            frozenset({"width"}),
            problems=_projection_problems,
            derive=lambda flat: {"model.convolution.width": WIDTHS["primer"]},
            code="zoo.layers.short_convolution:PrimerConvolution",
            description=Description(
                published=(
                    "So et al. 2021: a T5 of 500M parameters with squared ReLU and these convolutions needs a "
                    "quarter of the training cost for the same loss on C4. Most of the gain is due to these two "
                    "changes.",
                )
            ),
        ),
        Kind(
            KIND,
            "token_shift",
            "attention and feed-forward layers read the first half of the channels from the token before (Peng 2021)",
            problems=_causal_problems,
            code="zoo.layers.short_convolution:TokenShift",
            description=Description(
                published=(
                    (
                        "Modded-nanogpt 2025 (record of September 18), a related form, which adds a gated share of "
                        "the embedding of the token before: about 5 steps saved at an equal loss."
                    ),
                    (
                        "Karpathy 2026 (nanochat's experiment log), the same with a gate from all channels: a "
                        "negligible gain."
                    ),
                )
            ),
        ),
        Kind(
            KIND,
            "kv_shift",
            "a_t k_(t-1) + (1 - a_t) k_t, a_t = sigmoid(x_t w) for each key/value head, and the same for values "
            "(Lin et al. 2025, FoX Pro)",
            problems=_projection_problems,
            code="zoo.layers.short_convolution:KeyValueShift",
            description=Description(
                published=(
                    PRO_RESULT,
                    (
                        "Xu et al. 2024, arXiv:2411.19574, a related form with a few learned numbers for each head: "
                        "better or faster from toy models to more than 10B parameters, because induction heads then "
                        "need less depth."
                    ),
                )
            ),
        ),
    ),
    part="convolution",
)
