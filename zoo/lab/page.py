"""One HTML file that needs nothing else: no network, no server, no other file.

The page's content policy lets only the two scripts run whose hashes it states, so text that slipped through as markup
would still do nothing.
"""

import base64
import hashlib
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from zoo.lab import tables
from zoo.lab.curves import COLOURS, DARK_COLOURS, DASHES, against_baseline, band, by_length, main_metrics, styles, thin
from zoo.lab.factors import effects
from zoo.lab.fairness import doubts
from zoo.lab.formatting import count
from zoo.lab.metrics import more_is_better
from zoo.lab.results import Run, Sweep
from zoo.lab.tables import escape
from zoo.lab.verdict import Verdict

LEGEND = '<ul class="legend" aria-label="arms; press to hide"></ul>'
CONTROLS = """<div class="controls">
<span class="choice" id="curves-metric" role="group" aria-label="metric"></span>
<span class="choice" id="curves-x" role="group" aria-label="horizontal axis"></span>
<label><input type="checkbox" id="curves-log"> logarithmic</label>
<label><input type="checkbox" id="curves-late"> second half only</label>
<label><input type="checkbox" id="curves-seeds"> every seed</label>
<label id="curves-smoothing" hidden>smoothing
<select id="curves-window"><option value="0">none</option><option value="1">1 %</option><option value="3">3 %</option>
<option value="10">10 %</option></select></label>
</div>"""


def _numbers(values: np.ndarray) -> list[float | None]:
    # Six digits are more than a plot can show and halve the file.
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]


def _thinned(**columns: np.ndarray) -> dict[str, list[float | None]]:
    return {name: _numbers(column) for name, column in zip(columns, thin(*columns.values()), strict=True)}


def _curve(run: Run, metric: str) -> dict[str, Any] | None:
    series = run.series(metric)
    if not len(series.step):
        return None
    return _thinned(step=series.step, tokens=series.tokens, seconds=series.seconds, value=series.value)


def _band(sweep: Sweep, arm: Any, metric: str) -> dict[str, Any] | None:
    found = band(sweep, arm, metric)
    if found is None or not len(found.step):
        return None
    return _thinned(
        step=found.step, tokens=found.tokens, seconds=found.seconds, mean=found.mean, low=found.low, high=found.high)


def plot_data(sweep: Sweep) -> dict[str, Any]:
    """Everything the plots need, as plain JSON values. Names stay raw here: the script treats them as text."""
    metrics = main_metrics(sweep)
    arm_styles = styles(sweep)
    arms = []
    for arm in sweep.arms:
        runs = sweep.runs_of(arm.name)
        bad = [f"{n} {word}" for word in ("diverged", "failed", "missing") if (n := sum(r.state == word for r in runs))]
        arms.append({
            "label": arm.label, "colour": arm_styles[arm.name][0], "dash": arm_styles[arm.name][1],
            "note": f"({', '.join(bad)})" if bad else "",
            "bands": [_band(sweep, arm, metric) for metric in metrics],
            "runs": [
                {"label": f"seed {run.seed}", "state": run.state, "curves": [_curve(run, metric) for metric in metrics]}
                for run in runs],
        })
    rows = [
        {"arm": index, "mean": difference.mean, "low": difference.low if difference.n > 1 else None,
         "high": difference.high if difference.n > 1 else None, "points": list(difference.differences.values()),
         "seeds": list(difference.differences)}
        for index, difference in enumerate(against_baseline(sweep).values(), start=1) if difference.n]
    lengths = by_length(sweep)
    return {
        "palette": {"light": COLOURS, "dark": DARK_COLOURS}, "dashes": DASHES, "metrics": metrics,
        "units": [sweep.unit(metric).replace(" ", ", ", 1) for metric in metrics], "arms": arms,
        "differences": {"title": f"difference in final {sweep.metric}{sweep.unit(sweep.metric).replace(' ', ', ', 1)}", "rows": rows}
        if rows else None,
        "lengths": None if lengths is None else {
            "title": f"final {lengths.metric}{sweep.unit(lengths.metric).replace(' ', ', ', 1)}",
            "trained": lengths.trained, "lengths": lengths.lengths,
            "arms": [_length_line(lengths.values[arm.name]) for arm in sweep.arms]},
    }


