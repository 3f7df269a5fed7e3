"""Writes scales/README.md, scales.csv and a picture: every effect against the size of the model."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from publication.scales import (
    GROWS,
    HOLDS,
    LEAST_SIZES,
    NO_ORDER,
    NOT_JUDGED,
    OPEN,
    SHRINKS,
    TURNS,
    UNCLEAR,
    ScaledContrast,
    judged_orders,
    overall,
    plain_verdict,
)
from zoo.errors import listed
from zoo.files import write_atomic
from zoo.lab.formatting import count, interval, rounded_mean
from zoo.lab.report.figures import SETTINGS, save

SCALES = "scales"
CLAIM = "S1"
_PICTURE, _TABLE, _PAGE = "effects_by_size.png", "scales.csv", "README.md"
_HEAD = (
    "# Effects at several sizes",
    "",
    "Written by `python -m publication results` from the archived experiments that were run at more than one size.",
    "Rates are tuned at each size, or have the rank in the grid that was best at another one (`--tuned-as`; the pages",
    "of the sizes say which). The tokens of training grow with the parameters.",
    "",
    f"**Rule for {CLAIM}.** A contrast has an order if the interval of its difference excludes 0 at a size other than",
    "the largest; the smallest such size counts. The order holds if the intervals at all larger sizes lie on the same",
    "side of 0, and turns if one lies on the other side; otherwise it is undecided. With fewer than",
    f"{LEAST_SIZES} sizes an order can only turn. {CLAIM} is supported if all orders hold, and not supported if one",
    "turns. An effect shrinks or grows if Welch's 95 % interval of its difference at the largest size minus that at",
    "the smallest, in the direction of the order, excludes 0; the sizes are those that count, or all where fewer than",
    "two do. Until the runs of V1 with fitted rates had ended, they were all sizes.",
    "",
    "The rule was stated before the runs at other sizes, with plain 95 % intervals. Later, and after these runs, it",
    "was made stricter: an interval is the one on the page of its experiment, at the level of its look and with the",
    "uncertainty of tuning, and a size counts only where its contrast is testable and tuned.",
    "",
)
# Colours of the report: blue holds, red turns, grey for anything else.
_COLOURS = {HOLDS: "#0072b2", TURNS: "#d55e00"}
_FIELDS = (
    *("experiment", "claim", "contrast", "a", "b", "metric", "size", "parameters", "tokens"),
    *("difference", "low", "high", "outcome", "seeds", "order", "effect"),
)
_COLUMNS, _PANEL_INCHES = 3, (3.2, 2.5)


def write_scales(contrasts: Sequence[ScaledContrast], output: Path, limits: str = "") -> dict[str, Any] | None:
    """Writes the page about contrasts at several sizes into `output`/scales.

    Args:
        contrasts: from `scaled_contrasts`.
        output: the folder of all results.
        limits: sentences on what could be wrong with the verdict.

    Returns:
        The row of the table of claims ("verdict", "effect", "device", "name", "page"); None without
        contrasts.

    Raises:
        OSError: the folder cannot be written.
    """
    if not contrasts:
        return None
    folder = output / SCALES
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / _TABLE, _csv(contrasts))
    _draw(contrasts, folder / _PICTURE)
    write_atomic(folder / _PAGE, "\n".join(_lines(contrasts, limits)))
    return {
        "verdict": overall(contrasts),
        "effect": summary(contrasts),
        "device": _sizes(contrasts),
        "name": SCALES,
        "page": f"{SCALES}/{_PAGE}",
    }


def _sizes(contrasts: Sequence[ScaledContrast]) -> str:
    """Returns how many sizes the experiments have, e.g. `3 sizes (4 experiments), 2 (1)`."""
    sizes: dict[str, set[str]] = {}
    for contrast in contrasts:
        sizes.setdefault(contrast.experiment, set()).update(effect.size for effect in contrast.effects)
    numbers = Counter(map(len, sizes.values()))
    (most, experiments), *others = sorted(numbers.items(), reverse=True)
    return ", ".join([f"{most} sizes ({count(experiments, 'experiment')})", *(f"{n} ({m})" for n, m in others)])


def summary(contrasts: Sequence[ScaledContrast]) -> str:
    """Returns in one sentence how many orders hold, and how many effects shrink."""
    orders = [contrast.order for contrast in contrasts]
    trends = [contrast.trend for contrast in contrasts if contrast.order not in (NO_ORDER, NOT_JUDGED)]
    left_out = f", not judged {n}" if (n := orders.count(NOT_JUDGED)) else ""
    return (
        f"orders: {len(judged_orders(orders))} (holds {orders.count(HOLDS)}, turns {orders.count(TURNS)}, undecided "
        f"{orders.count(OPEN)}{left_out}); effects: {len(trends)} (shrinks {trends.count(SHRINKS)}, grows "
        f"{trends.count(GROWS)}, unclear {trends.count(UNCLEAR)})"
    )


def _plain(contrasts: Sequence[ScaledContrast]) -> str:
    """Returns what plain 95 % intervals say, and which orders turn by them."""
    orders = [contrast.plain_order for contrast in contrasts]
    turned = [f"{each.experiment}, {each.name}" for each in contrasts if each.plain_order == TURNS]
    return (
        f"By plain 95 % intervals at all sizes it is {plain_verdict(contrasts)}: of {len(judged_orders(orders))} "
        f"orders {orders.count(HOLDS)} hold, {orders.count(TURNS)} {'turns' if orders.count(TURNS) == 1 else 'turn'}"
        f"{f' ({listed(turned, 3)})' if turned else ''} and {orders.count(OPEN)} are undecided."
    )


def _lines(contrasts: Sequence[ScaledContrast], limits: str) -> Iterator[str]:
    yield from _HEAD
    yield f"> **{overall(contrasts)}**: {summary(contrasts)}."
    yield from ("", _plain(contrasts))
    yield from ("", f"![every effect against the number of parameters]({_PICTURE})", "")
    columns = ("contrast (a − b)", "size", "parameters", "tokens", "difference", "interval", "outcome", "seeds")
    yield f"| | {' | '.join((*columns, 'order', 'effect'))} |"
    yield f"|{' --- |' * 3}{' ---: |' * 3} --- | --- | ---: | --- | --- |"
    for contrast in contrasts:
        for place, effect in enumerate(contrast.effects):
            found = effect.difference
            first = (
                (contrast.claim, f"{contrast.experiment}: {contrast.name} ({contrast.a} - {contrast.b})")
                if place == 0
                else ("", "")
            )
            cells = (
                *first,
                f"[{effect.size}](../{effect.folder}/README.md)",
                f"{effect.parameters:,.0f}",
                f"{effect.tokens:,}",
                rounded_mean(found.mean, effect.low, effect.high),
                interval(effect.low, effect.high),
                effect.outcome,
                str(found.n),
                *((f"**{contrast.order}**", _trend(contrast)) if place == len(contrast.effects) - 1 else ("", "")),
            )
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    text = (
        "The effects of one experiment are not independent of each other where contrasts share an arm. Sizes differ in "
        "width, rows, steps and learning rate together, so that a change of an effect has no single cause. Intervals "
        "are not corrected for the number of contrasts: of a dozen pairs of equal arms, one may seem to have an order. "
        "Rates taken from another size may not be the best ones. "
        "An effect in nats shrinks where the learning curve flattens, even if it is worth as many steps as before."
    )
    text = " ".join(filter(None, (text, limits)))
    yield from ("", f"**What could be wrong with it.** {text}", "", f"Table: [{_TABLE}]({_TABLE}).", "")


def _trend(contrast: ScaledContrast) -> str:
    change, compared = contrast.change, contrast.compared
    where = f" from {compared[0].size} to {compared[-1].size}" if compared != contrast.effects else ""
    low_to_high = interval(change.low, change.high)
    return f"{contrast.trend}{where}: {rounded_mean(change.mean, change.low, change.high)} ({low_to_high})"


def _csv(contrasts: Sequence[ScaledContrast]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_FIELDS)
    for contrast in contrasts:
        for effect in contrast.effects:
            found = effect.difference
            numbers = (f"{value:.6g}" for value in (found.mean, effect.low, effect.high))
            writer.writerow(
                [
                    contrast.experiment,
                    contrast.claim,
                    contrast.name,
                    contrast.a,
                    contrast.b,
                    contrast.metric,
                    effect.size,
                    round(effect.parameters),
                    effect.tokens,
                    *numbers,
                    effect.outcome,
                    found.n,
                    contrast.order,
                    contrast.trend,
                ]
            )
    return file.getvalue()


def _draw(contrasts: Sequence[ScaledContrast], path: Path) -> None:
    """Draws a panel for every contrast: a - b with its interval against the parameters."""
    rows = -(-len(contrasts) // _COLUMNS)
    with rc_context(SETTINGS):
        figure = Figure(figsize=(_COLUMNS * _PANEL_INCHES[0], rows * _PANEL_INCHES[1]))
        panels = figure.subplots(rows, _COLUMNS, squeeze=False).flatten()
        for axes, contrast in zip(panels, contrasts, strict=False):
            sizes = [effect.parameters for effect in contrast.effects]
            means = [effect.difference.mean for effect in contrast.effects]
            reach = [
                [mean - effect.low for mean, effect in zip(means, contrast.effects, strict=True)],
                [effect.high - mean for mean, effect in zip(means, contrast.effects, strict=True)],
            ]
            colour = _COLOURS.get(contrast.order, "#7f7f7f")
            axes.errorbar(sizes, means, reach, fmt="o-", color=colour, markersize=4, linewidth=1.2, capsize=3)
            axes.axhline(0, color="#000000", linewidth=0.8)
            axes.set_xscale("log")
            axes.set_xticks(sizes, [_short(size) for size in sizes], fontsize=7.5)
            axes.minorticks_off()
            axes.tick_params(axis="y", labelsize=7.5)
            axes.set_title(f"{contrast.claim} {contrast.name}", fontsize=8.5)
            axes.set_ylabel(f"{contrast.metric}, a − b", fontsize=7.5)
        for axes in panels[len(contrasts) :]:
            axes.remove()
        figure.supxlabel("parameters", fontsize=8.5)
        figure.tight_layout()
        save(figure, path)


def _short(parameters: float) -> str:
    return f"{parameters / 1e6:.2g} M" if parameters >= 1e6 else f"{parameters / 1e3:.0f} k"
