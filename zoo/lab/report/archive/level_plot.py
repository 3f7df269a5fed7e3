"""Plot of the final metric against a numeric factor, a line per combination of the others."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from zoo.lab.report.figures import LINE_STYLES, SETTINGS, draw_floors, save
from zoo.lab.results.curves import COLOURS
from zoo.lab.results.floor_lines import FloorLine, as_lines

FEWEST_VALUES = 3
# From this ratio of the largest value to the smallest, values lie on a logarithmic axis.
LOGARITHMIC_FROM = 4
MOST_TICKS = 10


class LevelCurves(NamedTuple):
    """The arms that differ in one numeric field.

    Attributes:
        field: its path.
        lines: the name of an arm by the value of the field, by what else its arms set.
        unlimited: the name of the level of value 0 where it is a word, such as "all": many fields are
            limits that 0 turns off. It is drawn beyond the largest value. None where 0 is a number.
    """

    field: str
    lines: dict[str, dict[float, str]]
    unlimited: str | None = None


def level_curves(result: Mapping[str, Any]) -> list[LevelCurves]:
    """Returns the numeric fields that a factor sets alone, in at least three levels.

    Args:
        result: a result.json. Its arms have the fields that they set; a tuned field is none of
            theirs.
    """
    tuned = (result.get("tuning") or {}).get("field")
    arms = {
        arm["name"]: {path: value for path, value in arm["overrides"].items() if path != tuned}
        for arm in result["arms"]
    }
    found = []
    for field in dict.fromkeys(path for overrides in arms.values() for path in overrides):
        groups: dict[str, dict[float, str]] = defaultdict(dict)
        for name, overrides in arms.items():
            if _is_number(overrides.get(field)):
                others = sorted((path, value) for path, value in overrides.items() if path != field)
                groups[repr(others)][overrides[field]] = name
        curves = [line for line in groups.values() if len(line) >= FEWEST_VALUES]
        if curves:
            found.append(LevelCurves(field, {_label(line.values()): line for line in curves}, _word_for_0(curves)))
    return found


def file_name(field: str) -> str:
    """Returns the name of a field's picture."""
    return f"by_{field.replace('.', '_')}.png"


def write_level_plots(result: Mapping[str, Any], runs: Sequence[Mapping[str, str]], folder: Path) -> list[Path]:
    """Draws the final metric against each field of `level_curves`; returns the files.

    Lines are means over seeds, small dots are runs. Runs without a finite value are left out.

    Args:
        result: a result.json.
        runs: the rows of runs.csv.
        folder: where the pictures go.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        value = float(run.get(result["metric"]) or "nan")
        if math.isfinite(value):
            values[run["arm"]].append(value)
    written = []
    with rc_context(SETTINGS):
        for curves in level_curves(result):
            axes = Figure(figsize=(7.2, 4.2)).add_subplot()
            axes.set(xlabel=curves.field, ylabel=f"final {result['metric']}{result['unit'].replace(' ', ', ', 1)}")
            axes.grid(alpha=0.25)
            _draw(axes, curves, values)
            draw_floors(axes, _floors(result))
            written.append(save(axes.figure, folder / file_name(curves.field)))
    return written


def _floors(result: Mapping[str, Any]) -> list[FloorLine]:
    scores = {floor["name"]: floor["scores"].get(result["metric"]) for floor in result.get("floors", ())}
    return as_lines({name: score for name, score in scores.items() if score is not None}, result["metric"])


def _draw(axes: Axes, curves: LevelCurves, values: Mapping[str, Sequence[float]]) -> None:
    levels = sorted({level for line in curves.lines.values() for level in line})
    ticks = {level: f"{level:g}" for level in levels}
    if curves.unlimited:
        levels = [level for level in levels if level != 0]
    logarithmic = levels[0] > 0 and levels[-1] >= LOGARITHMIC_FROM * levels[0]
    if curves.unlimited:
        beyond = levels[-1] ** 2 / levels[-2] if logarithmic else 2 * levels[-1] - levels[-2]
        del ticks[0]
        ticks[beyond] = curves.unlimited
    for number, (label, line) in enumerate(curves.lines.items()):
        # Arms with the same config have the same curve; dashes keep both visible.
        colour, dash = COLOURS[number % len(COLOURS)], LINE_STYLES[number % len(LINE_STYLES)]
        places = {beyond if curves.unlimited and level == 0 else level: name for level, name in line.items()}
        points = [(place, values[name]) for place, name in sorted(places.items()) if values.get(name)]
        levels, means = [level for level, _ in points], [sum(each) / len(each) for _, each in points]
        axes.plot(levels, means, color=colour, linestyle=dash, marker="o", markersize=5, label=label)
        for level, each in points:
            axes.plot([level] * len(each), each, "o", color=colour, alpha=0.35, markersize=3)
    if len(curves.lines) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, borderaxespad=0, handlelength=3.6)
    if logarithmic:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if len(ticks) <= MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.set_xticklabels(list(ticks.values()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _word_for_0(lines: Iterable[Mapping[float, str]]) -> str | None:
    """Returns the name of the level of value 0, or None where there is none or it is a number."""
    for line in lines:
        if 0 in line:
            shared = _label(line.values()).split(", ")
            (part, *more) = [part for part in line[0].split(", ") if part not in shared]
            word = part.partition("=")[2]
            return None if more or not word or word.replace(".", "", 1).isdigit() else word
    return None


def _label(names: Iterable[str]) -> str:
    """Returns what the names of arms have in common, "width=32" of "width=32, rate=R" and others."""
    parts = [name.split(", ") for name in names]
    return ", ".join(part for part in parts[0] if all(part in other for other in parts[1:]))
