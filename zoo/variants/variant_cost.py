"""Costs of a variant: the parameters and shapes that it adds to a model, operations, cache."""

import functools
from collections.abc import Mapping
from typing import Any

from zoo import config as configs
from zoo.config.fields_of_sizes import SHAPES, resolved_fields
from zoo.config.kinds import ATTENTION_KINDS, CONVOLUTION_KINDS, OBJECTIVE_KINDS
from zoo.models import cost
from zoo.models.parameter_shapes import variables
from zoo.variants.variant import BASELINES, SIZE, Variant, is_architecture

# Bytes of a number in the cache, which has the type of activations: bfloat16.
BYTES = 2


def resolved(changes: Mapping[str, Any], sizes: Mapping[str, Any]) -> configs.ResolvedConfig:
    return configs.resolve(configs.from_flat(resolved_fields(changes, sizes)))


def shapes(variant: Variant) -> list[str]:
    """Returns what the model holds in addition to its baseline, or lacks, or holds in other shapes.

    A choice of the baseline itself lists everything that the model holds.
    """
    base = dict(BASELINES[variant.baseline])
    after = variables(resolved({**base, **variant.changes}, SHAPES))
    if not variant.changes:
        named = [f"`{path}` {shape}" for path, shape in after.items()]
        return [f"This is the baseline. It holds {'; '.join(named)}."]
    before = variables(resolved(BASELINES["decoder"] if is_architecture(variant) else base, SHAPES))
    lines = []
    for title, one, other in (("adds", after, before), ("removes", before, after)):
        named = [f"`{path}` {shape}" for path, shape in one.items() if path not in other]
        if named:
            lines.append(f"It {title} {'; '.join(named)}.")
    changed = [
        f"`{path}` is {after[path]}, not {before[path]}"
        for path in after
        if path in before and after[path] != before[path]
    ]
    if changed:
        lines.append(f"{'; '.join(changed)}.")
    return lines or ["It holds the same parameters as the baseline: x [B, T, D] goes in, and [B, T, D] comes out."]


@functools.cache
def _cost(changes: tuple[tuple[str, Any], ...]) -> tuple[int, float]:
    counted = cost.summary(resolved(dict(changes), SIZE))
    return counted.parameters["total"], counted.flops_per_token


def costs(variant: Variant) -> str:
    """Returns parameters and training FLOPs compared with the baseline, at GPT-2 small's size."""
    base = {} if is_architecture(variant) else BASELINES[variant.baseline]
    before, after = (_cost(tuple(changes.items())) for changes in (base, {**base, **variant.changes}))

    return f"Parameters {_against(before[0], after[0])}; training FLOPs per token {_against(before[1], after[1])}."


def _against(old: float, new: float, unit: str = "") -> str:
    change = "" if new == old else f" ({new - old:+,.0f}, {100 * (new / old - 1):+.3g} %)"
    return f"{new:,.0f}{unit}{change}"


def inference(variant: Variant) -> list[str]:
    """Returns what predicting costs: operations of a forward pass, and what a cache holds."""
    base = {} if is_architecture(variant) else BASELINES[variant.baseline]
    before, after = ({**base, **changes} for changes in ({}, variant.changes))
    flops = (_cost(tuple(_without_training(each).items()))[1] / 3 for each in (before, after))
    lines = [f"Forward FLOPs per token {_against(*flops)}."]
    # Caches have the type of the activations, but for states, which are float32.
    model = resolved({**after, "model.dtype": "bfloat16"}, SIZE).model
    if model.architecture == "elmo":
        return [*lines, "Nothing is cached: the state of an LSTM has one size, whatever the length of the text."]
    if model.architecture == "encoder":
        return [*lines, "An encoder reads all tokens at once, and nothing is cached."]
    own = configs.side(model, "decoder") if model.architecture == "encoder_decoder" else model
    length = SIZE["data.sequence_length"]
    if not (now := BYTES * cost.cached_numbers(own, length)):
        return [
            *lines,
            f"The cache holds {cost.state_bytes(own):,} bytes for each text in a bfloat16 model, whatever the number "
            "of tokens.",
        ]
    baseline = resolved(before, SIZE).model
    old = configs.side(baseline, "decoder") if baseline.architecture == "encoder_decoder" else baseline
    old_bytes = BYTES * cost.cached_numbers(old, length)
    text = f"The cache of {length:,} tokens holds {_against(old_bytes, now, ' bytes')} in bfloat16"
    formula = ATTENTION_KINDS.code_of(own.attention.kind).cache_formula
    text += f": {formula} L numbers per token" if not own.layers.pattern else ""
    if model.architecture == "encoder_decoder":
        text += f", and {BYTES * cost.cross_cached_numbers(own):,} bytes for each token of the encoder's output"
    return [*lines, f"{text}{_cached_beside_keys(own)}."]


def _without_training(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the changes without the terms and networks that only training computes."""
    changes = dict(changes)
    if changes.get("objective.kind") in OBJECTIVE_KINDS.having("several_targets"):
        changes = {path: value for path, value in changes.items() if not path.startswith("objective.")}
    if resolved(changes, SIZE).model.generator.num_layers not in (configs.AUTO, 0):
        changes |= {"model.generator.num_layers": 0}
    return changes


def _cached_beside_keys(model: configs.ResolvedConfig) -> str:
    """Returns what a cache holds besides keys and values, as the end of a sentence."""
    text = ""
    if held := cost.state_bytes(model):
        text += f", and {held:,} bytes of states for each text, whatever the number of tokens"
    if model.attention.kind == "forgetting":
        text += f", and {model.attention.num_heads} sums of log gates in float32 for each token and layer"
    if model.convolution.kind != "none":
        width = model.convolution.width if model.convolution.kind in CONVOLUTION_KINDS.having("width") else 2
        vectors = "vector" if width == 2 else f"{width - 1} vectors"
        text += f", and the last {vectors} that every convolution read, whatever the number of tokens"
    return text
