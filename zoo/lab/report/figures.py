"""The report's plots as PNG and SVG files, for papers and for pages without scripts."""

import io
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from zoo.files import write_atomic
from zoo.lab.metrics import lower_is_better
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.curves import COLOURS, arm_styles, loss_by_length, main_metrics, seed_band
from zoo.lab.results.floor_lines import FloorLine, floor_lines, floors_by_length
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import load_tuning_grid

LINE_STYLES = ("-", (0, (6, 3)), (0, (1, 2)), (0, (6, 2, 1, 2)), (0, (10, 3)), (0, (10, 2, 1, 2)))
FLOOR_LINE = {"color": "0.25", "linestyle": (0, (5, 3)), "linewidth": 1}
FLOOR_NAME = {"fontsize": 8, "color": "0.25"}
MAX_LABEL_LENGTH = 48
# Names are data: without this setting a "$" in a name would start a formula.
SETTINGS = {
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 10,
    # Without it, identifiers would change each time the same plot is written.
    "svg.hashsalt": "zoo",
}


def _label(text: str) -> str:
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"


def _legend(axes: Axes, sweep: SweepResults, look: dict[str, tuple[str, object]]) -> None:
    lines = [Line2D([], [], color=look[arm.name][0], linestyle=look[arm.name][1], linewidth=2) for arm in sweep.arms]
    legend = axes.legend(
        lines,
        [str(index) for index in range(len(lines))],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        borderaxespad=0,
        handlelength=3.6,
    )
    # Set afterwards, because Matplotlib leaves out labels that begin with "_".
    for text, arm in zip(legend.get_texts(), sweep.arms, strict=True):
        text.set_text(_label(arm.label))


def save(figure: Figure, path: Path) -> Path:
    """Writes a figure whose bytes depend on nothing but its content; returns the path."""
    kind = path.suffix[1:]
    nothing = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # Names in scripts that the default font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(buffer, format=kind, dpi=150, bbox_inches="tight", metadata=nothing)
    write_atomic(path, buffer.getvalue())
    return path


def _axes(x: str, y: str, height: float = 4.2) -> Axes:
    axes = Figure(figsize=(7.2, height)).add_subplot()
    axes.set(xlabel=x, ylabel=y)
    axes.grid(alpha=0.25)
    return axes


def _curves(sweep: SweepResults, look: dict[str, tuple[str, object]]) -> Axes | None:
    metrics = main_metrics(sweep)
    if not metrics:
        return None
    axes = _axes("updates", sweep.with_unit(metrics[0]))
    for arm in sweep.arms:
        colour, dash = look[arm.name]
        for run in sweep.runs_of(arm.name):
            series = run.series(metrics[0])
            axes.plot(series.step, series.value, color=colour, linewidth=0.8, alpha=0.4)
        found = seed_band(sweep, arm, metrics[0])
        if found is not None:
            axes.fill_between(found.step, found.low, found.high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(found.step, found.mean, color=colour, linestyle=dash, linewidth=1.8)
    if lower_is_better(metrics[0]):
        _cut(axes)
    draw_floors(axes, floor_lines(sweep, metrics[0]))
    return axes


def draw_floors(axes: Axes, lines: Sequence[FloorLine]) -> None:
    """Draws floors as labelled, dashed lines: the hardest always, others where the axis has them."""
    low, high = axes.get_ylim()
    margin = 0.04 * (high - low)
    for line in lines:
        if line.hardest:
            low, high = min(low, line.score - margin), max(high, line.score + margin)
    for line in lines:
        if low <= line.score <= high:
            axes.axhline(line.score, **FLOOR_LINE)
            place = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
            axes.annotate(line.name, (0, line.score), (3, 2), **place, **FLOOR_NAME)
    axes.set_ylim(low, high)


def _cut(axes: Axes) -> None:
    """Limits the axis to a little above the highest start if a run blew up far beyond it."""
    lines = [values for line in axes.get_lines() if len(values := line.get_ydata()) and np.isfinite(values).any()]
    if not lines:
        return
    low, high = min(map(np.nanmin, lines)), max(map(np.nanmax, lines))
    start = np.nanmax([values[0] for values in lines])
    if start > low and high > start + 1.5 * (start - low):
        axes.set_ylim(low - 0.06 * (start - low), start + 0.06 * (start - low))
        axes.text(
            0.99,
            0.98,
            "values far above the start are not shown",
            ha="right",
            va="top",
            fontsize=7,
            transform=axes.transAxes,
        )


def _lengths(sweep: SweepResults, look: dict[str, tuple[str, object]]) -> Axes | None:
    found = loss_by_length(sweep)
    if found is None:
        return None
    axes = _axes("evaluation length (tokens)", f"final {sweep.with_unit(found.metric)}")
    for arm in sweep.arms:
        measured = {length: value for length, value in found.values[arm.name].items() if value is not None}
        if not measured:
            continue
        means = [value.mean for value in measured.values()]
        bars = [
            [value.mean - value.low for value in measured.values()],
            [value.high - value.mean for value in measured.values()],
        ]
        axes.errorbar(
            list(measured),
            means,
            bars,
            color=look[arm.name][0],
            linestyle=look[arm.name][1],
            marker="o",
            markersize=4,
            capsize=2,
        )
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(found.lengths))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticklabels([str(length) for length in found.lengths])
    if found.trained:
        axes.axvline(found.trained, color="0.5", linestyle=":", linewidth=1)
    for name, scores in floors_by_length(sweep, found).items():
        axes.plot(list(scores), list(scores.values()), **FLOOR_LINE)
        axes.annotate(name, (min(scores), scores[min(scores)]), (3, 2), textcoords="offset points", **FLOOR_NAME)
    return axes


