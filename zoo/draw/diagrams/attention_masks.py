"""Masks of a config's attention layers, and the receptive field after each layer."""

import textwrap
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import nnx
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from zoo.config import ResolvedConfig, layer_kind, side
from zoo.config.kinds import ATTENTION_KINDS
from zoo.config.kinds.objective_kinds import is_prefix_decoder
from zoo.config.kinds.side_lengths import side_lengths
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError
from zoo.layers.attention import make_attention
from zoo.layers.context import Context, Memory
from zoo.nested import flatten
from zoo.objectives.objective import positions_and_documents

CELLS = 32
"""Tokens of a row that are shown, by default."""
LONGEST = 2048
"""Tokens of a row of which the reach is computed."""
TITLE_WIDTH = 44
"""Characters of a line above a grid; longer ones would reach into the next grid's."""
DOCUMENTS = (0.0, 0.4, 0.75)
"""Starts of the documents in an example of a packed row, as shares of its length."""


class LayerMask(NamedTuple):
    """The mask of some layers.

    Attributes:
        title: names the layers.
        notes: names the limits, such as a window.
        visible: [T, S], whether a query attends to a key, for the tokens shown.
        places: indices of these tokens in their row, [S].
        documents: indices of the documents' first tokens in the row.
    """

    title: str
    notes: str
    visible: np.ndarray
    places: np.ndarray
    documents: tuple[int, ...]


class _Stack(NamedTuple):
    """A stack: its name, its config, that of each kind of layers, and the kind of each layer."""

    name: str
    model: ResolvedConfig
    kinds: dict[str, ResolvedConfig]
    layers: tuple[str, ...]
    prefix: int


def _stacks(config: ResolvedConfig) -> Iterator[_Stack]:
    model = config.model
    if model.architecture == "elmo":
        raise ConfigError("model.architecture=elmo has no attention, so there is no mask to draw")
    prefix = config.objective.prefix_length if is_prefix_decoder(flatten(config), model.architecture) else 0
    for name in ("encoder", "decoder") if model.architecture == "encoder_decoder" else ("",):
        own = side(model, name) if name else model
        pattern = tuple(own.layers.pattern) or ("",)
        kinds = {kind: layer_kind(own, kind) if kind else own for kind in dict.fromkeys(pattern)}
        layers = tuple(pattern[layer % len(pattern)] for layer in range(own.num_layers))
        yield _Stack(name, own, kinds, layers, prefix)


def row_length(config: ResolvedConfig) -> int:
    """Returns the number of tokens of a row that shows what limits attention in the config: those of
    training, but at least two and at most eight times the widest window or the prefix, which is then
    whole and several cells wide.
    """
    spans = [
        attention.window * max(attention.dilations, default=1)
        for stack in _stacks(config)
        for attention in (kind.attention for kind in stack.kinds.values())
    ]
    limit = max([*spans, *(stack.prefix for stack in _stacks(config))])
    length = config.data.sequence_length
    return max(CELLS, min(max(length, 2 * limit), 8 * limit)) if limit else length


def row_context(config: ResolvedConfig, causal: bool, prefix: int, length: int, stride: int) -> Context:
    """Returns the context of every `stride`-th token of a row; the row is packed with documents if
    the config keeps these apart.
    """
    begins = document_begins(config, length)
    tokens = jnp.zeros((1, length), jnp.int32).at[0, jnp.asarray(begins or (0,))].set(1)
    positions, documents = positions_and_documents(tokens, bool(begins), 1)
    documents = None if documents is None else documents[:, ::stride]
    return Context(positions[:, ::stride], documents, causal, prefix=prefix)


def document_begins(config: ResolvedConfig, length: int) -> tuple[int, ...]:
    """Returns where documents begin in a row of this length; nothing if they are not kept apart."""
    return tuple(int(share * length) for share in DOCUMENTS) if config.data.isolate_documents else ()


def visible_by_dilation(model: ResolvedConfig, context: Context, cross: bool = False) -> dict[int, np.ndarray]:
    """Returns what the queries of a layer see, [T, S], by the dilation of its heads' windows.

    The layer itself says what its window and its global tokens are, `Context.visible` what they
    let through.
    """
    layer = nnx.eval_shape(lambda: make_attention(model, cross))
    # Of heads beside a recurrence, those of softmax attention are shown.
    layer = getattr(layer, "softmax", layer)
    window, first = getattr(layer, "window", _read_window(model)), getattr(layer, "global_tokens", 0)
    dilations = dict.fromkeys(getattr(layer, "dilations", ())) or (1,)
    return {each: np.asarray(context.visible(window, global_tokens=first, dilation=each))[0] for each in dilations}


