"""RoPE: the angle of each pair by position, and the bound it puts on scores by distance."""

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Rectangle

from zoo.config import ResolvedConfig
from zoo.draw.run_activations import RunActivations
from zoo.draw.style import depth_colours, figure
from zoo.errors import ConfigError
from zoo.layers.position.rope import Rope, rotary_width
from zoo.training.trained_run import INITIAL, TRAINED


def pair_rotations(config: ResolvedConfig, length: int) -> np.ndarray:
    """Returns cos + i sin of the angle of each pair at each position, complex [length, pairs].

    This is what `Rope` makes of (1, 0) in every pair, without YaRN's factor on the rotated vectors.

    Raises:
        ConfigError: `config`, the `model` part of a config, has no RoPE.
    """
    if config.position.kind != "rope":
        raise ConfigError(f"model.position.kind={config.position.kind} rotates nothing; a config with rope is needed")
    scheme = Rope(config)
    positions, pairs = jnp.arange(length)[None], scheme.rotated // 2
    if scheme.layout == "half":
        ones, first, second = np.arange(pairs), np.arange(pairs), np.arange(pairs) + pairs
    else:
        ones, first, second = 2 * np.arange(pairs), 2 * np.arange(pairs), 2 * np.arange(pairs) + 1
    x = np.zeros((1, length, 1, rotary_width(config)), np.float32)
    x[..., ones] = 1
    # Rotated as keys: dynamic scaling follows the length of the keys.
    found = np.asarray(scheme.rotate(jnp.asarray(x), jnp.asarray(x), positions, positions)[1])[0, :, 0] / scheme.factor
    return found[:, first] + 1j * found[:, second]


def rotated_pairs(config: ResolvedConfig) -> list[tuple[int, int]]:
    """Returns which two dimensions of a head each pair rotates, the fastest pair first.

    Every dimension is set to 1 alone and rotated; the other one that is then not 0 is its partner.
    `config` is the `model` part of a config.
    """
    dim, position = rotary_width(config), jnp.ones((1, 1), jnp.int32)
    alone = jnp.eye(dim)[:, None, None]
    rotated = np.asarray(Rope(config).rotate(alone, alone, position, position)[1])[:, 0, 0]
    return [(first, second) for first in range(dim) for second in range(first + 1, dim) if rotated[first, second] != 0]


def pairs_page(models: dict[str, ResolvedConfig]) -> Figure:
    """Draws the dimensions of a head in a row for each model, by name: a colour, a number and an arc
    for each pair that rotates together.
    """
    drawn, panels = figure(7.4, 0.3 + 1.35 * len(models), rows=len(models))
    for axes, (name, model) in zip(panels, models.items(), strict=True):
        pairs, dim = rotated_pairs(model), rotary_width(model)
        reach = max(second - first for first, second in pairs)
        for number, (colour, pair) in enumerate(zip(depth_colours(len(pairs)), pairs, strict=True)):
            for place in pair:
                axes.add_patch(Rectangle((place - 0.45, 0), 0.9, 1, facecolor=colour))
                shade = "black" if number < len(pairs) / 2 else "white"
                axes.text(place, 0.47, str(number), ha="center", va="center", fontsize=8, color=shade)
            middle, width = sum(pair) / 2, pair[1] - pair[0]
            height = 2.6 * (0.35 + 0.65 * width / reach)
            axes.add_patch(Arc((middle, 1), width, height, theta2=180, edgecolor=colour, linewidth=1.3))
        axes.set(xlim=(-0.7, dim - 0.3), ylim=(0, 2.4), yticks=[], title=name)
        axes.set_xticks(range(dim))
        axes.tick_params(length=0, labelsize=7)
        for edge in axes.spines.values():
            edge.set_visible(False)
    panels[-1].set_xlabel("dimension of a head; the number of its pair inside")
    return drawn


def score_bound(config: ResolvedConfig, length: int) -> np.ndarray:
    """Returns (1 / pairs) sum_j |S_j|, S_j = sum_{k < j} e^(i distance theta_k), by distance.

    This factor bounds a score relative to its content (Su et al. 2021, section 3.4.3, eq. 37).
    """
    return np.abs(np.cumsum(pair_rotations(config, length), axis=1)).mean(axis=1)


def angles_page(config: ResolvedConfig, length: int = 128) -> Figure:
    """Draws the angle of every pair at every position, and the cosine of some pairs as lines."""
    values = pair_rotations(config, length)
    pairs = values.shape[1]
    drawn, (left, right) = figure(8, 3.2, columns=2)
    # A cyclic colour map: an angle of a full turn has the colour of 0.
    shown = left.imshow(
        np.angle(values) / np.pi, cmap="twilight", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    left.set(xlabel="pair of dimensions", ylabel="position", title="angle, in half turns")
    drawn.colorbar(shown, ax=left, pad=0.01).outline.set_visible(False)
    chosen = sorted({0, pairs // 8, pairs // 4, pairs // 2, pairs - 1})
    for colour, pair in zip(depth_colours(len(chosen)), chosen, strict=True):
        right.plot(values[:, pair].real, color=colour, linewidth=1.2, label=f"pair {pair}")
    right.set(xlabel="position", title="cosine of the angle")
    right.grid(alpha=0.25)
    right.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    return drawn


def scores_by_distance(activations: RunActivations, side: str, which: str) -> np.ndarray:
    """Returns the mean |score| over heads and pairs of tokens before softmax, [L, distances].

    Keys outside a window count too. Distance is that of a key before the query. Layers that
    compute no scores are NaN.

    Raises:
        ConfigError: no layer computes scores.
    """
    layers = activations.stacks[which][side].scores.get("attention")
    if layers is None:
        raise ConfigError("no layer of this run computes attention scores")
    length = len(activations.labels[side])
    sizes = [np.full((length, length), np.nan) if maps is None else np.abs(maps[0]).mean(axis=0) for maps in layers]
    return np.array([[np.diagonal(each, -distance).mean() for distance in range(length)] for each in sizes])


def bound_page(
    config: ResolvedConfig, length: int = 128, activations: RunActivations | None = None, side: str = ""
) -> Figure:
    """Draws the bound, and for a run the sizes of its scores by distance."""
    drawn, panels = figure(4 if activations is None else 10.4, 3.2, columns=1 if activations is None else 3)
    values = score_bound(config, length)
    panels[0].plot(values, linewidth=1.4)
    panels[0].set(
        xlabel="distance", title=f"bound of Su et al. 2021, eq. 37\n{config.position.theta:g} as base", ylim=(0, None)
    )
    panels[0].grid(alpha=0.25)
    if activations is None:
        return drawn
    found = {which: scores_by_distance(activations, side, which) for which in (TRAINED, INITIAL)}
    for axes, (which, rows) in zip(panels[1:], found.items(), strict=True):
        for colour, (layer, row) in zip(depth_colours(len(rows)), enumerate(rows), strict=True):
            axes.plot(row, color=colour, linewidth=1, label=f"layer {layer}")
        axes.set(
            xlabel="distance of the key before the query", title=f"mean |score| by layer,\n{which}", ylim=(0, None)
        )
        axes.grid(alpha=0.25)
    panels[-1].legend(frameon=False, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    drawn.suptitle(activations.source, fontsize=8, parse_math=False)
    return drawn
