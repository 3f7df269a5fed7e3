"""Sizes by which the models of a family differ: width, depth, heads, parameters, budget, cache."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from zoo.config import AUTO, ResolvedConfig, layer_kind, side
from zoo.layers.feedforward import hidden_dim
from zoo.models import cost

Size = int | Mapping[str, Any] | None
"""One number; {"encoder": size, "decoder": size} or {kind of layers: number} where they differ; None
where the model has no such size.
"""


@dataclass(frozen=True)
class ModelSizes:
    """Sizes of a model and of its training.

    Attributes:
        dim: D, width of the model.
        layers: L; of an encoder-decoder one number for each side.
        heads: H.
        kv_heads: G, heads with keys and values of their own.
        head_dim: K, width of a head.
        hidden_dim: F, width between the matrices of a feed-forward layer.
        parameters: without rows that pad the vocabulary.
        sequence_length: T, tokens of a row.
        batch_size: rows of an update.
        tokens: tokens of the rows of all updates.
        learning_rate: the peak.
        cached_bytes: what a decoder's cache keeps of a token in all layers, until the windows of
            layers that have one are full; "encoder" is a token that the encoder read. None for
            encoders and ELMo, which cache nothing.
        state_bytes: what it keeps of a text besides, whatever the number of its tokens; None likewise.
    """

    dim: Size
    layers: Size
    heads: Size
    kv_heads: Size
    head_dim: Size
    hidden_dim: Size
    parameters: int
    sequence_length: int
    batch_size: int
    tokens: int
    learning_rate: float
    cached_bytes: Size
    state_bytes: Size


def model_sizes(config: ResolvedConfig) -> ModelSizes:
    """Computes the sizes of a resolved config without allocating arrays."""
    model, data = config.model, config.data
    both = model.architecture == "encoder_decoder"
    stacks = {name: side(model, name) for name in ("encoder", "decoder")} if both else {"": model}

    def by_stack(read: Callable[[ResolvedConfig], Any]) -> Size:
        return _merged({name: _by_kind(own, read) for name, own in stacks.items()})

    return ModelSizes(
        by_stack(lambda own: own.dim),
        {name: own.num_layers for name, own in stacks.items()} if both else model.num_layers,
        # ELMo has no attention, and reads none of these.
        *(None,) * 4
        if model.architecture == "elmo"
        else (
            by_stack(lambda own: own.attention.num_heads),
            by_stack(lambda own: own.attention.num_kv_heads),
            by_stack(lambda own: own.attention.head_dim),
            by_stack(lambda own: AUTO if own.ffn.hidden_dim == AUTO else hidden_dim(own)),
        ),
        parameters=cost.summary(config).unpadded,
        sequence_length=data.sequence_length,
        batch_size=data.batch_size,
        tokens=config.training.steps * data.batch_size * data.sequence_length,
        learning_rate=config.optimizer.learning_rate,
        cached_bytes=_cached_bytes(stacks) if "decoder" in (model.architecture, *stacks) else None,
        state_bytes=cost.state_bytes([*stacks.values()][-1]) if "decoder" in (model.architecture, *stacks) else None,
    )


def _by_kind(model: ResolvedConfig, read: Callable[[ResolvedConfig], Any]) -> Size:
    """Returns a size of a stack, by kind of layers where kinds differ; None where it is derived from
    what the model does not have.
    """
    kinds = tuple(dict.fromkeys(tuple(model.layers.pattern)[: model.num_layers]))
    found = {kind: read(layer_kind(model, kind)) for kind in kinds} or {"": read(model)}
    return _merged({kind: None if value == AUTO else value for kind, value in found.items()})


def _merged(sizes: Mapping[str, Any]) -> Size:
    """Returns the sizes of the parts, or the one that all parts have."""
    first, *others = sizes.values()
    return dict(sizes) if any(other != first for other in others) else first


def _cached_bytes(stacks: Mapping[str, ResolvedConfig]) -> Size:
    *_, decoder = stacks.values()
    width = jnp.dtype(decoder.dtype).itemsize
    own = width * cost.cached_numbers(decoder)
    return {"encoder": width * cost.cross_cached_numbers(decoder), "decoder": own} if "decoder" in stacks else own