def masks(config: ResolvedConfig, length: int = 0) -> list[LayerMask]:
    """Returns the mask of each kind of layers, for each dilation of their heads.

    Args:
        config: resolved.
        length: tokens of a row; 0 for `row_length`. Of more than `CELLS` tokens, some are shown at
            equal distances, or all if windows are dilated.

    Raises:
        ConfigError: the model has no attention.
    """
    length = length or row_length(config)
    found = []
    for stack in _stacks(config):
        dilated = any(max(kind.attention.dilations, default=1) > 1 for kind in stack.kinds.values())
        stride = 1 if dilated else -(-length // CELLS)
        causal = stack.model.architecture == "decoder"
        context = row_context(config, causal, stack.prefix, length, stride)
        rows = np.arange(0, length, stride), document_begins(config, length)
        for name, model in stack.kinds.items():
            count = (
                f"{stack.layers.count(name)} of {len(stack.layers)} layers" if len(stack.kinds) > 1 else "all layers"
            )
            title = " ".join(filter(None, (stack.name, name, "self-attention,", count)))
            for dilation, visible in visible_by_dilation(model, context).items():
                found.append(LayerMask(title, _notes(model, causal, stack.prefix, dilation), visible, *rows))
        if stack.name == "decoder":
            keys = jnp.arange(0, length, stride)[None]
            memory = replace(context, memory=Memory(jnp.zeros((1, keys.shape[1], 1)), keys)).for_cross_attention()
            (visible,) = visible_by_dilation(stack.model, memory, cross=True).values()
            found.append(LayerMask("cross-attention", "keys are the encoder's output", visible, rows[0], ()))
    return found


def _notes(model: ResolvedConfig, causal: bool, prefix: int, dilation: int) -> str:
    attention = model.attention
    parts = ["causal" if causal else "bidirectional"]
    if prefix:
        parts.append(f"prefix of {prefix:,}")
    read = _read_window(model)
    if attention.window:
        parts.append(f"window of {attention.window:,}" + " in the heads of softmax attention" * (not read))
    elif read:
        parts.append(f"convolution over {read:,} tokens")
    if attention.dilations:
        heads = [str(h) for h in range(attention.num_heads) if _dilation_of(attention, h) == dilation]
        parts.append(f"dilation {dilation} (head{'s' * (len(heads) > 1)} {', '.join(heads)})")
    if attention.global_tokens:
        parts.append(f"{attention.global_tokens} global")
    return ", ".join(parts)


def _dilation_of(attention: ResolvedConfig, head: int) -> int:
    return attention.dilations[head % len(attention.dilations)]


class Reach(NamedTuple):
    """The receptive field of a token: the number of tokens that can change it, after each layer.

    Attributes:
        name: names the stack and the token.
        length: tokens of the row.
        tokens: [L + 1], from the embedding on.
        endless: the same in a row that is longer than all windows together, [L + 1]; empty if a layer
            sees a whole row, or only some keys of a window.
        formula: the last of `endless`, computed from the windows, as text.
    """

    name: str
    length: int
    tokens: np.ndarray
    endless: np.ndarray
    formula: str


def receptive_fields(config: ResolvedConfig) -> list[Reach]:
    """Returns the receptive field of a token by layer, in rows of `data.sequence_length`: of the
    last token where attention is causal, of the middle one otherwise.

    Of rows longer than `LONGEST`, tokens at equal distances are followed, unless windows alone limit
    what is seen; where windows are dilated, the row is cut instead.
    """
    found = []
    for stack in _stacks(config):
        dilated = any(max(kind.attention.dilations, default=1) > 1 for kind in stack.kinds.values())
        length = config.data.sequence_length
        if stack.name:
            length = side_lengths(config.objective, length)[stack.name == "decoder"]
        length = min(length, LONGEST) if dilated else length
        stride = -(-length // LONGEST)
        causal = stack.model.architecture == "decoder"
        endless, formula = _endless_reach(stack, causal)
        if causal and len(endless) and not document_begins(config, length):
            # The windows alone give the exact number.
            tokens = endless
        else:
            context = row_context(config, causal, stack.prefix, length, stride)
            seen = {
                name: np.asarray(context.visible(0))[0]
                if not _read_window(model)
                else np.any(list(visible_by_dilation(model, context).values()), axis=0)
                for name, model in stack.kinds.items()
            }
            counts = reach_by_layer(seen, stack.layers, -1 if causal else len(context.positions[0]) // 2)
            tokens = np.where(counts > 1, counts * stride, 1)
        token = f"{stack.name} {'last' if causal else 'middle'} token".strip()
        # Convolutions beside attention would add to it.
        if any(model.convolution.kind != "none" for model in stack.kinds.values()):
            token += ", without short convolutions,"
        found.append(Reach(token, length, np.minimum(tokens, length), endless, formula))
    return found


def _endless_reach(stack: _Stack, causal: bool) -> tuple[np.ndarray, str]:
    """Returns `Reach.endless` and `Reach.formula`: with a window of w tokens a layer adds the w - 1
    others that a query sees, so that L layers reach L (w - 1) + 1 tokens.
    """
    others = {kind: _others_in_window(model, causal) for kind, model in stack.kinds.items()}
    if 0 in others.values():
        return np.zeros(0, int), ""
    endless = 1 + np.cumsum([0, *(others[layer] for layer in stack.layers)])
    terms = " + ".join(f"{stack.layers.count(kind)} × ({count + 1:,} − 1)" for kind, count in others.items())
    return endless, f"{terms} + 1 = {endless[-1]:,}"


def _others_in_window(model: ResolvedConfig, causal: bool) -> int:
    """Returns how many keys a query far from both ends of a row sees beside its own; 0 if there is no
    window, or if it has gaps or heads see different keys.
    """
    window = _read_window(model)
    if not window or model.attention.dilations or model.attention.global_tokens:
        return 0
    query, keys = jnp.asarray([[window]]), jnp.arange(2 * window + 1)[None]
    (seen,) = visible_by_dilation(model, Context(query, causal=causal, key_positions=keys)).values()
    return int(seen.sum()) - 1


def _read_window(model: ResolvedConfig) -> int:
    return ATTENTION_KINDS.code_of(model.attention.kind).read_window(model)


def reach_by_layer(seen: dict[str, np.ndarray], layers: tuple[str, ...], token: int) -> np.ndarray:
    """Returns how many tokens can change a token after each layer, [L + 1].

    Args:
        seen: [T, T] for each kind of layers: which keys a query sees.
        layers: the kind of each layer, from the first on.
        token: the token.
    """
    counts = [1]
    for depth in range(1, len(layers) + 1):
        # From the layer at this depth down to the first: what its inputs depend on. The residual
        # connection passes on the token itself.
        reached = np.zeros(len(next(iter(seen.values()))), bool)
        reached[token] = True
        for kind in reversed(layers[:depth]):
            if reached.all():
                break
            reached |= seen[kind][reached].any(axis=0)
        counts.append(int(reached.sum()))
    return np.array(counts)


def page(config: ResolvedConfig, name: str, length: int = 0) -> Figure:
    """Draws the masks as grids, and the receptive field by layer."""
    length = length or row_length(config)
    every, fields = masks(config, length), receptive_fields(config)
    columns = min(4, len(every) + 1)
    rows = -(-(len(every) + 1) // columns)
    drawn, panels = figure(0.4 + 2.7 * columns, 0.6 + 3.0 * rows, rows, columns)
    for axes, mask in zip(panels, every, strict=False):
        _draw_mask(axes, mask)
    _draw_reach(panels[len(every)], fields)
    for axes in panels[len(every) + 1 :]:
        axes.set_axis_off()
    stride = every[0].places[1] - every[0].places[0] if length > 1 else 1
    shown = f"a row of {length:,} tokens" + (f", one in {stride:,} shown" if stride > 1 else "")
    drawn.suptitle(f"{name}\nwhich keys each query sees: {shown}", fontsize=10, parse_math=False)
    return drawn


def _draw_mask(axes: Axes, mask: LayerMask) -> None:
    count, keys = mask.visible.shape
    axes.imshow(mask.visible, cmap=ListedColormap(["#eef0f3", "#3b78b8"]), vmin=0, vmax=1, interpolation="nearest")
    if count <= 64:
        axes.set_xticks(np.arange(keys + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(count + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="white", linewidth=0.6)
    for begin in mask.documents[1:]:
        place = np.searchsorted(mask.places, begin) - 0.5
        axes.axhline(place, color=COLOURS[1], linewidth=0.9)
        axes.axvline(place, color=COLOURS[1], linewidth=0.9)
    ticks = np.arange(0, keys, -(-keys // 4))
    labels = [f"{mask.places[tick]:,}" for tick in ticks]
    axes.set_xticks(ticks, labels, fontsize=7)
    axes.set_yticks(ticks, labels, fontsize=7)
    axes.tick_params(which="both", length=0)
    documents = "\nlines: documents begin" if mask.documents else ""
    notes = textwrap.fill(mask.notes, TITLE_WIDTH)
    axes.set_title(f"{mask.title}\n{notes}{documents}", fontsize=8, parse_math=False)
    axes.set_xlabel("key", fontsize=8)
    axes.set_ylabel("query", fontsize=8)
    for edge in axes.spines.values():
        edge.set_visible(False)


def _draw_reach(axes: Axes, fields: list[Reach]) -> None:
    for colour, field in zip(COLOURS, fields, strict=False):
        axes.plot(
            field.tokens, "o-", markersize=3, linewidth=1.3, color=colour, label=f"{field.name} of {field.length:,}"
        )
    longer = [field for field in fields if len(field.endless) and field.endless[-1] > field.length]
    for colour, field in zip(COLOURS, fields, strict=False):
        if any(field is each for each in longer):
            axes.plot(field.endless, ":", linewidth=1.3, color=colour, label=f"of a longer row:\n{field.formula}")
    axes.set(xlabel="after layer", ylim=(0, None), xlim=(0, None))
    if longer:
        # Room for the legend below a line that rises to the upper right corner.
        axes.set_ylim(0, 1.45 * max(field.endless[-1] for field in longer))
    axes.set_title("receptive field: tokens of a row\nthat can change a token", fontsize=8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.tick_params(labelsize=7)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=7, **({"loc": "upper left"} if longer else {}))
