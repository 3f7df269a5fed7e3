"""Names the attention kernels that a config trains with: one layer of each kind is traced."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from zoo.config import ResolvedConfig, layer_kind, side
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.config.kinds.side_lengths import side_lengths
from zoo.layers.attention import make_attention, shared_scores
from zoo.layers.attention.kernels.kernel_choice import KernelChoice
from zoo.layers.context import Context, DropoutKey, Memory
from zoo.layers.platform import Platform
from zoo.layers.position import make_embedded_position

ROWS = 2
"""Rows of the batch that is traced: the fewest that can differ."""


class LayerKernel(NamedTuple):
    """The attention kernel of layers that are alike.

    Attributes:
        layers: which layers, e.g. "all layers", "cross-attention", "decoder, kind local".
        kernel: name of the implementation ("banded" before it where it computes a window in
            blocks), or the kind of attention where that has no choice of implementations.
        reason: why it is not the fused one; empty for that.
    """

    layers: str
    kernel: str
    reason: str


def attention_kernels(config: ResolvedConfig, platform: Platform) -> list[LayerKernel]:
    """Returns the kernel of each kind of layer in a training step with the longest rows.

    Evaluation chooses anew: its rows may have padding, and it drops nothing. A model without
    attention has none.

    Args:
        config: the resolved config.
        platform: the devices that it is trained on.

    Raises:
        ConfigError: see `choose_kernel`.
    """
    model, rows = config.model, _rows(config)
    if model.architecture == "elmo":
        return []
    if model.architecture != "encoder_decoder":
        return list(_of_stack(model, "", rows, platform))
    source, targets = side_lengths(config.objective, config.data.sequence_length)
    encoder, decoder = side(model, "encoder"), side(model, "decoder")
    read = replace(rows, positions=_positions(source, rows.no_padding), causal=False)
    written = replace(rows, positions=_positions(targets, rows.rows_share_positions))
    hidden = jax.ShapeDtypeStruct((ROWS, source, model.dim), jnp.dtype(model.dtype))
    memory = Memory(hidden, read.positions, read.keys_end_in_padding, read.no_padding)
    return [
        *_of_stack(encoder, "encoder", read, platform),
        *_of_stack(decoder, "decoder", written, platform),
        *_of_stack(decoder, "cross-attention", replace(written, memory=memory), platform, cross=True),
    ]


def kernel_lines(kernels: list[LayerKernel]) -> list[str]:
    """Returns a line for each distinct kernel, with the layers that it computes and the reason."""
    layers: dict[tuple[str, str], list[str]] = {}
    for each in kernels:
        layers.setdefault((each.kernel, each.reason), []).append(each.layers)
    return [
        f"{kernel} ({'; '.join(names)})" + (f", not fused: {reason}" if reason else "")
        for (kernel, reason), names in layers.items()
    ]


def _positions(length: int, shared: bool) -> jax.ShapeDtypeStruct:
    """Returns the shape of positions of rows of `length` tokens, which are the same in all rows or
    not.
    """
    return jax.ShapeDtypeStruct((1 if shared else ROWS, length), jnp.int32)


def _rows(config: ResolvedConfig) -> Context:
    """Returns the context, with shapes in place of arrays, that a training step hands to a stack of
    the model's own architecture, or to a decoder that has an encoder.
    """
    objective, data = config.objective, config.data
    decoder, whole = config.model.architecture == "decoder", objective.kind in OBJECTIVE_KINDS.having("whole_rows")
    own = bool(whole and (data.isolate_documents or data.position_offsets))
    kind = OBJECTIVE_KINDS.code_of(objective.kind)
    no_padding = kind.packed_without_padding and data.row_format == "packed"
    in_order = not (whole and data.position_offsets)
    # A task whose body is frozen runs it as in evaluation.
    drops = not (objective.kind in TASKS and config.training.trained_layers == 0)
    length, same_positions = data.sequence_length, not own and (no_padding or not kind.marks_padding)
    return Context(
        _positions(length, same_positions),
        _positions(length, False) if whole and data.isolate_documents else None,
        causal=config.model.architecture != "encoder",
        in_order=in_order,
        no_padding=no_padding,
        prefix=objective.prefix_length if decoder and objective.kind in OBJECTIVE_KINDS.having("prefix") else 0,
        dropout_key=DropoutKey(jax.eval_shape(jax.random.key, 0)) if drops else None,
    )


def _of_stack(
    model: ResolvedConfig, name: str, rows: Context, platform: Platform, cross: bool = False
) -> Iterator[LayerKernel]:
    """Yields the kernel of each kind of layer of a stack."""
    pattern = tuple(model.layers.pattern)
    for kind in dict.fromkeys(pattern[: model.num_layers]) or ("",):
        layer = layer_kind(model, kind) if kind else model
        choice = _choice(model, layer, rows, platform, cross)
        label = ", ".join(part for part in (name, f"kind {kind}" if kind else "") if part) or "all layers"
        if choice is None:
            yield LayerKernel(label, layer.attention.kind, f"model.attention.kind={layer.attention.kind}")
        else:
            yield LayerKernel(label, choice.name, choice.reason)


def _choice(
    model: ResolvedConfig, layer: ResolvedConfig, rows: Context, platform: Platform, cross: bool
) -> KernelChoice | None:
    """Returns the kernel that the first layer of a stack chooses, traced with the shapes of rows; None
    if it has no choice of kernels.
    """
    found: list[KernelChoice] = []
    x = jax.ShapeDtypeStruct((ROWS, rows.positions.shape[1], layer.dim), jnp.dtype(layer.dtype))
    arrays = {
        "positions": rows.positions, "documents": rows.documents, "dropout_key": rows.dropout_key,
        "tokens": jax.ShapeDtypeStruct(x.shape[:2], jnp.int32), "embedding": x,
    }  # fmt: skip
    memory = None if rows.memory is None else (rows.memory.hidden, rows.memory.positions)
    graph, parts = nnx.split((make_attention(layer, cross), make_embedded_position(model)))

    def mix(parts, x, arrays, memory):
        mixer, position = nnx.merge(graph, parts)
        if memory is not None:
            arrays["memory"] = replace(rows.memory, hidden=memory[0], positions=memory[1])
        context = replace(
            rows, **arrays, platform=platform, layer_index=0, depth=model.num_layers, published={}, kernels=found
        )
        return mixer(x, context, None if cross else shared_scores(position, context))

    jax.eval_shape(mix, parts, x, arrays, memory)
    return found[0] if found else None
