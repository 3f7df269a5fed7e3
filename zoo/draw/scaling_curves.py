"""Losses against compute: the runs of each arm, the curve of its law, and the band of its interval."""

import numpy as np
from matplotlib.figure import Figure

from zoo.draw.style import COLOURS, figure
from zoo.lab.results.ladder import sized_losses
from zoo.lab.results.scaling import Scaling, fitted_curve

POINTS = 24


def page(scaling: Scaling) -> Figure:
    """Draws a panel with the losses, and one with the differences from the baseline where there are
    other arms.
    """
    ladder, others = scaling.ladder, scaling.arms[1:]
    drawn, panels = figure(9.6 if others else 5.2, 3.8, columns=2 if others else 1)
    baseline = sized_losses(ladder.of(ladder.baseline))
    ends = min(baseline.compute[0], scaling.target), max(baseline.compute[-1], scaling.target)
    computes = np.geomspace(ends[0] / 1.2, ends[1] * 1.2, POINTS)
    for place, arm in enumerate(scaling.arms):
        colour = COLOURS[place % len(COLOURS)]
        for one in ladder.of(arm.name):
            panels[0].plot([one.compute] * len(one.losses), list(one.losses.values()), ".", color=colour, markersize=4)
        found = fitted_curve(arm, computes)
        panels[0].plot(
            computes if found else [], [each.value for each in found], color=colour, linewidth=1.3, label=arm.label
        )
        if found and found[0].known:
            bounds = [each.low for each in found], [each.high for each in found]
            panels[0].fill_between(computes, *bounds, color=colour, alpha=0.15, linewidth=0)
    panels[0].set(ylabel=ladder.metric + (f",{ladder.unit}" if ladder.unit else ""), title="loss")
    panels[0].legend(frameon=False, fontsize=7)
    for place, arm in enumerate(others, start=1):
        colour, pairs = COLOURS[place % len(COLOURS)], ladder.shared(arm.name)
        for one, base in pairs:
            found = [one.losses[seed] - base.losses[seed] for seed in sorted(one.losses.keys() & base.losses.keys())]
            panels[1].plot([base.compute] * len(found), found, ".", color=colour, markersize=4)
        if arm.slope is not None:
            panels[1].plot(computes, _line(pairs, arm.slope.slope.value, computes), color=colour, linewidth=1.3)
    if others:
        panels[1].axhline(0, color="0.6", linewidth=0.8)
        panels[1].set(title=f"difference from {scaling.arms[0].label}")
    for axes in panels:
        axes.axvline(scaling.target, color="0.6", linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e+", "e"))
        axes.xaxis.set_minor_formatter("")
        axes.set_xlabel("training compute, operations")
        axes.grid(alpha=0.25)
    return drawn


def _line(pairs, slope: float, computes: np.ndarray) -> np.ndarray:
    """Returns the line with this slope through the means of the differences."""
    one, base = (sized_losses([pair[side] for pair in pairs]) for side in (0, 1))
    differences = one.minus(base)
    x = np.log10(differences.compute)
    return differences.means.mean() + slope * (np.log10(computes) - x.mean())
