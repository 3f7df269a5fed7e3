"""Forest plots of all archived contrasts: each difference with its interval.

Losses have a picture of their own, in two columns on one axis. Other metrics have a panel each in a
second picture.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from zoo.lab.metrics import base_name
from zoo.lab.report.figures import SETTINGS, save

LOSSES_FILE, OTHERS_FILE = "effects.png", "effects_of_other_metrics.png"
# The colour-blind safe blue, red and grey of the report; what decides nothing is lighter.
_COLOURS = {
    "holds": "#0072b2",
    "refuted": "#d55e00",
    "undecided": "#7f7f7f",
    "not tuned": "#bdbdbd",
    "not testable": "#dcdcdc",
}
_ALWAYS = ("holds", "refuted", "undecided")
# Differences up to this are drawn to scale, larger ones by their logarithm, so that one large
# effect does not squeeze the others.
_LINEAR = 0.1
_TICKS = (0, 0.02, 0.05, 0.1, 0.3, 1, 3, 10, 30, 100)
_ROW_INCHES, _HEAD_INCHES, _WIDTH_INCHES = 0.2, 0.85, 13
_COLUMNS = 2
# Fewer rows than this are not split.
_FEW = 8

_Row = tuple[str, Mapping[str, str]]


def write_forest_plots(contrasts: Sequence[_Row], folder: Path) -> list[Path]:
    """Draws a - b of every contrast with an interval; returns the files, none without contrasts.

    Args:
        contrasts: (label, row of contrasts.csv), from the top down.
        folder: where the pictures go.
    """
    by_metric: dict[str, list[_Row]] = {}
    for label, row in contrasts:
        if all(math.isfinite(float(row[name] or "nan")) for name in ("a - b", "low", "high")):
            by_metric.setdefault(base_name(row["metric a"]), []).append((label, row))
    losses = by_metric.pop("loss", [])
    written = []
    if losses:
        half = len(losses) if len(losses) < _FEW else -(-len(losses) // _COLUMNS)
        columns = [losses[:half], losses[half:]] if half < len(losses) else [losses]
        written.append(_draw([("loss", rows) for rows in columns], half, folder / LOSSES_FILE, shared=True))
    if by_metric:
        most = max(map(len, by_metric.values()))
        written.append(_draw(list(by_metric.items()), most, folder / OTHERS_FILE, shared=False))
    return written


def _draw(panels: Sequence[tuple[str, Sequence[_Row]]], most: int, path: Path, shared: bool) -> Path:
    """Draws panels of (metric, rows) from left to right and down, each line as high as its longest
    panel needs.

    Args:
        most: rows of the longest panel.
        shared: whether all panels have one range of differences.
    """
    lines = [panels[start : start + _COLUMNS] for start in range(0, len(panels), _COLUMNS)]
    inches = [max(len(rows) for _, rows in line) * _ROW_INCHES + _HEAD_INCHES for line in lines]
    columns = min(_COLUMNS, len(panels))
    with rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH_INCHES * columns / _COLUMNS, sum(inches)))
        every = figure.subplots(len(lines), columns, gridspec_kw={"height_ratios": inches}, squeeze=False)
        used = list(every.flat)[: len(panels)]
        for axes in list(every.flat)[len(panels) :]:
            axes.remove()
        for axes, (metric, rows) in zip(used, panels, strict=True):
            _draw_rows(axes, rows)
            axes.set_xlabel(f"{metric} of a minus that of b")
        if shared:
            low, high = (pick(axes.get_xlim()[side] for axes in used) for pick, side in ((min, 0), (max, 1)))
            for axes in used:
                axes.set_xlim(low, high)
                axes.set_ylim(most - 0.4, -0.6)
        for axes in used:
            _set_ticks(axes)
        present = {row["outcome"] for _, rows in panels for _, row in rows}
        colours = {name: colour for name, colour in _COLOURS.items() if name in present or name in _ALWAYS}
        handles = [used[0].plot([], [], "o-", color=colour, label=name)[0] for name, colour in colours.items()]
        figure.legend(handles=handles, loc="upper right", ncols=len(handles), frameon=False, fontsize=8)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.25 / sum(inches)))
        return save(figure, path)


def _draw_rows(axes: Axes, rows: Sequence[_Row]) -> None:
    axes.set_xscale("symlog", linthresh=_LINEAR, linscale=1.5)
    for place, (_, row) in enumerate(rows):
        mean, low, high = (float(row[name]) for name in ("a - b", "low", "high"))
        colour = _COLOURS.get(row["outcome"], "#7f7f7f")
        axes.plot([low, high], [place, place], color=colour, linewidth=1.6)
        axes.plot([mean], [place], "o", color=colour, markersize=4.5)
    axes.axvline(0, color="#000000", linewidth=0.8)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _set_ticks(axes: Axes) -> None:
    low, high = axes.get_xlim()
    shown = sorted({tick for size in _TICKS for tick in (-size, size) if low <= tick <= high})
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelsize=7)
    axes.grid(axis="x", alpha=0.25)
