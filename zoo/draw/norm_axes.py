"""The values over which a norm takes its statistics, in a block of activations [B, T, D]."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import nnx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from zoo.config import default, override, resolve
from zoo.config.kinds import NORM_KINDS
from zoo.draw.style import figure
from zoo.errors import ConfigError, did_you_mean
from zoo.layers.context import Context
from zoo.layers.norm import make_norm
from zoo.models.functional import initialise, initialise_statistics, split

DRAWN = ("layernorm", "batchnorm", "rmsnorm")
BLOCK, CELL = (3, 4, 5), (0, 1, 4)
"""B, T and D of the block, and the value that is changed; it is on the two faces in front."""
EXAMPLE = (10, 3)
"""Tokens and features of the example in numbers."""
PLAIN, SHARED, CHANGED, EDGE, QUIET = "#eef0f3", "#f6b26b", "#d9480f", "#8a919c", "#6b7280"
DEPTH = (0.42, 0.34)
"""Where the next row of the batch is drawn, in cells."""
CLOSE = 1e-3
"""Difference of outputs up to which they count as equal: epsilon and rounding make smaller ones."""

Normalise = Callable[[np.ndarray], np.ndarray]


def normaliser(kind: str, dim: int) -> Normalise:
    """Returns the layer of `model.norm.kind` at its initial values and as in training, as a function
    of [B, T, D].
    """
    changes = {"model.norm.kind": kind, "model.dim": dim, "model.attention.num_heads": 1}
    module = make_norm(resolve(override(default(), changes), vocab_size=8).model)
    layer = nnx.merge(split(module)[0], initialise(module, 0), initialise_statistics(module, 0))

    def apply(x: np.ndarray) -> np.ndarray:
        context = Context(positions=jnp.arange(x.shape[1])[None], training=True)
        return np.asarray(layer(jnp.asarray(x, jnp.float32), context))

    return apply


class Sharing(NamedTuple):
    """The outputs of a norm that depend on one of its inputs, and how.

    Attributes:
        cells: [B, T, D], the outputs that change with the input at `cell`, which is one of them.
        mean: adding a number to these inputs changes no output, so their mean is subtracted.
        scale: multiplying these inputs changes no output, so they are divided by a measure of size.
    """

    cells: np.ndarray
    mean: bool
    scale: bool

    @property
    def statistic(self) -> str:
        """The statistic that these values share, in words."""
        names = {(True, True): "mean and variance", (True, False): "mean", (False, True): "root mean square"}
        return names.get((self.mean, self.scale), "none")


def find_sharing(normalise: Normalise, shape: tuple[int, int, int] = BLOCK, cell: tuple[int, ...] = CELL) -> Sharing:
    """Finds out which values share a statistic, by changing inputs and comparing outputs."""
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    before = normalise(x)

    def unchanged(changed: np.ndarray) -> np.ndarray:
        return np.abs(normalise(changed) - before) < CLOSE

    one = x.copy()
    one[cell] += 2
    cells = ~unchanged(one)
    mean, scale = (unchanged(np.where(cells, changed, x)).all() for changed in (x + 3, x * 3))
    return Sharing(cells, bool(mean), bool(scale))


def example_values() -> np.ndarray:
    """Returns the example: 10 tokens of 3 features, whose ranges differ, to one decimal."""
    drawn = np.random.default_rng(1).normal(size=EXAMPLE)
    return np.round(drawn * (1.0, 3.0, 2.0) + (2.0, 9.0, 5.0), 1)


def page(kinds: Sequence[str] = DRAWN) -> Figure:
    """Draws a block for each norm, with the values that share a statistic, and below it what the norm
    makes of the example; on the left the block with its axes, and the example.

    Raises:
        ConfigError: there is no such norm.
    """
    for kind in kinds:
        if kind not in NORM_KINDS.by_name:
            close = did_you_mean(kind, NORM_KINDS.by_name)
            raise ConfigError(f"{kind} is no norm: give some of {', '.join(NORM_KINDS.by_name)}{close}")
    count, x = len(kinds) + 1, example_values()
    drawn, panels = figure(0.3 + 2.65 * count, 6.0, 2, count, height_ratios=(1, 1.45))
    _draw_block(panels[0], None)
    panels[0].set_title("activations [B, T, D]\n")
    _draw_table(panels[count], x, np.zeros(EXAMPLE, bool))
    panels[count].set_title("x: 10 tokens, 3 features")
    for column, kind in enumerate(kinds, 1):
        blocks, rows = normaliser(kind, BLOCK[2]), normaliser(kind, EXAMPLE[1])
        sharing = find_sharing(blocks)
        _draw_block(panels[column], sharing.cells)
        name = NORM_KINDS.code_of(kind).__name__
        panels[column].set_title(f"{name}\nshared: {sharing.statistic}")
        shape = EXAMPLE[0], 1, EXAMPLE[1]
        together = find_sharing(rows, shape, (0, 0, 0)).cells.reshape(EXAMPLE)
        _draw_table(panels[count + column], rows(x.reshape(shape)).reshape(EXAMPLE), together)
        panels[count + column].set_title(f"{name}(x)")
    drawn.suptitle("orange: the values that share a statistic with the dark one, or with the first of the table")
    return drawn


def _draw_block(axes: Axes, cells: np.ndarray | None) -> None:
    """Draws the three faces of a block that are seen: features to the right, tokens downwards, rows of
    the batch backwards.
    """
    B, T, D = BLOCK
    across, up = DEPTH

    def corner(b: float, t: float, d: float) -> tuple[float, float]:
        return d + across * b, up * b - t

    front = [((0, t, d), ((0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0))) for t in range(T) for d in range(D)]
    top = [((b, 0, d), ((0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0))) for b in range(B) for d in range(D)]
    side = [((b, t, D - 1), ((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))) for b in range(B) for t in range(T)]
    for cell, corners in (*front, *top, *side):
        shared = cells is not None and cells[cell]
        colour = PLAIN if not shared else CHANGED if cell == CELL else SHARED
        points = [corner(*(place + more for place, more in zip(cell, each, strict=True))) for each in corners]
        axes.add_patch(Polygon(points, facecolor=colour, edgecolor=EDGE, linewidth=0.7))
    if cells is None:
        axes.text(D / 2, -T - 0.25, "D features", ha="center", va="top", fontsize=8)
        axes.text(-0.25, -T / 2, "T tokens", ha="right", va="center", fontsize=8, rotation=90)
        axes.text(across * B / 2 - 0.25, up * B / 2 + 0.15, "B rows", ha="right", va="bottom", fontsize=8)
    axes.set(xlim=(-0.9, D + across * B + 0.1), ylim=(-T - 0.9, up * B + 0.2), aspect="equal")
    axes.set_axis_off()


def _draw_table(axes: Axes, x: np.ndarray, together: np.ndarray) -> None:
    """Draws numbers, [tokens, features], with mean, standard deviation and root mean square of each
    row and column; a statistic that is the same in all of them, 0 or 1, is bold.
    """
    tokens, features = x.shape
    for row in range(tokens):
        for column in range(features):
            colour = SHARED if together[row, column] else PLAIN
            axes.add_patch(Rectangle((column, -row - 1), 1, 1, facecolor=colour, edgecolor="white", linewidth=1))
            _write(axes, column + 0.5, -row - 0.5, x[row, column])
    statistics = {"mean": (np.mean, 0), "sd": (np.std, 1), "rms": (lambda y, axis: np.sqrt(np.mean(y * y, axis)), 1)}
    for place, (name, (statistic, aim)) in enumerate(statistics.items()):
        right, below = features + 0.65 + place, -tokens - 0.75 - 0.85 * place
        axes.text(right, 0.15, name, ha="center", va="bottom", fontsize=7, color=QUIET)
        axes.text(-0.15, below, name, ha="right", va="center", fontsize=7, color=QUIET)
        for axis in (0, 1):
            found = statistic(x, axis=axis)
            bold = bool(np.allclose(found, aim, atol=0.02))
            for number, value in enumerate(found):
                _write(axes, *((number + 0.5, below) if axis == 0 else (right, -number - 0.5)), value, QUIET, bold)
    axes.set(xlim=(-0.9, features + 3.2), ylim=(-tokens - 3.0, 0.9))
    axes.set_axis_off()


def _write(axes: Axes, x: float, y: float, value: float, colour: str = "black", bold: bool = False) -> None:
    # Rounding must not leave a negative zero.
    text = f"{round(float(value), 1) + 0.0:.1f}".replace("-", "−")
    look = {"color": "black", "weight": "bold"} if bold else {"color": colour}
    axes.text(x, y, text, ha="center", va="center", fontsize=7, **look)
