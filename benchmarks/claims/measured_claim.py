"""A claim that is settled by measuring: its rule, its table, its verdict and its page."""

import csv
import importlib.metadata
import json
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from claims.turns import Row, Settings

# Values that differ by a larger factor are drawn on a logarithmic axis.
_WIDE = 3
NOT_TESTABLE = "not testable"
TABLE, RESULT, PAGE, PICTURE = "measurements.csv", "measured.json", "README.md", "plot.svg"


@dataclass(frozen=True)
class Judgement:
    """Judgement of a claim by its measurements.

    Attributes:
        verdict: "supported", "not supported" or "undecided"; a record has "not testable" in its place
            where the hardware of the claim was not used.
        effect: the figures that decide it, in a few words.
        text: what was found, in sentences.
    """

    verdict: str
    effect: str
    text: str

    @classmethod
    def of(cls, holds: bool, effect: str, text: str, refuted: bool = True) -> "Judgement":
        """Returns the judgement of a rule that `holds`, is `refuted`, or neither; a rule about figures
        without an uncertainty is refuted where it does not hold.
        """
        return cls("supported" if holds else "not supported" if refuted else "undecided", effect, text)


@dataclass(frozen=True)
class Plot:
    """A picture of the measurements; the axis of x is logarithmic, that of y where values lie far apart.

    Attributes:
        x, y: columns of the axes.
        lines: columns whose values distinguish the lines.
        panels: column whose values distinguish the panels, if there are several.
        x_label, y_label: text at the axes, with the unit.
    """

    x: str
    y: str
    lines: tuple[str, ...]
    x_label: str
    y_label: str
    panels: str = ""


@dataclass(frozen=True)
class MeasuredClaim:
    """A claim about time or memory.

    Attributes:
        id: id of the claim in docs/results/claims.csv.
        name: name of the folder of its results.
        title: title of the page.
        method: what is measured, in sentences.
        rule: when the claim is supported, stated before anything was measured.
        doubts: what could be wrong with it, in sentences.
        measure: makes the rows.
        judge: applies the rule to the rows.
        columns: heading of each column that the page shows.
        plot: the picture.
        accelerator: whether the claim is about accelerators, so that a CPU cannot test it.
    """

    id: str
    name: str
    title: str
    method: str
    rule: str
    doubts: str
    measure: Callable[[Settings], list[Row]]
    judge: Callable[[Sequence[Row]], Judgement]
    columns: dict[str, str]
    plot: Plot
    accelerator: bool = False


def save_measurements(claim: MeasuredClaim, rows: Sequence[Row], settings: Settings, folder: Path) -> None:
    """Writes the table, the verdict and where it was measured to `folder`, and then the page."""
    import jax

    from zoo.training.records.processor import processor_name
    from zoo.training.records.run_record import git_commit

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / TABLE, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)
    record = {
        "claim": claim.id,
        "rule": claim.rule,
        "command": f"python benchmarks/measure_claims.py {claim.name}",
        "settings": asdict(settings),
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "processor": processor_name(),
        "versions": {name: importlib.metadata.version(name) for name in ("jax", "jaxlib", "flax")},
        "commit": git_commit(),
    }
    _write_record(claim, record, folder)


def rewrite_page(claim: MeasuredClaim, folder: Path) -> None:
    """Judges the saved rows anew and writes verdict and page; measures nothing."""
    record = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    if record["rule"] != claim.rule:
        raise SystemExit(f"{folder / RESULT}: measured under another rule; measure it again")
    _write_record(claim, record, folder)


