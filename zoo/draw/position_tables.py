"""Figures of a config's positions before training: slopes, buckets, wavelengths, sinusoids."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from zoo.config import ResolvedConfig, layer_kind, side
from zoo.config.kinds import POSITION_KINDS
from zoo.draw.position_biases import bias_by_distance
from zoo.draw.rope_pictures import pair_rotations
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError
from zoo.layers.position.absolute import Sinusoidal
from zoo.layers.position.relative import Alibi, alibi_slopes, bucket
from zoo.layers.position.rope import Rope


def own_positions(config: ResolvedConfig) -> dict[str, ResolvedConfig]:
    """Returns the `model` part of a config as each side and kind of layers sees it, by name; the
    first of those with equal positions stands for all.
    """
    model = config.model
    if model.architecture == "elmo":
        raise ConfigError("model.architecture=elmo has no positions to draw")
    found: dict[tuple, tuple[str, ResolvedConfig]] = {}
    for name in ("encoder", "decoder") if model.architecture == "encoder_decoder" else ("",):
        own = side(model, name) if name else model
        for kind in dict.fromkeys(own.layers.pattern) or ("",):
            layer = layer_kind(own, kind) if kind else own
            position, attention = layer.position, layer.attention
            # A bias on scores covers both directions in an encoder, and earlier keys in a decoder.
            directed = layer.architecture if position.kind in POSITION_KINDS.having("score_bias") else ""
            key = directed, position, attention.num_heads, attention.head_dim
            found.setdefault(key, (" ".join(filter(None, (name, kind))), layer))
    ((_, only), *others) = found.values()
    return dict(found.values()) if others else {"": only}


def wavelengths(model: ResolvedConfig, length: int) -> np.ndarray:
    """Returns after how many tokens each pair of dimensions of RoPE has turned once, in rows of this
    length, [pairs].
    """
    # A pair that p-RoPE does not turn has an infinite wavelength.
    with np.errstate(divide="ignore"):
        return 2 * np.pi / np.asarray(Rope(model).frequencies(jnp.arange(length)[None]))


def buckets_by_distance(model: ResolvedConfig, distances: np.ndarray) -> np.ndarray:
    """Returns the bucket of each distance of a key from the query."""
    position = model.position
    bidirectional = model.architecture != "decoder"
    return np.asarray(bucket(jnp.asarray(distances), position.buckets, position.max_distance, bidirectional))


def _alibi(model: ResolvedConfig, length: int, left: Axes, right: Axes) -> None:
    slopes = alibi_slopes(model.attention.num_heads) * Alibi(model).factor
    left.bar(np.arange(len(slopes)), slopes, color=COLOURS[0], width=0.7)
    left.set_yscale("log", base=2)
    left.yaxis.set_major_formatter(lambda slope, _: f"{slope:g}" if slope >= 1 else f"1/{1 / slope:,.4g}")
    left.set(xlabel="head", ylabel="slope", title="ALiBi: slope of each head")
    distances, added = bias_by_distance(Alibi(model), length - 1, model.architecture == "decoder")
    extent = (distances[0] - 0.5, distances[-1] + 0.5, len(added) - 0.5, -0.5)
    _image(right, added, "Blues_r", "added to the score", extent=extent)
    right.set(xlabel="position of the key - position of the query", ylabel="head", title="bias by head and distance")
    for axis in (left.xaxis, right.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))


def _relative_bias(model: ResolvedConfig, length: int, left: Axes, right: Axes) -> None:
    distances = np.arange(1 - length, 1 if model.architecture == "decoder" else length)
    left.step(distances, buckets_by_distance(model, distances), where="mid", color=COLOURS[0], linewidth=1.3)
    left.set(xlabel="position of the key - position of the query", ylabel="bucket", title="bucket of each distance")
    query, key = np.mgrid[:length, :length]
    _square(right, buckets_by_distance(model, key - query), model, "viridis", "bucket")
    right.set_title("bucket of each pair of tokens")


def _shaw(model: ResolvedConfig, length: int, left: Axes, right: Axes) -> None:
    clip = model.position.clip
    distances = np.arange(1 - length, length)
    left.step(distances, np.clip(distances, -clip, clip), where="mid", color=COLOURS[0], linewidth=1.3)
    left.set(xlabel="position of the key - position of the query", ylabel="clipped distance")
    left.set_title(f"{2 * clip + 1} vectors, clipped at {clip}")
    query, key = np.mgrid[:length, :length]
    _square(right, np.clip(key - query, -clip, clip), model, "RdBu_r", "clipped distance")
    right.set_title("vector of each pair of tokens")


def _rope(model: ResolvedConfig, length: int, left: Axes, right: Axes) -> None:
    values = wavelengths(model, length)
    left.plot(values, "o", markersize=3, color=COLOURS[0])
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:,.0f}")
    left.set(xlabel="pair of dimensions", ylabel="tokens for a full turn", title="RoPE: wavelength of each pair")
    _image(right, pair_rotations(model, length).real, "RdBu_r", "cosine", vmin=-1, vmax=1)
    right.set(xlabel="pair of dimensions", ylabel="position", title="cosine of the angle")


def _sinusoidal(model: ResolvedConfig, length: int, left: Axes, right: Axes) -> None:
    # They are added at the width of the embeddings, where that is another one.
    width = model.embedding.dim if model.embedding.projection == "sum" and model.embedding.dim else model.dim
    table = np.asarray(Sinusoidal(model).embed(jnp.zeros((1, length, width)), jnp.arange(length)[None]))[0]
    _image(left, table, "RdBu_r", "value", vmin=-1, vmax=1)
    left.set(xlabel="dimension", ylabel="position", title=f"sinusoids, {model.position.layout}")
    _image(right, table @ table.T / (width / 2), "RdBu_r", "product", vmin=-1, vmax=1)
    right.set(xlabel="position", ylabel="position", title="products of two rows")


PANELS: dict[str, Callable[[ResolvedConfig, int, Axes, Axes], None]] = {
    "alibi": _alibi,
    "relative_bias": _relative_bias,
    "shaw": _shaw,
    "rope": _rope,
    "sinusoidal": _sinusoidal,
}


def _square(axes: Axes, values: np.ndarray, model: ResolvedConfig, colours: str, name: str) -> None:
    """Draws a value of each query and key; keys that a decoder's query does not see are blank."""
    shown = np.where(np.tri(len(values), dtype=bool), values, np.nan) if model.architecture == "decoder" else values
    _image(axes, shown, colours, name)
    axes.set(xlabel="key", ylabel="query")


