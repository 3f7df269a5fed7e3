"""Attention maps of every head of a run, trained and at initial values side by side."""

from pathlib import Path

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from zoo.draw.run_activations import RunActivations, parse_indices
from zoo.draw.style import figure, save
from zoo.errors import ConfigError
from zoo.training.trained_run import INITIAL, TRAINED

COLUMNS = 4
# The colour follows the square root of a probability; otherwise 1 / 30, the average over 30
# tokens, would look white.
SCALE = PowerNorm(0.5, vmin=0, vmax=1)


def pages(activations: RunActivations, layers: str = "", heads: str = "") -> dict[str, Figure]:
    """Draws a page for each layer and kind of attention, and returns them by file name.

    Args:
        activations: from `zoo.draw.run_activations`.
        layers, heads: indices separated by commas; all if empty.

    Raises:
        ConfigError: the run computes no attention probabilities, or has no such layer or head.
    """
    found = {}
    for side, stack in activations.stacks[TRAINED].items():
        for part, maps in stack.probabilities.items():
            for layer in parse_indices(layers, len(maps), "layer"):
                if maps[layer] is None:
                    continue
                pair = {
                    name: activations.stacks[name][side].probabilities[part][layer][0] for name in (TRAINED, INITIAL)
                }
                keys = activations.labels["encoder" if part == "cross_attention" else side]
                title = " ".join(filter(None, (side, part.replace("_", "-"), f"layer {layer}")))
                name = "-".join(
                    filter(None, ("attention", side, "cross" if part == "cross_attention" else "", f"layer{layer}"))
                )
                indices = parse_indices(heads, len(pair[TRAINED]), "head")
                found[name] = _page(pair, activations.labels[side], keys, indices, title)
    if not found:
        raise ConfigError("no layer of this run computes attention probabilities")
    return found


def _page(pair: dict[str, np.ndarray], queries: list[str], keys: list[str], heads, title: str) -> Figure:
    """Draws two maps for every head, next to each other."""
    columns = min(COLUMNS, len(heads))
    rows = -(-len(heads) // columns)
    longest = max(map(len, (*queries, *keys)))
    side = max(1.6, 0.11 * max(len(queries), len(keys)))
    page, panels = figure(
        columns * 2 * side + 0.09 * longest + 1.0, rows * (side + 0.25) + 0.09 * longest + 0.5, rows, 2 * columns
    )
    names = len(keys) <= 60
    shown = None
    for panel, axes in enumerate(panels):
        row, place = divmod(panel, 2 * columns)
        number, which = row * columns + place // 2, (TRAINED, INITIAL)[place % 2]
        if number >= len(heads):
            axes.set_axis_off()
            continue
        shown = axes.imshow(pair[which][heads[number]], cmap="Blues", norm=SCALE, aspect="auto")
        axes.set_title(f"head {heads[number]}\n{which}", fontsize=7)
        below = (row + 1) * columns + place // 2 >= len(heads)
        axes.set_xticks(range(len(keys)), keys if names and below else [], rotation=90, fontsize=5, parse_math=False)
        axes.set_yticks(range(len(queries)), queries if names and place == 0 else [], fontsize=5, parse_math=False)
        axes.tick_params(length=0)
        for edge in axes.spines.values():
            edge.set_visible(True)
            edge.set_color("0.8")
    page.suptitle(f"{title}: rows are queries, columns are keys", fontsize=9)
    bar = page.colorbar(shown, ax=panels, shrink=0.6, pad=0.01, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=6)
    return page


def draw(activations: RunActivations, out: Path, formats, layers: str = "", heads: str = "") -> list[Path]:
    """Writes every page in every format, and returns the paths."""
    return [
        save(page, out / f"{name}.{kind}")
        for name, page in pages(activations, layers, heads).items()
        for kind in formats
    ]
