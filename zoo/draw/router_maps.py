"""The experts that each token of a text takes, layer by layer, and how far two runs agree in them."""

import math
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from zoo.analysis.expert_agreement import Agreement, agreement
from zoo.draw.run_activations import RunActivations, read_text
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError, shown
from zoo.training.trained_run import TRAINED

MAX_TOKENS, MAX_TOKENS_COMPARED = 64, 2048
MAX_LINES = 4
"""Lines of a cell; more experts than that share lines."""
Gates = dict[str, np.ndarray]
"""{label of a layer, e.g. "layer 0": [T, E], weights of experts; 0 for those that are not taken}."""


def gates_by_layer(found: RunActivations, folder: Path) -> dict[str, Gates]:
    """Returns the gates of each side that has layers with experts.

    Raises:
        ConfigError: no layer has experts that tokens choose.
    """
    sides = {
        side: {f"layer {layer}": gates[0] for layer, gates in enumerate(stack.experts) if gates is not None}
        for side, stack in found.stacks[TRAINED].items()
    }
    if not any(sides.values()):
        raise ConfigError(f"{folder} has no experts that tokens choose; draw a run with model.ffn.kind=moe")
    return {side: gates for side, gates in sides.items() if gates}


def map_page(folder: Path, text: str, step: str) -> Figure:
    """Draws layers by tokens: the numbers of the experts of a token, the one with the largest weight
    first, and its colour.
    """
    found = read_text(folder, text, step=step, max_tokens=MAX_TOKENS)
    sides = gates_by_layer(found, folder)
    tokens = max(len(found.labels[side]) for side in sides)
    height = sum(0.9 + 0.3 * len(gates) for gates in sides.values())
    page, panels = figure(max(5, 1 + 0.36 * tokens), 0.7 + height, rows=len(sides))
    for axes, (side, gates) in zip(panels, sides.items(), strict=True):
        most = max(each.shape[1] for each in gates.values())
        grid = np.stack([each.argmax(axis=1) for each in gates.values()])
        colours = matplotlib.colormaps["tab20" if most <= 20 else "nipy_spectral"]
        shown = {"cmap": colours, "vmin": 0, "vmax": max(most, 20) - 1, "alpha": 0.6}
        axes.imshow(grid, aspect="auto", interpolation="nearest", **shown)
        for row, each in enumerate(gates.values()):
            for column, weights in enumerate(each):
                taken = [str(expert) for expert in np.argsort(-weights, kind="stable") if weights[expert] > 0]
                axes.text(column, row, _in_lines(taken), ha="center", va="center", fontsize=5.5)
        axes.set_xticks(range(grid.shape[1]), found.labels[side], rotation=90, fontsize=7, parse_math=False)
        axes.set_yticks(range(len(gates)), list(gates))
        axes.set_title(" ".join(filter(None, (side, "experts of each token"))))
    page.suptitle(found.source, fontsize=8, parse_math=False)
    return page


def _in_lines(numbers: list[str]) -> str:
    """Returns numbers in at most `MAX_LINES` lines."""
    width = max(1, math.ceil(len(numbers) / MAX_LINES))
    return "\n".join(" ".join(numbers[begin : begin + width]) for begin in range(0, len(numbers), width))


def agreements(one: Gates, other: Gates) -> dict[str, Agreement]:
    """Returns the agreement of each layer.

    Raises:
        ConfigError: the layers, their experts, the tokens or their numbers of experts differ.
    """
    shapes = [{layer: gates.shape for layer, gates in each.items()} for each in (one, other)]
    if shapes[0] != shapes[1]:
        raise ConfigError(
            "the two runs have other layers with experts, or other numbers of experts or tokens; compare runs of one "
            "config with different seeds"
        )
    if any((one[layer] > 0).sum() != (other[layer] > 0).sum() for layer in one):
        raise ConfigError("the two runs send tokens to other numbers of experts; compare runs of one config")
    return {layer: agreement(one[layer] > 0, other[layer] > 0) for layer in one}


def agreement_page(folders: tuple[Path, Path], text: str, step: str) -> Figure:
    """Draws the agreement of two runs by layer, beside that of shuffled tokens."""
    read = [read_text(each, text, step=step, max_tokens=MAX_TOKENS_COMPARED, sentences=8) for each in folders]
    sides = [gates_by_layer(found, folder) for found, folder in zip(read, folders, strict=True)]
    if read[0].labels != read[1].labels or sides[0].keys() != sides[1].keys():
        raise ConfigError(
            f"{folders[1]} reads the text in other tokens than {folders[0]}; compare runs with one tokenizer"
        )
    # A decoder without a target reads one token, whose experts can be named alike in any two runs.
    sides = [{side: gates for side, gates in each.items() if len(read[0].labels[side]) > 1} for each in sides]
    if not sides[0]:
        raise ConfigError(f"--text {shown(text)} is one token, in which any two runs agree; compare a longer text")
    page, panels = figure(5.2, 0.6 + 2.8 * len(sides[0]), rows=len(sides[0]))
    for axes, (side, gates) in zip(panels, sides[0].items(), strict=True):
        found = agreements(gates, sides[1][side])
        for colour, name, label in (
            (COLOURS[0], "share", "the two runs"),
            (COLOURS[1], "by_chance", "shuffled tokens"),
        ):
            axes.plot([getattr(each, name) for each in found.values()], "o-", color=colour, markersize=4, label=label)
        axes.set_xticks(range(len(found)), list(found))
        title = " ".join(filter(None, (side, "agreement of routing")))
        axes.set(ylim=(0, 1), ylabel="share of assignments", title=title)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False, fontsize=7)
    tokens = len(read[0].labels[next(iter(sides[0]))])
    page.suptitle(f"{folders[0]} and {folders[1]}, {tokens} tokens", fontsize=8, parse_math=False)
    return page
