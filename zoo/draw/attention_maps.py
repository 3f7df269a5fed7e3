"""Attention maps of every head of a run, as a grid; on request those at initial values too."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from zoo.draw.run_activations import RunActivations, parse_indices
from zoo.draw.style import PRINT_DPI, figure, save
from zoo.errors import ConfigError
from zoo.training.trained_run import INITIAL, TRAINED

CELL, LETTER, MAP = 0.1, 0.066, 1.5
"""Sizes in inches: of a token in a map, of a letter of its label, and the least of a map."""
MAX_LABELS = 100
"""Tokens from which on the labels are left out."""
# The colour follows the square root of a probability; otherwise 1 / 30, the average over 30
# tokens, would look white.
SCALE = PowerNorm(0.5, vmin=0, vmax=1)


class LayerMaps(NamedTuple):
    """The maps of a layer.

    Attributes:
        name: end of a file's name.
        title: which layer.
        queries, keys: labels of the tokens.
        maps: [H, T, S] by `TRAINED` and `INITIAL`.
        heads: the heads to draw.
    """

    name: str
    title: str
    queries: list[str]
    keys: list[str]
    maps: dict[str, np.ndarray]
    heads: list[int]


def layer_maps(activations: RunActivations, layers: str = "", heads: str = "") -> Iterator[LayerMaps]:
    """Yields the maps of each layer and kind of attention.

    Args:
        activations: from `zoo.draw.run_activations`.
        layers, heads: indices separated by commas; all if empty.

    Raises:
        ConfigError: the run computes no attention probabilities, or has no such layer or head.
    """
    computed = False
    for where, stack in activations.stacks[TRAINED].items():
        for part, maps in stack.probabilities.items():
            cross = part == "cross_attention"
            for layer in parse_indices(layers, len(maps), "layer"):
                if maps[layer] is None:
                    continue
                computed = True
                pair = {
                    name: activations.stacks[name][where].probabilities[part][layer][0] for name in (TRAINED, INITIAL)
                }
                keys = activations.labels["encoder" if cross else where]
                title = " ".join(filter(None, (where, part.replace("_", "-"), f"layer {layer}")))
                name = "-".join(filter(None, (where, "cross" if cross else "", f"layer{layer}")))
                chosen = list(parse_indices(heads, len(pair[TRAINED]), "head"))
                yield LayerMaps(name, title, activations.labels[where], keys, pair, chosen)
    if not computed:
        raise ConfigError("no layer of this run computes attention probabilities")


def pages(activations: RunActivations, layers: str = "", heads: str = "", initial: bool = False) -> dict[str, Figure]:
    """Draws a page for each layer and kind of attention, and returns them by file name.

    Args:
        activations, layers, heads: as for `layer_maps`, with its errors.
        initial: draw the map at initial values next to each head's.
    """
    which = (TRAINED, INITIAL) if initial else (TRAINED,)
    return {
        f"attention-{each.name}": _page(each, activations.source, which)
        for each in layer_maps(activations, layers, heads)
    }


def _columns(heads: int, maps: int) -> int:
    """Returns a number of heads side by side for a page that is about square, with so many maps for
    each head and full rows if possible.
    """
    least = math.ceil((heads / maps) ** 0.5)
    return next((count for count in range(least, 2 * least) if heads % count == 0), least)


def _label_keys(axes: Axes, labels: list[str]) -> None:
    """Labels the keys: words from below upwards, single characters upright."""
    axes.set_xticks(range(len(labels)), labels, fontsize=6.5, parse_math=False)
    for label in axes.get_xticklabels():
        label.set_rotation(90 if len(label.get_text()) > 1 else 0)


def _page(found: LayerMaps, source: str, drawn: tuple[str, ...]) -> Figure:
    """Draws the maps of every head, those of one head next to each other."""
    named = max(len(found.queries), len(found.keys)) <= MAX_LABELS
    label = LETTER * max(map(len, (*found.queries, *found.keys))) if named else 0.2
    cell = CELL if named else 0.03
    width, height = (max(MAP, cell * len(labels)) for labels in (found.keys, found.queries))
    columns = _columns(len(found.heads), len(drawn))
    rows = -(-len(found.heads) // columns)
    page, panels = figure(
        columns * len(drawn) * (width + 0.08) + label + 1.0,
        rows * (height + 0.42) + label + 0.8,
        rows,
        len(drawn) * columns,
    )
    shown = None
    for panel, axes in enumerate(panels):
        row, place = divmod(panel, len(drawn) * columns)
        number, which = row * columns + place // len(drawn), drawn[place % len(drawn)]
        if number >= len(found.heads):
            axes.set_axis_off()
            continue
        head = found.heads[number]
        shown = axes.imshow(found.maps[which][head], cmap="Blues", norm=SCALE, aspect="auto", interpolation="nearest")
        axes.set_title(f"head {head}" + (f"\n{which}" if len(drawn) > 1 else ""), fontsize=8)
        below = (row + 1) * columns + place // len(drawn) >= len(found.heads)
        bottom, left = found.keys if named and below else [], found.queries if named and place == 0 else []
        _label_keys(axes, bottom)
        axes.set_yticks(range(len(left)), left, fontsize=6.5, parse_math=False)
        axes.tick_params(length=0)
        for edge in axes.spines.values():
            edge.set_visible(True)
            edge.set_color("0.8")
    title = f"{source}\n{found.title}: rows are queries, columns are keys".strip()
    page.suptitle(title, fontsize=9, parse_math=False)
    bar = page.colorbar(shown, ax=panels, shrink=min(0.8, 3 / page.get_figheight()), pad=0.01, aspect=25, fraction=0.03)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=6)
    return page


def draw(
    activations: RunActivations, out: Path, formats, layers: str = "", heads: str = "", initial: bool = False
) -> list[Path]:
    """Writes every page in every format, and returns the paths; arguments are those of `pages`."""
    return [
        save(page, out / f"{name}.{kind}", PRINT_DPI)
        for name, page in pages(activations, layers, heads, initial).items()
        for kind in formats
    ]
