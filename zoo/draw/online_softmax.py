"""Attention of one query, tile by tile of keys: the online softmax (Milakov & Gimelshein 2018), as in
FlashAttention (Dao et al. 2022, algorithm 1).
"""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError

KEY_DIM, VALUE_DIM = 8, 4
SEED = 131
"""Seed of the example. Its maximum grows in the second tile and not in the third, so that both cases
are seen."""
QUIET, GRID = "#b8bec8", "#6b7280"
MOST_TILES = 6


class TileStep(NamedTuple):
    """The state of a query after a tile of keys.

    Attributes:
        start, stop: the keys of the tile.
        maximum: m, the largest score so far.
        factor: e^(m_before - m), by which `total` and `output` of the tiles before are multiplied.
        total: l, the sum of e^(score - m) so far.
        output: o, the sum of e^(score - m) v so far, [V].
    """

    start: int
    stop: int
    maximum: float
    factor: float
    total: float
    output: np.ndarray


def online_softmax(scores: np.ndarray, values: np.ndarray, tile: int) -> list[TileStep]:
    """Returns the state after each tile; o / l of the last one is softmax(scores) values.

    m' = max(m, max(s)), l' = e^(m - m') l + sum(e^(s - m')), o' = e^(m - m') o + e^(s - m') v, for
    the scores s and values v of a tile, from m = -inf, l = 0, o = 0. Only a tile and the three results
    are held, not the S scores.

    Args:
        scores: of one query, [S].
        values: [S, V].
        tile: number of keys in a tile; the last tile may have fewer.
    """
    maximum, total, output = -np.inf, 0.0, np.zeros(values.shape[1])
    steps = []
    for start in range(0, len(scores), tile):
        s, v = scores[start : start + tile], values[start : start + tile]
        before, maximum = maximum, max(maximum, float(s.max()))
        factor, weights = float(np.exp(before - maximum)), np.exp(s - maximum)
        total, output = factor * total + float(weights.sum()), factor * output + weights @ v
        steps.append(TileStep(start, start + len(s), maximum, factor, total, output))
    return steps


def example(length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns a query [K], keys [S, K] and values [S, V] of normal numbers."""
    generator = np.random.default_rng(SEED)
    q, k = 1.5 * generator.normal(size=KEY_DIM), generator.normal(size=(length, KEY_DIM))
    return q, k, generator.normal(size=(length, VALUE_DIM))


def page(length: int = 12, tile: int = 4) -> Figure:
    """Draws a column for each tile: the scores read so far, their weights, and the output so far.

    Raises:
        ConfigError: there are too many tiles for a page.
    """
    if not 1 <= -(-length // tile) <= MOST_TILES:
        raise ConfigError(f"--length {length} with --tile {tile}: at most {MOST_TILES} tiles fit a page")
    q, k, values = example(length)
    scores = k @ q / np.sqrt(KEY_DIM)
    steps = online_softmax(scores, values, tile)
    probabilities = np.exp(scores - scores.max())
    exact = probabilities @ values / probabilities.sum()
    count = len(steps)
    drawn, panels = figure(max(1.0 + 2.7 * count, 5.4), 6.6, 3, count, sharey="row")
    for column, step in enumerate(steps):
        _draw_scores(panels[column], scores, step, column)
        _draw_weights(panels[count + column], scores, step)
        _draw_output(panels[2 * count + column], step, exact)
    panels[0].set_ylabel("score")
    panels[count].set_ylabel(r"weight, $e^{\mathrm{score} - m}$", parse_math=True)
    panels[2 * count].set_ylabel("output so far, o / l")
    # Room above the bars for the line of numbers.
    panels[count].set_ylim(0, 1.3)
    low, high = panels[2 * count].get_ylim()
    panels[2 * count].set_ylim(low, high + 0.3 * (high - low))
    handles = panels[2 * count].get_legend_handles_labels()
    drawn.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    drawn.suptitle(
        f"One query q [{KEY_DIM}], {length} keys [{length}, {KEY_DIM}] and values [{length}, {VALUE_DIM}], "
        f"in tiles of {tile}\nkept from tile to tile: m and l, one number each, and o [{VALUE_DIM}]"
    )
    return drawn


def _draw_scores(axes: Axes, scores: np.ndarray, step: TileStep, number: int) -> None:
    _bars(axes, scores, step)
    axes.axhline(step.maximum, color=COLOURS[1], linewidth=1.2, linestyle="--")
    axes.axhline(0, color=GRID, linewidth=0.6)
    axes.set_title(f"tile {number + 1}: keys {step.start} to {step.stop - 1}\nm = {step.maximum:.2f}")


def _draw_weights(axes: Axes, scores: np.ndarray, step: TileStep) -> None:
    _bars(axes, np.exp(scores - step.maximum), step)
    before = f"before × {step.factor:.2f};  " if step.start else ""
    _note(axes, f"{before}l = {step.total:.2f}")
    axes.set_xlabel("key")


def _bars(axes: Axes, heights: np.ndarray, step: TileStep) -> None:
    """Draws the keys read so far; those of the tile have a colour."""
    colours = [QUIET if key < step.start else COLOURS[0] for key in range(step.stop)]
    axes.bar(np.arange(step.stop), heights[: step.stop], color=colours, width=0.8)
    axes.set(xlim=(-0.7, len(heights) - 0.3), xticks=range(0, len(heights), max(1, len(heights) // 12)))
    axes.tick_params(labelsize=7)


def _draw_output(axes: Axes, step: TileStep, exact: np.ndarray) -> None:
    places = np.arange(len(exact))
    axes.bar(places, step.output / step.total, color=COLOURS[0], width=0.6, label="after this tile")
    axes.plot(places, exact, "_", color=COLOURS[1], markersize=16, markeredgewidth=1.8, label="softmax of all scores")
    axes.axhline(0, color=GRID, linewidth=0.6)
    _note(axes, f"largest difference {np.abs(step.output / step.total - exact).max():.2f}")
    axes.set(xlabel="dimension of the values", xticks=places)
    axes.tick_params(labelsize=7)


def _note(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.97, text, transform=axes.transAxes, ha="center", va="top", fontsize=8)
