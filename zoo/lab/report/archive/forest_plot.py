"""A forest plot of all archived contrasts: each difference with its interval, one panel a metric."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from zoo.lab.metrics import base_name
from zoo.lab.report.figures import SETTINGS, save

FOREST_FILE = "effects.png"
# The colour-blind safe blue, red and grey of the report.
_COLOURS = {"holds": "#0072b2", "refuted": "#d55e00", "undecided": "#7f7f7f"}
# Differences up to this are drawn to scale, larger ones by their logarithm, so that one large
# effect does not squeeze the others.
_LINEAR = 0.1
_TICKS = (0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
_ROW_INCHES, _HEAD_INCHES = 0.24, 0.9


def write_forest_plot(contrasts: Sequence[tuple[str, Mapping[str, str]]], folder: Path) -> Path | None:
    """Draws a - b of every contrast; returns the file, or None without contrasts.

    Args:
        contrasts: (label, row of contrasts.csv), from the top down.
        folder: where the picture goes.
    """
    panels: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for label, row in contrasts:
        if row["a - b"] and row["low"]:
            panels.setdefault(base_name(row["metric a"]), []).append((label, row))
    if not panels:
        return None
    rows = sum(map(len, panels.values()))
    with rc_context(SETTINGS):
        figure = Figure(figsize=(9, rows * _ROW_INCHES + len(panels) * _HEAD_INCHES))
        sizes = [len(members) * _ROW_INCHES + _HEAD_INCHES for members in panels.values()]
        every = figure.subplots(len(panels), 1, gridspec_kw={"height_ratios": sizes}, squeeze=False)[:, 0]
        for axes, (metric, members) in zip(every, panels.items(), strict=True):
            axes.set_xscale("symlog", linthresh=_LINEAR, linscale=1.5)
            for place, (_, row) in enumerate(members):
                mean, low, high = (float(row[name]) for name in ("a - b", "low", "high"))
                colour = _COLOURS.get(row["outcome"], "#7f7f7f")
                axes.plot([low, high], [place, place], color=colour, linewidth=1.6)
                axes.plot([mean], [place], "o", color=colour, markersize=4.5)
            axes.axvline(0, color="#000000", linewidth=0.8)
            axes.set_yticks(range(len(members)), [label for label, _ in members], fontsize=7.5)
            axes.set_ylim(len(members) - 0.4, -0.6)
            low, high = axes.get_xlim()
            shown = sorted({tick for size in _TICKS for tick in (-size, size) if low <= tick <= high})
            axes.xaxis.set_major_locator(FixedLocator(shown))
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.xaxis.set_minor_locator(NullLocator())
            axes.grid(axis="x", alpha=0.25)
            axes.set_xlabel(f"{metric} of a minus that of b")
        handles = [figure.axes[0].plot([], [], "o-", color=colour, label=name)[0] for name, colour in _COLOURS.items()]
        figure.axes[0].legend(
            handles=handles, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(handles), frameon=False, fontsize=8
        )
        figure.tight_layout()
        return save(figure, folder / FOREST_FILE)
