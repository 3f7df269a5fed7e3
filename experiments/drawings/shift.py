"""The input of each layer at every checkpoint of runs, and its shift between checkpoints.

    zoo draw shift runs/layernorm runs/rmsnorm

This is the internal covariate shift of Ioffe & Szegedy 2015, which normalisation is said to reduce.
"""

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from zoo import plugin
from zoo.analysis.activations import encode_texts, record_activations
from zoo.draw.run_activations import default_text
from zoo.draw.style import depth_colours, figure
from zoo.errors import ConfigError
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.trained_run import INITIAL, TrainedRun, load_trained, trained_and_initial

PERCENTILES = (15, 50, 85)
"""Percentiles of Ioffe & Szegedy 2015, figure 1."""
MAX_TOKENS = 128


class InputShift(NamedTuple):
    """Distribution of each layer's input on one text, checkpoint by checkpoint.

    Attributes:
        name: the run.
        steps: [C], the updates of the checkpoints, with 0 for the initial values.
        percentiles: [C, L, 3], `PERCENTILES` of all values that enter a layer.
        shifts: [C - 1, L], from one checkpoint to the next (`mean_shift`).
    """

    name: str
    steps: np.ndarray
    percentiles: Float[np.ndarray, "C L 3"]
    shifts: Float[np.ndarray, "C-1 L"]


def mean_shift(before: Float[np.ndarray, "T D"], after: Float[np.ndarray, "T D"]) -> float:
    """Returns the mean over dimensions of |mean_after - mean_before| / deviation_before, over tokens:
    by how many deviations the mean of a dimension has moved.
    """
    deviations = before.std(axis=0)
    moved = np.abs(after.mean(axis=0) - before.mean(axis=0))
    return float((moved / np.maximum(deviations, 1e-12)).mean())


def read_shift(folder: Path, text: str = "") -> InputShift:
    """Reads a text with every checkpoint of a run, and with its initial values.

    What enters a layer is the residual stream before it: before the norm of a pre-norm layer, after
    that of the layer before it under post-norm.

    Raises:
        ConfigError: there is no such run, or it has no residual stream.
    """
    run = load_trained(folder)
    if run.config.model.architecture not in ("decoder", "encoder"):
        raise ConfigError(f"{folder}: zoo draw shift reads decoders and encoders, not {run.config.model.architecture}")
    rows = encode_texts([text or default_text(8)], run.tokenizer, run.frame).tokens
    rows = rows[:, : min(MAX_TOKENS, run.config.data.sequence_length)]
    initial, stats = trained_and_initial(run)[INITIAL]
    runs = [replace(run, step=0, params=initial, stats=stats), *_checkpoints(folder, run)]
    states = [_states(one, rows) for one in runs]
    return InputShift(
        folder.name,
        np.array([one.step for one in runs]),
        np.array([np.percentile(each, PERCENTILES, axis=(1, 2)).T for each in states]),
        np.array(
            [
                [mean_shift(old, new) for old, new in zip(before, after, strict=True)]
                for before, after in itertools.pairwise(states)
            ]
        ),
    )


def _checkpoints(folder: Path, run: TrainedRun) -> list[TrainedRun]:
    steps = Checkpoints(folder / "checkpoints", 1, read_only=True).steps()
    found = []
    for step in steps:
        weights, number = read_weights(folder, run.program.abstract_state, str(step))
        found.append(replace(run, step=number, params=weights["params"], stats=weights["stats"]))
    return found


def _states(run: TrainedRun, rows: np.ndarray) -> Float[np.ndarray, "L T D"]:
    """Returns what enters each layer."""
    recorded = record_activations(run.config, run.model, run.params, run.stats, rows, maps=False)
    return np.asarray(recorded[""].states, np.float64)[:-1, 0]


def page(found: Sequence[InputShift]) -> Figure:
    """Draws two panels for each run: percentiles of a middle layer's input, and the shift of every
    layer's input.
    """
    drawn, panels = figure(9.6, 0.4 + 3.2 * len(found), len(found), 2)
    for number, shift in enumerate(found):
        left, right = panels[2 * number : 2 * number + 2]
        layers = shift.percentiles.shape[1]
        middle = layers // 2
        low, median, high = shift.percentiles[:, middle].T
        left.fill_between(shift.steps, low, high, alpha=0.25, linewidth=0)
        left.plot(shift.steps, median, "o-", markersize=3, linewidth=1.3)
        left.set(xlabel="update", ylabel="value")
        names = ", ".join(map(str, PERCENTILES))
        left.set_title(f"{shift.name}: input of layer {middle}, percentiles {names}", parse_math=False)
        for layer, colour in enumerate(depth_colours(layers)):
            right.plot(
                shift.steps[1:], shift.shifts[:, layer], "o-", color=colour, markersize=3, label=f"layer {layer}"
            )
        right.set(xlabel="update", ylabel="deviations", ylim=(0, None))
        right.set_title("shift of the mean since the checkpoint before")
        for axes in (left, right):
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(alpha=0.25)
        right.legend(frameon=False, fontsize=7, ncols=1 + (layers > 8))
    return drawn


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    parser.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="folders of runs, drawn one below the other")
    parser.add_argument(
        "--text", default="", metavar="TEXT", help="text that the run reads (default: built-in sentences)"
    )


def draw(args: argparse.Namespace) -> Figure:
    """Returns the figure."""
    return page([read_shift(folder, args.text) for folder in args.runs])


plugin.register_drawing(
    "shift",
    plugin.Drawing(
        "the input of each layer at every checkpoint of runs, and its shift between checkpoints", draw, add_options
    ),
)
