"""Forest plots of all archived contrasts: each difference with its interval, one panel per part of
a model.

Losses have two pictures of their own: of the contrasts that were judged, and of those that were
not (no arm was tuned, or the runs cannot answer). Other metrics have a panel each in a third one.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from zoo.lab.declarations import arm_text, claim_order
from zoo.lab.formatting import MINUS, with_minus
from zoo.lab.metrics import base_name, steps_to_arm, unit_suffix
from zoo.lab.report.figures import SETTINGS, save

LOSS = "eval/loss"
LOSSES_FILE, NOT_JUDGED_FILE, OTHERS_FILE = "effects.png", "effects_not_judged.png", "effects_of_other_metrics.png"
# The colour-blind safe blue, red and grey of the report; what decides nothing is lighter.
_COLOURS = {
    "holds": "#0072b2",
    "refuted": "#d55e00",
    "undecided": "#7f7f7f",
    "not tuned": "#a8a8a8",
    "not testable": "#cfcfcf",
}
_JUDGED = ("holds", "refuted", "undecided")
# By the first letter of a claim's identifier.
PARTS = {
    "N": "Normalisation and residual connections",
    "P": "Positions",
    "A": "Attention",
    "F": "Feed-forward layers",
    "O": "Objectives and data",
    "V": "Optimizers and newer variants",
    "S": "Pairs of equal arms",
}
# Differences up to this are drawn to scale, larger ones by their logarithm, so that one large
# effect does not squeeze the others.
_LINEAR = 0.1
_TICKS = (0, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
# A page shows a picture about 880 pixels wide, which makes 8 points 12 pixels high.
_WIDTH_INCHES, _ROW_INCHES, _HEAD_INCHES = 8.0, 0.34, 0.62
_LABEL_SHARE = 0.47
_MOST_LETTERS = 58


# Between the levels of an arm: a comma may also be part of a level.
_LEVEL = re.compile(r"(?:, |\+)(?=[^,+=]+=)")


class _Panel(NamedTuple):
    title: str
    metric: str
    rows: list[tuple[str, Mapping[str, str]]]


def write_forest_plots(contrasts: Sequence[tuple[str, Mapping[str, str]]], folder: Path) -> list[Path]:
    """Draws a - b of every contrast with an interval; returns the files, none without contrasts.

    Args:
        contrasts: (label, which begins with the claim, row of contrasts.csv), from the top down.
        folder: where the pictures go.
    """
    finite = [
        (label, row)
        for label, row in contrasts
        if all(math.isfinite(float(row[name] or "nan")) for name in ("a - b", "low", "high"))
    ]
    losses = [one for one in finite if base_name(one[1]["metric a"]) == "loss"]
    others = [one for one in finite if base_name(one[1]["metric a"]) != "loss"]
    judged = [one for one in losses if one[1]["outcome"] in _JUDGED] or losses
    rest = [one for one in losses if one not in judged]
    drawn = {LOSSES_FILE: _by_part(judged), NOT_JUDGED_FILE: _by_part(rest), OTHERS_FILE: _by_metric(others)}
    for name in (LOSSES_FILE, NOT_JUDGED_FILE, OTHERS_FILE):
        (folder / name).unlink(missing_ok=True)
    return [_draw(panels, folder / name) for name, panels in drawn.items() if panels]


def _by_part(rows: Sequence[tuple[str, Mapping[str, str]]]) -> list[_Panel]:
    parts: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for label, row in sorted(rows, key=lambda one: claim_order(one[0])[1]):
        parts.setdefault(PARTS.get(label[:1], "Others"), []).append((label, row))
    order = [*PARTS.values(), "Others"]
    return [_Panel(part, LOSS, parts[part]) for part in sorted(parts, key=order.index)]


def _by_metric(rows: Sequence[tuple[str, Mapping[str, str]]]) -> list[_Panel]:
    metrics: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for label, row in rows:
        metrics.setdefault(row["metric a"].partition("@")[0], []).append((label, row))
    return [_Panel(_title(name), name, members) for name, members in metrics.items()]


def _title(metric: str) -> str:
    """Returns e.g. `head divergence`, or `steps to the loss of positions=sinusoidal`."""
    if (arm := steps_to_arm(metric)) is not None:
        return f"steps to the loss of {arm_text(arm)}"
    return base_name(metric).replace("_", " ")


def _draw(panels: Sequence[_Panel], path: Path) -> Path:
    """Draws panels below each other; those of one metric have one range."""
    inches = [len(panel.rows) * _ROW_INCHES + _HEAD_INCHES for panel in panels]
    top = 0.55
    with rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH_INCHES, sum(inches) + top))
        grid = {"height_ratios": inches, "left": _LABEL_SHARE, "right": 0.98, "top": 1 - top / (sum(inches) + top)}
        grid |= {"bottom": 0.42 / (sum(inches) + top), "hspace": 0.6 * len(panels) / sum(inches)}
        every = [axes for (axes,) in figure.subplots(len(panels), 1, gridspec_kw=grid, squeeze=False)]
        for axes, panel in zip(every, panels, strict=True):
            _draw_rows(axes, panel)
        for metric in {panel.metric for panel in panels}:
            same = [axes for axes, panel in zip(every, panels, strict=True) if panel.metric == metric]
            reach = [axes.get_xlim() for axes in same]
            for axes in same:
                axes.set_xlim(min(low for low, _ in reach), max(high for _, high in reach))
                _set_ticks(axes)
            unit = unit_suffix(metric).strip()
            what = f"loss of a {MINUS} loss of b" if metric == LOSS else f"a {MINUS} b"
            same[-1].set_xlabel(f"{what}{unit and f', {unit}'}; {_SCALE}", fontsize=8)
        present = {row["outcome"] for panel in panels for _, row in panel.rows}
        colours = {name: colour for name, colour in _COLOURS.items() if name in present}
        handles = [every[0].plot([], [], "o-", color=colour, label=name)[0] for name, colour in colours.items()]
        figure.legend(handles=handles, loc="upper left", ncols=len(handles), frameon=False, fontsize=8)
        figure.text(0.98, 1 - 0.12 / (sum(inches) + top), f"{_LEFT}      {_RIGHT}", fontsize=8, ha="right", va="top")
        return save(figure, path)


_SCALE = f"to scale up to ±{_LINEAR:g}, logarithmic beyond"
_LEFT, _RIGHT = "← a is lower", "a is higher →"


def _draw_rows(axes: Axes, panel: _Panel) -> None:
    axes.set_xscale("symlog", linthresh=_LINEAR, linscale=1.5)
    axes.set_title(panel.title, fontsize=9, fontweight="bold", loc="left", x=-_LABEL_SHARE / (0.98 - _LABEL_SHARE))
    labels = axes.get_yaxis_transform()
    for place, (label, row) in enumerate(panel.rows):
        mean, low, high = (float(row[name]) for name in ("a - b", "low", "high"))
        colour = _COLOURS.get(row["outcome"], "#7f7f7f")
        axes.plot([low, high], [place, place], color=colour, linewidth=1.8)
        axes.plot([mean], [place], "o", color=colour, markersize=5)
        # Names are texts of their own, so that arms stand in grey below the contrast.
        axes.text(-0.02, place - 0.05, label, transform=labels, fontsize=8, ha="right", va="bottom")
        axes.text(-0.02, place, _sides(row), transform=labels, fontsize=6.5, color="0.4", ha="right", va="top")
    axes.axvline(0, color="#000000", linewidth=0.8)
    axes.set_yticks([])
    axes.set_ylim(len(panel.rows) - 0.4, -0.7)


def _sides(row: Mapping[str, str]) -> str:
    """Returns `a − b` in the names of the arms, levels that both have once; cut if they are long."""
    a, b = (_LEVEL.split(row[side]) for side in ("a", "b"))
    own = [[part for part in side if part not in other] for side, other in ((a, b), (b, a))]
    shared = [part for part in a if part in b]
    if row["metric a"] != row["metric b"]:
        text = f"{row['metric a']} {MINUS} {row['metric b']}"
    elif all(own) and shared:
        text = f"{', '.join(own[0])} {MINUS} {', '.join(own[1])} ({', '.join(shared)})"
    else:
        text = f"{row['a']} {MINUS} {row['b']}"
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def _set_ticks(axes: Axes) -> None:
    low, high = axes.get_xlim()
    shown = sorted({tick for size in _TICKS for tick in (-size, size) if low <= tick <= high})
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(lambda value, _: with_minus(f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(axis="x", labelsize=7.5)
    axes.grid(axis="x", alpha=0.25)
