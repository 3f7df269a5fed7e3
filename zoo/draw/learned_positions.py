"""A run's learned positions: how alike the vectors of two positions are, by their distance."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from zoo.config import side
from zoo.draw.reading import INITIAL, TRAINED, values_of
from zoo.draw.style import COLOURS, figure
from zoo.errors import ConfigError
from zoo.training.restore import load_trained


def cosines(table: np.ndarray) -> np.ndarray:
    """Of every two rows, [P, P]."""
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-30)
    return unit @ unit.T


def by_distance(similar: np.ndarray) -> np.ndarray:
    """Mean over pairs of positions that are so far apart, [P]."""
    return np.array([np.diagonal(similar, distance).mean() for distance in range(len(similar))])


def of_run(folder: Path, length: int = 0, step: str = "latest") -> dict[str, dict[str, np.ndarray]]:
    """{side: {TRAINED or INITIAL: cosines}} of the first `length` positions; of all for 0.

    Raises:
        ConfigError: positions are not learned.
    """
    run = load_trained(folder, step)
    model, found = run.config.model, {}
    for where in ("encoder", "decoder") if model.architecture == "encoder_decoder" else ("",):
        config = side(model, where) if where else model
        if config.position.kind != "learned" or model.architecture == "elmo":
            continue
        for which, (params, _) in values_of(run).items():
            table = np.asarray((params[where] if where else params)["position"]["table"], np.float64)[config.position.offset :]
            found.setdefault(where, {})[which] = cosines(table[: length or None])
    if not found:
        raise ConfigError(f"{folder}: model.position.kind={model.position.kind}, and there is no table of learned positions")
    return found


def page(found: dict[str, dict[str, np.ndarray]]) -> Figure:
    """A row for each side: every two positions, trained and initial, and the mean by distance."""
    drawn, panels = figure(9.6, 3 * len(found), len(found), 3)
    for number, (where, pair) in enumerate(found.items()):
        *maps, lines = panels[3 * number : 3 * number + 3]
        for axes, (which, similar) in zip(maps, pair.items(), strict=True):
            shown = axes.imshow(similar, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
            axes.set(xlabel="position", ylabel="position", title=" ".join(filter(None, (where, f"cosines, {which}"))))
        drawn.colorbar(shown, ax=maps, pad=0.01, shrink=0.8).outline.set_visible(False)
        for colour, which in zip(COLOURS, (TRAINED, INITIAL), strict=False):
            lines.plot(by_distance(pair[which]), color=colour, linewidth=1.3, label=which)
        lines.set(xlabel="distance", title="mean cosine by distance")
        lines.grid(alpha=0.25)
        lines.legend(frameon=False)
    return drawn