def _image(axes: Axes, values: np.ndarray, colours: str, name: str, **more) -> None:
    shown = axes.imshow(values, cmap=colours, aspect="auto", interpolation="nearest", **more)
    bar = axes.figure.colorbar(shown, ax=axes, pad=0.01)
    bar.outline.set_visible(False)
    bar.set_label(name, fontsize=7)
    bar.ax.tick_params(labelsize=6)


def page(config: ResolvedConfig, name: str, length: int = 128) -> Figure:
    """Draws two panels for the positions of each side and kind of layers.

    Raises:
        ConfigError: the positions are learned, or there are none, so nothing is known without
            a run.
    """
    found = own_positions(config)
    drawable = {title: model for title, model in found.items() if model.position.kind in PANELS}
    if not drawable:
        kind = config.model.position.kind
        more = "; zoo draw learned-positions RUN draws a trained table" if kind == "learned" else ""
        raise ConfigError(f"model.position.kind={kind} has nothing fixed to draw{more}")
    drawn, panels = figure(8.6, 0.4 + 2.9 * len(drawable), len(drawable), 2)
    for row, (title, model) in enumerate(drawable.items()):
        left, right = panels[2 * row : 2 * row + 2]
        PANELS[model.position.kind](model, length, left, right)
        if model.position.kind == "rope":
            row_length = config.data.sequence_length
            if row_length != length and model.position.scaling.kind in ("dynamic", "longrope"):
                left.set_title(f"{left.get_title()}, rows of {length:,}")
            left.axhline(
                row_length, color=COLOURS[1], linewidth=1, linestyle="--", label=f"rows of {row_length:,} tokens"
            )
            left.legend(frameon=False, fontsize=7)
        if title:
            left.set_title(f"{title}: {left.get_title()}")
    drawn.suptitle(f"{name}: positions", fontsize=10, parse_math=False)
    return drawn