def _length_line(values: dict[int, Any]) -> dict[str, list[float]]:
    there = {length: value for length, value in values.items() if value is not None}
    return {
        "length": list(there), "mean": [value.mean for value in there.values()],
        "low": [value.low for value in there.values()], "high": [value.high for value in there.values()]}


def embed_json(value: Any) -> str:
    """JSON that is safe inside a script element: no character in it can end the element or open another."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(script: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _section(title: str, *parts: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def _plot(name: str, description: str) -> str:
    return (
        f'<div class="plot" id="{name}-plot" role="img" aria-label="{escape(description)}">'
        '<p class="without-script">This plot needs JavaScript; the tables below hold its numbers.</p></div>')


def _verdict(sweep: Sweep, verdict: Verdict) -> str:
    kind = verdict.overall.replace(" ", "-")
    body = f"<p>{escape(verdict.paragraph.removeprefix(verdict.overall.capitalize() + ': '))}</p>"
    if verdict.outcomes:
        body += tables.contrast_table(sweep, verdict) + (
            '<p class="note">Differences are paired by seed. Intervals are Student t intervals, each on its own; that any contrast is '
            f"refuted is corrected for their number (Holm). {_looked(sweep)}Effect: Hedges' g of paired differences. "
            "A negative difference means that a has the lower value, which is the better one of losses and the worse one of scores.</p>")
    title = verdict.overall.capitalize() if verdict.outcomes else "No claim"
    return f'<section class="verdict {kind}" aria-label="verdict"><h2>{escape(title)}</h2>{body}</section>'


def _claim(sweep: Sweep) -> str:
    if not sweep.claim:
        return ""
    identity, statement, source = (str(sweep.claim.get(key) or "") for key in ("id", "statement", "source"))
    tail = f"<br>Source: {escape(source)}" if source else ""
    return f'<p class="soft">Claim {escape(identity)}: {escape(statement)}{tail}</p>'


def _curves(sweep: Sweep) -> str:
    if not main_metrics(sweep):
        return _section("Learning curves", "<p>No run has written a metric yet.</p>")
    note = (
        "Line: mean over seeds; band: lowest to highest seed; faint: single seeds (unsmoothed). A mean ends where the first of "
        "its runs ends. A cross marks where a run diverged, an open circle where one failed.")
    cut = '<p class="note" id="curves-cut" hidden>Values far above the start are cut off; double-click to see them.</p>'
    return _section(
        "Learning curves", LEGEND, CONTROLS, _plot("curves", "learning curves of all arms"), cut, f'<p class="note">{note}</p>')


def _lengths(sweep: Sweep) -> str:
    found = by_length(sweep)
    if found is None:
        return ""
    return _section(
        "Loss by evaluation length", LEGEND, _plot("lengths", "final loss by evaluation length"),
        '<p class="note">Mean over seeds; bars: lowest to highest seed. An arm has no point where it cannot be evaluated.</p>',
        tables.lengths_table(sweep))


def _looked(sweep: Sweep) -> str:
    if not sweep.looks:
        return ""
    return (f"Seeds were added until it was decided, {min(sweep.looks)} to at most {max(sweep.looks)}; the intervals are wider for it, so "
            "that all looks together err in at most 5 %. ")


def _factors(sweep: Sweep) -> str:
    found = effects(sweep)
    if not any(effect.difference.n for effect in found):
        return ""
    return _section(
        "Factors",
        '<p class="note">A main effect is the mean difference that a level makes over all levels of the other factors; an interaction is '
        "how far the difference that one factor makes differs between two levels of the other. Both are paired by seed.</p>",
        tables.effects_table(sweep, found))


def _differences(sweep: Sweep) -> str:
    if len(sweep.arms) < 2:
        return ""
    baseline = escape(sweep.arms[0].label)
    drawn = any(difference.n for difference in against_baseline(sweep).values())
    if not drawn:
        return _section("Differences from the baseline", f"<p>No seed is done in {baseline} and another arm yet.</p>")
    better = "Right" if more_is_better(sweep.metric) else "Left"
    return _section(
        "Differences from the baseline",
        f'<p class="note">Baseline: {baseline}. Diamond: mean difference over paired seeds; line: t interval; dots: '
        f"single seeds. {better} of zero is better than the baseline. These comparisons are a description, not a test stated "
        "beforehand; their intervals stand alone, p (Holm) is corrected for their number.</p>",
        _plot("differences", "differences from the baseline"), tables.differences_table(sweep))


def _conditions(sweep: Sweep) -> str:
    run = next((run for run in sweep.runs if run.meta), None)
    if run is None:
        return _section("Conditions", "<p>No run has written what it ran on yet.</p>")
    shown = {key: run.meta[key] for key in ("device", "versions", "commit", "data") if run.meta.get(key) is not None}
    return _section("Conditions", tables.facts_table(f"Device, versions and data of {run.folder.name}", shown))


def _reproduce(sweep: Sweep) -> str:
    rows = [
        [tables.Cell(run.folder.name), tables.Cell(markup=f"<code>{escape(run.meta['command'])}</code>")]
        for run in (*sweep.prepared, *sweep.runs) if run.meta.get("command")]
    if not rows:
        return ""
    return _section(
        "Running it again", f"<details><summary>The command of {count(len(rows), 'run')}</summary>",
        tables.table("Command of each run", ["run", "command"], rows), "</details>")


def _prepared(sweep: Sweep, folder: Path) -> str:
    return _section("Prepared runs", tables.prepared_table(sweep, folder)) if sweep.prepared else ""


def render(sweep: Sweep, verdict: Verdict, folder: Path) -> str:
    """The whole page. Links to run folders are relative to `folder`, where the page will lie."""
    package = files("zoo.lab")
    plotly = get_plotlyjs().replace("\r\n", "\n")
    script = package.joinpath("report.js").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_hash(plotly)}' '{_hash(script)}'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'")
    warnings = "".join(f"<li>{escape(text)}</li>" for text in doubts(sweep))
    first = next((run for run in sweep.runs if run.config), None)
    config = "" if first is None else (
        f"<details><summary>Full config of {escape(first.folder.name)}</summary>"
        f"<pre>{escape(json.dumps(first.config, indent=2))}</pre></details>")
    content = "".join([
        f"<h1>{escape(sweep.name)}</h1>",
        f'<p class="question">{escape(sweep.question)}</p>' if sweep.question else "",
        f'<p class="soft">{escape(tables.summary(sweep))}</p>',
        _verdict(sweep, verdict), _claim(sweep),
        f'<section class="warnings"><h2>To keep in mind</h2><ul>{warnings}</ul></section>' if warnings else "",
        _curves(sweep), _lengths(sweep), _section("Arms", tables.arms_table(sweep)), _differences(sweep), _factors(sweep),
        _prepared(sweep, folder), _section("Runs", tables.runs_table(sweep, folder)),
        _section("Configs", tables.config_table(sweep), config),
        _conditions(sweep), _reproduce(sweep),
    ])
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(sweep.name)}</title>\n<style>\n{package.joinpath('report.css').read_text(encoding='utf-8')}</style>\n"
        f"</head><body><main>{content}</main>\n"
        f'<script type="application/json" id="report-data">{embed_json(plot_data(sweep))}</script>\n'
        f"<script>{plotly}</script>\n<script>{script}</script>\n</body></html>\n")
    # Lone surrogates are valid in JSON files and folder names but not in UTF-8.
    return page.encode("utf-8", "replace").decode("utf-8")