def _differences(sweep: SweepResults, look: dict[str, tuple[str, object]]) -> Axes | None:
    found = {name: difference for name, difference in baseline_differences(sweep).items() if difference.n}
    if not found:
        return None
    title = f"difference in final {sweep.with_unit(sweep.metric)}, from {_label(sweep.baseline_arm.label)}"
    axes = _axes(title, "", 0.9 + 0.45 * len(found))
    for row, (name, difference) in enumerate(found.items()):
        colour = look[name][0]
        points = list(difference.differences.values())
        axes.plot(points, [row] * len(points), "o", color=colour, alpha=0.4, markersize=5)
        axes.plot([difference.low, difference.high], [row, row], color=colour, linewidth=2)
        axes.plot([difference.mean], [row], "D", color=colour, markersize=7)
    axes.axvline(0, color="0.4", linestyle="--", linewidth=1)
    axes.set_yticks(range(len(found)), [_label(sweep.arm(name).label) for name in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    return axes


def _tuning(sweep: SweepResults, look: dict[str, tuple[str, object]]) -> Axes | None:
    found = load_tuning_grid(sweep.folder, sweep.tuning)
    if found is None:
        return None
    axes = _axes(found.field, sweep.with_unit(found.metric))
    for arm, points in found.arms.items():
        colour, dash = look.get(arm, look[sweep.arms[0].name])
        finite = [point for point in points if np.isfinite(point.mean)]
        curve = found.curves.get(arm)
        fitted = curve is not None and not curve.problem
        axes.plot(
            [point.value for point in finite],
            [point.mean for point in finite],
            color=colour,
            linestyle="none" if fitted else dash,
            marker="o",
            markersize=4,
        )
        best = [(point.value, point.mean) for point in finite if point.value == found.chosen.get(arm)]
        if fitted:
            x = np.geomspace(curve.values[0], curve.values[-1], 50)
            axes.plot(x, [found.fitted(arm, value) for value in x], color=colour, linestyle=dash)
            best = [(curve.minimum, found.fitted(arm, curve.minimum))]
        axes.plot(*np.array(best).reshape(-1, 2).T, "o", color=colour, markersize=9, fillstyle="none")
    if found.ticks[0] > 0:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_locator(FixedLocator(found.ticks))
    axes.set_xticklabels([f"{value:g}" for value in found.ticks])
    draw_floors(axes, floor_lines(sweep, found.metric))
    return axes


_PLOTS = {"loss_by_step": _curves, "loss_by_length": _lengths, "loss_by_rate": _tuning, "differences": _differences}


def draw_figures(sweep: SweepResults, names: Collection[str] = tuple(_PLOTS)) -> dict[str, Axes]:
    """Draws the plots that have data: loss_by_step, loss_by_length, loss_by_rate and differences.

    Args:
        sweep: whose runs are drawn.
        names: of the plots to draw.

    Returns:
        {name: the axes of a figure of its own}.
    """
    look = {
        name: (COLOURS[colour % len(COLOURS)], LINE_STYLES[dash % len(LINE_STYLES)])
        for name, (colour, dash) in arm_styles(sweep).items()
    }
    found = {}
    with rc_context(SETTINGS):
        for name, draw in _PLOTS.items():
            if name not in names:
                continue
            axes = draw(sweep, look)
            if axes is None:
                continue
            if draw is not _differences and len(sweep.arms) > 1:
                _legend(axes, sweep, look)
            found[name] = axes
    return found


def write_figures(
    sweep: SweepResults, folder: Path, names: Collection[str] = tuple(_PLOTS), kinds: Sequence[str] = ("png", "svg")
) -> list[Path]:
    """Writes plots of `draw_figures` into `folder`, in every kind of file, and returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    found = draw_figures(sweep, names)
    with rc_context(SETTINGS):
        return [save(axes.figure, folder / f"{name}.{kind}") for name, axes in found.items() for kind in kinds]
