"""Kinds of short convolutions over the tokens of a row."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.config.field import Field
from zoo.config.kinds.attention_kinds import ATTENTION_KINDS
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


CONVOLUTION_KINDS = KindTable(
    KIND,
    traits={"width": "the number of tokens that it reads can be set"},
    kinds=(
        Kind(KIND, "none", "no convolution", code="zoo.layers.short_convolution:NoConvolution"),
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
        ),
        Kind(
            KIND,
            "primer",
            "sum_i w_i * x_(t-i) of queries, keys and values, w_i learned for each channel (So et al. 2021, Primer)",
            frozenset({"width"}),
            problems=_projection_problems,
            derive=lambda flat: {"model.convolution.width": WIDTHS["primer"]},
            code="zoo.layers.short_convolution:PrimerConvolution",
        ),
        Kind(
            KIND,
            "token_shift",
            "attention and feed-forward layers read the first half of the channels from the token before (Peng 2021)",
            problems=_causal_problems,
            code="zoo.layers.short_convolution:TokenShift",
        ),
        Kind(
            KIND,
            "kv_shift",
            "a_t k_(t-1) + (1 - a_t) k_t, a_t = sigmoid(x_t w) for each key/value head, and the same for values "
            "(Lin et al. 2025, FoX Pro)",
            problems=_projection_problems,
            code="zoo.layers.short_convolution:KeyValueShift",
        ),
    ),
)
