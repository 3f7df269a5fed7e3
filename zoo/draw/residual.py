"""How large the residual stream is, layer by layer, trained and at initial values."""

import numpy as np
from matplotlib.figure import Figure

from zoo.draw.run_activations import Read
from zoo.draw.style import COLOURS, figure
from zoo.training.trained_run import INITIAL, TRAINED


def sizes(states: np.ndarray) -> np.ndarray:
    """sqrt(mean of x^2) over tokens and dimensions of each state, [L + 1], from [L + 1, B, T, D]."""
    return np.sqrt(np.square(states.astype(np.float64)).mean(axis=(1, 2, 3)))


def page(read: Read) -> Figure:
    """A panel for each side."""
    sides = list(read.inside[TRAINED])
    drawn, panels = figure(0.8 + 4 * len(sides), 3.2, columns=len(sides))
    for axes, where in zip(panels, sides, strict=True):
        for colour, which in zip(COLOURS, (TRAINED, INITIAL), strict=False):
            values = sizes(read.inside[which][where].states)
            axes.plot(range(len(values)), values, "o-", color=colour, markersize=4, linewidth=1.3, label=which)
        axes.set_xticks(range(len(values)), ["input", *(str(layer) for layer in range(len(values) - 1))])
        axes.set(
            xlabel="after layer",
            ylabel="root mean square",
            title=" ".join(filter(None, (where, "residual stream"))),
            ylim=(0, None),
        )
        axes.grid(alpha=0.25)
    panels[-1].legend(frameon=False)
    return drawn