def read_rows(folder: Path) -> list[Row]:
    """Returns the rows of the saved table, with numbers as numbers."""
    with open(folder / TABLE, encoding="utf-8", newline="") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def page(claim: MeasuredClaim, record: dict[str, Any], rows: Sequence[Row]) -> str:
    """Returns the page in Markdown."""
    cells = [[_cell(row[column]) for column in claim.columns] for row in rows]
    table = [
        f"| {' | '.join(claim.columns.values())} |",
        f"|{' --- |' * len(claim.columns)}",
        *(f"| {' | '.join(row)} |" for row in cells),
    ]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return "\n".join(
        [
            f"# {claim.id}: {claim.title}",
            "",
            _wrapped(claim.method),
            "",
            _wrapped(f"**Rule, stated beforehand:** {claim.rule}"),
            "",
            _wrapped(f"**{record['verdict'].capitalize()}.** {record['text']}"),
            "",
            f"![{claim.plot.y_label} by {claim.plot.x_label}]({PICTURE})",
            "",
            *table,
            "",
            _wrapped(
                f"Times are medians of {record['settings']['rounds']} turns; ratios are medians over turns, in which all "
                f"that is compared was called one after the other. All figures, with quartiles: [{TABLE}]({TABLE})."
            ),
            "",
            _wrapped(f"What could be wrong with it: {claim.doubts}"),
            "",
            _wrapped(
                f"To repeat: `{record['command']}`. Measured on {record['device']} ({record['processor']}), {versions}."
            ),
            "",
        ]
    )


def _write_record(claim: MeasuredClaim, record: dict[str, Any], folder: Path) -> None:
    rows = read_rows(folder)
    record = {name: value for name, value in record.items() if name not in ("reason", "verdicts_before")}
    record |= asdict(claim.judge(rows)) | not_testable(claim, rows, record["device"])
    (folder / RESULT).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    _draw(claim.plot, rows, folder / PICTURE)
    (folder / PAGE).write_text(page(claim, record, rows), encoding="utf-8")


def not_testable(claim: MeasuredClaim, rows: Sequence[Row], device: str) -> dict[str, Any]:
    """Returns the entries of a record that replace the verdict of the rule where the hardware of the
    claim was not used; none where it was.
    """
    if not claim.accelerator or not device.endswith("cpu"):
        return {}
    judged = claim.judge(rows)
    reason = f"the claim is about accelerators, and was measured on {device}"
    return {
        "verdict": NOT_TESTABLE,
        "text": f"{reason[0].upper()}{reason[1:]}; its rule, {judged.verdict} there, decides nothing. {judged.text}",
        "reason": reason,
        "verdicts_before": [{"procedure": "its rule on any device", "verdict": judged.verdict}],
    }


def _draw(plot: Plot, rows: Sequence[Row], path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    from zoo.lab.report.figures import SETTINGS

    panels = list(dict.fromkeys(row[plot.panels] for row in rows)) if plot.panels else [None]
    with rc_context(SETTINGS):
        figure = Figure(figsize=(4.2 * len(panels) + 0.6, 3.4), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            lines: dict[tuple, list[Row]] = {}
            for row in rows:
                if panel is None or row[plot.panels] == panel:
                    lines.setdefault(tuple(row[name] for name in plot.lines), []).append(row)
            for names, points in lines.items():
                label = ", ".join(map(str, names))
                axes.plot([row[plot.x] for row in points], [row[plot.y] for row in points], "o-", label=label)
            axes.set_xscale("log", base=2)
            values = [row[plot.y] for row in rows]
            if max(values) > _WIDE * min(values):
                axes.set_yscale("log")
                axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.set_xticks(
                ticks := sorted({row[plot.x] for row in rows}),
                [f"{x:,}" for x in ticks],
                rotation=45 * (len(ticks) > 6),
            )
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.grid(alpha=0.25)
            axes.set_xlabel(plot.x_label)
            axes.set_title(f"{plot.panels} {panel}" if isinstance(panel, int) else panel or "", fontsize=9)
        figure.axes[0].set_ylabel(plot.y_label)
        figure.axes[-1].legend(frameon=False, fontsize=8)
        figure.savefig(path, metadata={"Date": None})


def _short(value: str | int | float) -> str | int:
    return f"{value:.5g}" if isinstance(value, float) else value


def _cell(value: str | int | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:.3g}" if isinstance(value, float) and abs(value) < 100 else f"{value:,.0f}"


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 100, break_long_words=False, break_on_hyphens=False)


def _number(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
