"""RoPE: the angle of each pair by position, and the bound it puts on scores by distance."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Circle, Rectangle
from matplotlib.ticker import LogFormatter

from zoo.config import ResolvedConfig
from zoo.draw.run_activations import RunActivations
from zoo.draw.style import COLOURS, depth_colours, figure, mosaic
from zoo.errors import ConfigError
from zoo.layers.position.rope import Rope, rotary_width
from zoo.training.trained_run import INITIAL, TRAINED

TURNS = 8
"""Positions, from 0 on, at which a vector is drawn, and the angle of each pair."""
RANDOM_PAIRS = 1000
"""Random queries and keys whose scores are drawn under the bound."""


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


def angles_by_pair(config: ResolvedConfig, count: int = TURNS, length: int = 0) -> np.ndarray:
    """Returns the angle, in radians and not reduced to a full turn, by which each pair is rotated at
    the first positions of a row of this length, [count, pairs].
    """
    return np.unwrap(np.angle(pair_rotations(config, max(count, length))[:count]), axis=0)


def angles_page(config: ResolvedConfig, length: int = 128, title: str = "") -> Figure:
    """Draws the vector of a fast and of a slower pair at positions 0 to 7, the angle of every pair at
    positions 1 to 7, the angle of every pair at every position, and the cosine of some pairs.
    """
    # Of a scaling that depends on the length of a row, all panels show one length.
    values = pair_rotations(config, max(length, TURNS))[:length]
    first = angles_by_pair(config, length=length)
    pairs = values.shape[1]
    drawn, panels = mosaic(9.2, 6.2, [["fast"] * 2 + ["slow"] * 2 + ["angle"] * 2, ["turns"] * 3 + ["cosine"] * 3])
    _draw_vectors(panels["fast"], first[:, 0], 0)
    _draw_vectors(panels["slow"], first[:, pairs // 4], pairs // 4)
    panels["slow"].set_ylabel("")
    for colour, position in zip(depth_colours(TURNS - 1), range(1, TURNS), strict=True):
        panels["angle"].plot(first[position], color=colour, linewidth=1.3, label=f"{position}")
    panels["angle"].set(xlabel="pair of dimensions", ylabel="radians", title="angle of each pair, by position")
    panels["angle"].legend(frameon=False, fontsize=7, title="position", title_fontsize=7)
    # A cyclic colour map: an angle of a full turn has the colour of 0.
    shown = panels["turns"].imshow(
        np.angle(values) / np.pi, cmap="twilight", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
    )
    panels["turns"].set(xlabel="pair of dimensions", ylabel="position", title="angle, in half turns")
    drawn.colorbar(shown, ax=panels["turns"], pad=0.01).outline.set_visible(False)
    chosen = sorted({0, pairs // 8, pairs // 4, pairs // 2, pairs - 1})
    for colour, pair in zip(depth_colours(len(chosen)), chosen, strict=True):
        panels["cosine"].plot(values[:, pair].real, color=colour, linewidth=1.2, label=f"pair {pair}")
    panels["cosine"].set(xlabel="position", title="cosine of the angle")
    panels["cosine"].legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    for name in ("angle", "cosine"):
        panels[name].grid(alpha=0.25)
    if title:
        drawn.suptitle(title, fontsize=10, parse_math=False)
    return drawn


def _draw_vectors(axes: Axes, angles: np.ndarray, pair: int) -> None:
    """Draws the vector (1, 0) of a pair as it is at each position."""
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor="#c4c9d1", linewidth=0.8))
    for colour, (position, angle) in zip(depth_colours(len(angles)), enumerate(angles), strict=True):
        x, y = np.cos(angle), np.sin(angle)
        axes.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0})
        # Names of near vectors would overlap; the first and the last of them say which way it turns.
        if position in (0, len(angles) - 1) or angles[1] > np.pi / 12:
            axes.text(1.15 * x, 1.15 * y, str(position), ha="center", va="center", fontsize=8)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal", xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    axes.set(xlabel="first dimension of the pair", ylabel="second dimension")
    axes.set_title(f"pair {pair} at positions 0 to {len(angles) - 1}:\n{np.degrees(angles[1]):.3g}° a position")


class ContentScores(NamedTuple):
    """Scores by distance of some queries and keys, which RoPE rotates.

    Attributes:
        scores: q . k once both are rotated, [N, distances]; h_j = q_j conj(k_j) is the content of pair
            j as complex numbers, and the score at distance d is Re sum_j h_j e^(i d theta_j).
        lengths: |q| |k|, [N].
        factors: pairs * max_j |h_{j+1} - h_j|, with 0 after the last pair, [N]; |score| / factor is
            at most `score_bound` (Su et al. 2021, section 3.4.3, eq. 37).
    """

    scores: np.ndarray
    lengths: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, config: ResolvedConfig, q: np.ndarray, k: np.ndarray, length: int) -> "ContentScores":
        """Returns the scores of complex queries and keys, one number for each pair, [N, pairs]."""
        content = q * np.conj(k)
        steps = np.abs(np.diff(content, axis=1, append=0)).max(axis=1)
        lengths = np.linalg.norm(q, axis=1) * np.linalg.norm(k, axis=1)
        return cls((content @ pair_rotations(config, length).T).real, lengths, content.shape[1] * steps)

    @property
    def cosines(self) -> np.ndarray:
        """The scores of vectors of length 1, [N, distances]."""
        return self.scores / self.lengths[:, None]

    @property
    def under_the_bound(self) -> np.ndarray:
        """|score| / factor, [N, distances]."""
        return np.abs(self.scores) / self.factors[:, None]


def example_scores(config: ResolvedConfig, length: int, seed: int = 0) -> dict[str, ContentScores]:
    """Returns the scores of three kinds of content, by name: "equal", a query and key that are (1, 0)
    in every pair, whose score is the sum of cosines; "random", `RANDOM_PAIRS` queries and keys of
    normal numbers; "far", a random key and the query that scores it highest at 3/4 of the distances,
    which is the key turned back by as many positions.
    """
    rotations = pair_rotations(config, length)
    parts = np.random.default_rng(seed).normal(size=(2, 2, RANDOM_PAIRS, rotations.shape[1]))
    q, k = parts[0] + 1j * parts[1]
    ones = np.ones((1, rotations.shape[1]), complex)
    turned = k[:1] * np.conj(rotations[3 * length // 4])
    contents = {"equal": (ones, ones), "random": (q, k), "far": (turned, k[:1])}
    return {name: ContentScores.of(config, *content, length) for name, content in contents.items()}


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
    config: ResolvedConfig,
    length: int = 128,
    activations: RunActivations | None = None,
    side: str = "",
    title: str = "",
) -> Figure:
    """Draws the bound with scores under it, the same scores of vectors of length 1, and for a run the
    sizes of its scores by distance; a title names the layers whose RoPE it is.
    """
    rows = 1 if activations is None else 2
    drawn, panels = figure(9.2, 0.6 + 3.3 * rows, rows, 2)
    _draw_bound(panels[0], score_bound(config, length), examples := example_scores(config, length))
    panels[0].set_title(f"bound of Su et al. 2021, eq. 37, base {config.position.theta:g}, and scores under it")
    _draw_cosines(panels[1], examples)
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    if activations is None:
        if title:
            drawn.suptitle(title, fontsize=10, parse_math=False)
        return drawn
    found = {which: scores_by_distance(activations, side, which) for which in (TRAINED, INITIAL)}
    for axes, (which, layers) in zip(panels[2:], found.items(), strict=True):
        for colour, (layer, row) in zip(depth_colours(len(layers)), enumerate(layers), strict=True):
            axes.plot(row, color=colour, linewidth=1, label=f"layer {layer}")
        axes.set(xlabel="distance of the key before the query", ylim=(0, None))
        axes.set_title(f"the run: mean |score| by layer, {which}")
        axes.grid(alpha=0.25)
    panels[-1].legend(frameon=False, fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    drawn.suptitle("\n".join(filter(None, (title, activations.source))), fontsize=8, parse_math=False)
    return drawn


def _rms(rows: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(rows).mean(axis=0))


def _draw_bound(axes: Axes, bound: np.ndarray, examples: dict[str, ContentScores]) -> None:
    """Draws the bound, and the scores of each content divided by its factor, logarithmically."""
    under = {name: each.under_the_bound for name, each in examples.items()}
    random, count = _rms(under["random"]), f"{RANDOM_PAIRS:,} random q, k"
    axes.plot(bound, color="black", linewidth=1.6, label="bound")
    axes.plot(under["equal"][0], color=COLOURS[0], linewidth=1.2, label="q = k: sum of cosines")
    axes.plot(under["far"][0], color=COLOURS[1], linewidth=1.2, label="q that peaks far away")
    axes.plot(under["random"].max(axis=0), ":", color=COLOURS[2], linewidth=1.2, label=f"{count}: largest")
    axes.plot(random, color=COLOURS[2], linewidth=1.4, label=f"{count}: rms")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(LogFormatter())
    axes.set(xlabel="distance", ylabel="|score| / factor of its content", ylim=(random.min() / 3, 2 * bound.max()))
    axes.grid(alpha=0.25)


def _draw_cosines(axes: Axes, examples: dict[str, ContentScores]) -> None:
    """Draws the scores of vectors of length 1."""
    cosines = {name: each.cosines for name, each in examples.items()}
    axes.plot(cosines["equal"][0], color=COLOURS[0], linewidth=1.4)
    axes.plot(cosines["far"][0], color=COLOURS[1], linewidth=1.2)
    axes.plot(_rms(cosines["random"]), color=COLOURS[2], linewidth=1.4)
    far = int(cosines["far"][0].argmax())
    axes.annotate(f"{far:,}", (far, 1), (0, 3), textcoords="offset points", ha="center", fontsize=8, color=COLOURS[1])
    low = min(0.0, *(float(rows.min()) for rows in (cosines["equal"], cosines["far"])))
    axes.set(
        xlabel="distance", ylabel="score", ylim=(low - 0.06, 1.13), title="the same scores, of vectors of length 1"
    )
    axes.axhline(0, color="#c4c9d1", linewidth=0.8, zorder=0)
    axes.grid(alpha=0.25)
