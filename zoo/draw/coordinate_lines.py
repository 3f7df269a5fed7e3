"""Size of activations against width over the first updates, one row of panels for each config."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from zoo.analysis.coordinates import Coordinates
from zoo.draw.style import depth_colours, figure


def page(found: Sequence[Coordinates], titles: Sequence[str]) -> Figure:
    """Draws panels of the embedding, of the first and last layer and of the logits, on logarithmic
    scales; darker lines are later updates.
    """
    layers = [name for name in found[0].sizes if name.startswith("layer ")]
    names = list(dict.fromkeys(["embedding", layers[0], layers[-1], "logits"]))
    drawn, panels = figure(2.6 * len(names), 2.5 * len(found), len(found), len(names), sharex=True, sharey="col")
    for row, (one, title) in enumerate(zip(found, titles, strict=True)):
        for column, name in enumerate(names):
            axes, sizes = panels[row * len(names) + column], one.sizes[name]
            for update, (colour, values) in enumerate(zip(depth_colours(len(sizes)), sizes, strict=True)):
                axes.plot(one.widths, values, "o-", color=colour, markersize=3, linewidth=1.2, label=f"{update}")
            slope = one.slopes(len(sizes) - 1)[name]
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            low, high = _limits([other.sizes[name] for other in found])
            axes.set_ylim(low, high)
            axes.set_yticks(ticks := np.geomspace(low, high, 4)[1:-1], [f"{tick:.2g}" for tick in ticks])
            axes.set_xticks(one.widths, [str(width) for width in one.widths])
            axes.minorticks_off()
            axes.set_title(f"{name}, slope {slope:.2f}", fontsize=8)
            axes.grid(alpha=0.25)
        panels[row * len(names)].set_ylabel(title, fontsize=7, parse_math=False)
    for axes in panels[-len(names) :]:
        axes.set_xlabel("width D")
    panels[len(names) - 1].legend(frameon=False, fontsize=7, title="updates", title_fontsize=7)
    drawn.suptitle("root mean square of the residual stream, standard deviation of the logits", fontsize=8)
    return drawn


def _limits(sizes: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns the ends of an axis with all sizes, at least a factor of 4 apart, so that a flat line is
    seen to be flat.
    """
    low, high = min(map(np.min, sizes)), max(map(np.max, sizes))
    margin = max(1.1, 2 / (high / low) ** 0.5)
    return float(low / margin), float(high * margin)
