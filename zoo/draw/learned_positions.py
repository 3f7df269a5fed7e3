"""Cosine similarity of a run's learned position vectors, by their distance."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from zoo.analysis.position_similarity import cosines_of_run, mean_by_distance
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError
from zoo.training.trained_run import INITIAL, TRAINED, load_trained


def load_cosines(folder: Path, length: int = 0, step: str = "latest") -> dict[str, dict[str, np.ndarray]]:
    """Returns {side: {TRAINED or INITIAL: cosines}} of the first `length` positions (0: all).

    Raises:
        ConfigError: the run's positions are not learned.
    """
    try:
        return cosines_of_run(load_trained(folder, step), length)
    except ConfigError as error:
        raise ConfigError([f"{folder}: {problem}" for problem in error.problems]) from error


def page(found: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Draws a row for each side: all pairs, trained and initial, and the means by distance."""
    drawn, panels = figure(9.6, 3 * len(found), len(found), 3)
    for number, (where, pair) in enumerate(found.items()):
        *maps, lines = panels[3 * number : 3 * number + 3]
        for axes, (which, similar) in zip(maps, pair.items(), strict=True):
            shown = axes.imshow(similar, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
            axes.set(xlabel="position", ylabel="position", title=" ".join(filter(None, (where, f"cosines, {which}"))))
        drawn.colorbar(shown, ax=maps, pad=0.01, shrink=0.8).outline.set_visible(False)
        for colour, which in zip(COLOURS, (TRAINED, INITIAL), strict=False):
            lines.plot(mean_by_distance(pair[which]), color=colour, linewidth=1.3, label=which)
        lines.set(xlabel="distance", title="mean cosine by distance")
        lines.grid(alpha=0.25)
        lines.legend(frameon=False)
    return drawn
