"""The nearest tokens in the input table of a run.

    zoo draw neighbours runs/first --text "def import" --count 4

Cosines in the input table do not depend on a sentence; `contextuality.py` has those of the layers
above, which do.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from zoo import plugin
from zoo.analysis.activations import encode_texts, input_vectors
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.draw.run_activations import default_text
from zoo.draw.style import figure
from zoo.errors import ConfigError
from zoo.training.trained_run import load_trained

MAX_ROWS = 14


class Neighbours(NamedTuple):
    """The nearest tokens of some tokens.

    Attributes:
        tokens: the texts of the tokens.
        nearest: for each, (text, cosine) from the nearest on.
        source: the run and its step.
    """

    tokens: list[str]
    nearest: list[list[tuple[str, float]]]
    source: str


def nearest(vectors: Float[np.ndarray, "V E"], number: int, count: int, allowed: np.ndarray) -> list[tuple[int, float]]:
    """Returns (row, cosine) of the `count` allowed rows whose vectors have the largest cosine with
    that of a row, without itself.
    """
    lengths = np.maximum(np.linalg.norm(vectors, axis=1), 1e-12)
    cosines = vectors @ vectors[number] / (lengths * lengths[number])
    candidates = allowed[allowed != number]
    best = candidates[np.argsort(-cosines[candidates], kind="stable")[:count]]
    return [(int(row), float(cosines[row])) for row in best]


def read_neighbours(folder: Path, text: str = "", count: int = 6, step: str = "latest") -> Neighbours:
    """Returns the nearest tokens of the different tokens of a text in a run's input table.

    Args:
        folder: the run's folder.
        text: its first `MAX_ROWS` different tokens are looked up; "" for built-in sentences.
        count: number of neighbours.
        step: as for `load_trained`.

    Raises:
        ConfigError: there is no such run.
    """
    run = load_trained(folder, step)
    if run.source_tokenizer is not None:
        raise ConfigError(f"{folder} reads the tokens of a fixed dictionary, into which text cannot be split here")
    tokenizer = run.tokenizer
    elmo = run.config.model.architecture == "elmo"
    spellings = tokenizer.token_characters(run.config.model.elmo.characters) if elmo else None
    everything = np.arange(tokenizer.vocab_size)
    vectors = input_vectors(run.config, run.model, run.params, run.stats, everything, spellings)
    allowed = np.array([number for number in everything if tokenizer.pieces[number].strip()])
    ids = encode_texts([text or default_text(8)], tokenizer, TextFrame()).tokens[0]
    wanted = [int(number) for number in dict.fromkeys(ids.tolist()) if number in set(allowed.tolist())][:MAX_ROWS]
    if not wanted:
        raise ConfigError("--text has no token that can be shown: it is empty or white space")
    return Neighbours(
        [_name(tokenizer, number) for number in wanted],
        [
            [(_name(tokenizer, row), cosine) for row, cosine in nearest(vectors, number, count, allowed)]
            for number in wanted
        ],
        f"{folder}, step {run.step:,}",
    )


def _name(tokenizer, number: int) -> str:
    return tokenizer.pieces[number].decode("utf-8", "replace").strip()


def page(found: Neighbours) -> Figure:
    """Draws a row for each token with its neighbours, coloured by cosine."""
    columns: Sequence[int] = range(len(found.nearest[0]))
    cosines = np.array([[cosine for _, cosine in row] for row in found.nearest])
    drawn, (axes,) = figure(2.2 + 1.25 * len(columns), 1.0 + 0.32 * len(found.tokens))
    shown = axes.imshow(cosines, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for row, neighbours in enumerate(found.nearest):
        for column, (name, cosine) in enumerate(neighbours):
            colour = "white" if cosine > 0.6 else "black"
            axes.text(
                column,
                row,
                f"{name}  {cosine:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color=colour,
                parse_math=False,
            )
    axes.set_yticks(range(len(found.tokens)), found.tokens, parse_math=False)
    axes.set_xticks(columns, [f"nearest {column + 1}" if not column else str(column + 1) for column in columns])
    axes.set_title("nearest tokens in the input table, with cosines")
    for edge in axes.spines.values():
        edge.set_visible(False)
    bar = drawn.colorbar(shown, ax=axes, pad=0.01)
    bar.outline.set_visible(False)
    drawn.suptitle(found.source, fontsize=8, parse_math=False)
    return drawn


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the figure."""
    parser.add_argument("run", metavar="RUN", type=Path, help="a run's folder")
    parser.add_argument("--count", type=int, default=6, metavar="N", help="neighbours (default: 6)")
    parser.add_argument(
        "--text", default="", metavar="TEXT", help="text that the run reads (default: built-in sentences)"
    )
    parser.add_argument("--step", default="latest", help="checkpoint: latest, best, or a step (default: %(default)s)")


def draw(args: argparse.Namespace) -> Figure:
    """Returns the figure."""
    if args.count < 1:
        raise ConfigError(f"--count {args.count} must be at least 1")
    return page(read_neighbours(args.run, args.text, args.count, args.step))


plugin.register_drawing(
    "neighbours", plugin.Drawing("the nearest tokens in the input table of a run", draw, add_options)
)
