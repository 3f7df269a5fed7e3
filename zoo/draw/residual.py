"""Root mean square of the residual stream, layer by layer, trained and at initial values."""

import numpy as np
from matplotlib.figure import Figure

from zoo.draw.run_activations import RunActivations
from zoo.draw.style import COLOURS, figure
from zoo.training.trained_run import INITIAL, TRAINED


def rms_by_layer(states: np.ndarray) -> np.ndarray:
    """Returns sqrt(mean of x^2) over tokens and dimensions, [L + 1] from [L + 1, B, T, D]."""
    return np.sqrt(np.square(states.astype(np.float64)).mean(axis=(1, 2, 3)))


def page(activations: RunActivations) -> Figure:
    """Draws a panel for each side."""
    sides = list(activations.stacks[TRAINED])
    drawn, panels = figure(max(6, 0.8 + 4 * len(sides)), 3.6, columns=len(sides))
    for axes, where in zip(panels, sides, strict=True):
        for colour, which in zip(COLOURS, (TRAINED, INITIAL), strict=False):
            values = rms_by_layer(activations.stacks[which][where].states)
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
    drawn.suptitle(activations.source, fontsize=8, parse_math=False)
    return drawn
