"""Which attention kernels a config trains with, found without tracing a model."""

from collections.abc import Iterator
from typing import NamedTuple

from zoo.config import ResolvedConfig, layer_kind, side
from zoo.config.fields import TASKS
from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.config.kinds.side_lengths import side_lengths
from zoo.layers.attention import make_attention
from zoo.layers.attention.kernels.kernel_choice import Platform, RowStructure
from zoo.layers.position import make_embedded_position


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
    read = rows._replace(length=source, causal=False, same_positions=rows.no_padding)
    memory = RowStructure(
        targets, source, causal=False, in_order=False, no_padding=rows.no_padding, padding_last=True, drops=rows.drops,
        same_positions=False,
    )  # fmt: skip
    return [
        *_of_stack(encoder, "encoder", read, platform),
        *_of_stack(decoder, "decoder", rows._replace(length=targets), platform),
        *_of_stack(decoder, "cross-attention", memory, platform, cross=True),
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


def _rows(config: ResolvedConfig) -> RowStructure:
    """Returns what a training step knows of the rows of a stack of the model's own architecture, or
    of a decoder that has an encoder.
    """
    objective, data = config.objective, config.data
    decoder, whole = config.model.architecture == "decoder", objective.kind in OBJECTIVE_KINDS.having("whole_rows")
    own = bool(whole and (data.isolate_documents or data.position_offsets))
    kind = OBJECTIVE_KINDS.code_of(objective.kind)
    no_padding = kind.packed_without_padding and data.row_format == "packed"
    in_order = not (whole and data.position_offsets)
    return RowStructure(
        length=data.sequence_length,
        causal=config.model.architecture != "encoder",
        in_order=in_order,
        no_padding=no_padding,
        padding_last=in_order,
        prefix=objective.prefix_length if decoder and objective.kind in OBJECTIVE_KINDS.having("prefix") else 0,
        documents=whole and data.isolate_documents,
        # A task whose body is frozen runs it as in evaluation.
        drops=not (objective.kind in TASKS and config.training.trained_layers == 0),
        same_positions=not own and (no_padding or not kind.marks_padding),
    )


def _of_stack(
    model: ResolvedConfig, name: str, rows: RowStructure, platform: Platform, cross: bool = False
) -> Iterator[LayerKernel]:
    """Yields the kernel of each kind of layer of a stack."""
    pattern = tuple(model.layers.pattern)
    biased = not cross and make_embedded_position(model).has_score_bias
    for kind in dict.fromkeys(pattern[: model.num_layers]) or ("",):
        layer = layer_kind(model, kind) if kind else model
        choice = make_attention(layer, cross).choose_kernel(rows, platform, biased)
        label = ", ".join(part for part in (name, f"kind {kind}" if kind else "") if part) or "all layers"
        if choice is None:
            yield LayerKernel(label, layer.attention.kind, f"model.attention.kind={layer.attention.kind}")
        else:
            yield LayerKernel(label, choice.name, choice.reason)
