"""The tables of a report as HTML. Everything that comes from a file passes through `html.escape`."""

import html
import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from zoo.lab.formatting import confidence, count, interval, measured, number, plus_minus
from zoo.lab.measures import PREFIX, metrics_of
from zoo.lab.metrics import more_is_better, unit
from zoo.lab.results.curves import against_baseline, by_length, final_values
from zoo.lab.results.factor_effects import Effect
from zoo.lab.results.read_runs import STATES, Run, Sweep, differing
from zoo.lab.results.verdict import Verdict, rule_text
from zoo.lab.statistics.paired import PairedDifference, holm, spread
from zoo.nested import flatten


@dataclass(frozen=True)
class Cell:
    """One table cell: text to be escaped, or ready HTML in `markup`."""

    text: str = ""
    kind: str = ""
    markup: str | None = None


def escape(value: Any) -> str:
    return html.escape(str(value), quote=True)


def numeric(text: str) -> Cell:
    """A right-aligned cell with real minus signs."""
    return Cell(text.replace("-", "−") if text[:1] == "-" or " -" in text else text, "number")


def arm_cell(label: str) -> Cell:
    """An arm's label, which may break between factors but not at a hyphen within one."""
    parts = label.split(", ")
    shown = [part + ("," if index < len(parts) - 1 else "") for index, part in enumerate(parts)]
    return Cell(
        markup=" ".join(
            f'<span class="part{" short" if len(part) <= 30 else ""}">{escape(part)}</span>' for part in shown
        )
    )


def state(word: str) -> Cell:
    return Cell(word, markup=f'<span class="state {escape(word.replace(" ", "-"))}">{escape(word)}</span>')


def table(caption: str, header: list[str], rows: Iterable[list[Cell]], numeric_columns: Iterable[int] = ()) -> str:
    """A table whose first column names the row. `caption` is read out and shown."""
    right = set(numeric_columns)
    head = "".join(
        f'<th scope="col"{" class=number" if i in right else ""}>{escape(text)}</th>' for i, text in enumerate(header)
    )
    body = []
    for row in rows:
        cells = []
        for index, cell in enumerate(row):
            inner = escape(cell.text) if cell.markup is None else cell.markup
            tag = 'th scope="row"' if index == 0 else "td"
            kind = f' class="{cell.kind}"' if cell.kind else ""
            cells.append(f"<{tag}{kind}>{inner}</{tag[:2]}>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def contrast_table(sweep: Sweep, verdict: Verdict) -> str:
    """Each contrast: its sides, the difference with its interval, the rule stated beforehand, the
    outcome.
    """
    rows = []
    for outcome in verdict.outcomes:
        contrast, difference = outcome.contrast, outcome.difference
        same = contrast.a.metric == contrast.b.metric == sweep.metric
        sides = [
            sweep.arm(side.arm).label + ("" if same else f" at {side.metric}") for side in (contrast.a, contrast.b)
        ]
        rows.append(
            [
                Cell(contrast.name),
                arm_cell(sides[0]),
                arm_cell(sides[1]),
                numeric(measured(difference.mean, difference.low, difference.high)),
                numeric(interval(difference.low, difference.high)),
                numeric(_effect(difference)),
                numeric(str(difference.n)),
                Cell(f"{contrast.rule.replace('_', '-')}: {rule_text(contrast, sweep.unit)}", "wide"),
                state(outcome.outcome),
            ]
        )
    header = [
        "contrast",
        "a",
        "b",
        "a − b",
        f"{confidence(sweep.alpha)} interval",
        "effect",
        "pairs",
        "rule",
        "outcome",
    ]
    return table("Contrasts, stated before the runs", header, rows, (3, 4, 5, 6))


def _effect(difference: PairedDifference) -> str:
    return f"{difference.effect:.2f}" if math.isfinite(difference.effect) else "–"


def lengths_table(sweep: Sweep) -> str:
    """Final loss at each evaluation length, and where an arm cannot be evaluated."""
    found = by_length(sweep)
    if found is None:
        return ""
    rows = []
    for arm in sweep.arms:
        cells = [arm_cell(arm.label)]
        for length in found.lengths:
            value = found.values[arm.name][length]
            if value is not None:
                cells.append(numeric(plus_minus(value.mean, value.sd)))
            else:
                ended = all(run.finished for run in sweep.runs_of(arm.name))
                cells.append(
                    numeric(
                        "cannot be evaluated"
                        if (arm.name, length) in found.impossible
                        else "not finite"
                        if ended
                        else "not finished"
                    )
                )
        rows.append(cells)
    header = ["arm", *(f"{length:,}" + (" (trained)" if length == found.trained else "") for length in found.lengths)]
    caption = f"Final {found.metric}{sweep.unit(found.metric).replace(' ', ', ', 1)}, by evaluation length (mean ± sd over seeds)"
    return table(caption, header, rows, range(1, len(header)))


def measured_table(sweep: Sweep) -> str:
    """What was measured of the trained runs, by arm; empty where nothing was."""
    metrics = [metric for name in sweep.measures for metric in metrics_of(name) if metric in sweep.metrics()]
    if not metrics:
        return ""
    rows = []
    for arm in sweep.arms:
        found = [spread(final_values(sweep, arm.name, metric).values()) for metric in metrics]
        rows.append(
            [
                arm_cell(arm.label),
                *(numeric("–" if value is None else plus_minus(value.mean, value.sd)) for value in found),
            ]
        )
    header = [
        "arm",
        *(metric.removeprefix(PREFIX).replace("_", " ") + unit(metric).replace(" ", ", ", 1) for metric in metrics),
    ]
    return table("Measured on the trained runs (mean ± sd over seeds)", header, rows, range(1, len(header)))


def _states(runs: list[Run]) -> str:
    counts = [(sum(run.state == word for run in runs), word) for word in STATES]
    return ", ".join(f"{n} {word}" for n, word in counts if n)


def _parameters(sweep: Sweep, arm_name: str) -> int | float | None:
    arms = [sweep.arm(arm_name).parameters, *(run.meta.get("parameters") for run in sweep.runs_of(arm_name))]
    totals = (found.get("total") for found in arms if isinstance(found, dict))
    return next((total for total in totals if isinstance(total, int | float)), None)


def arms_table(sweep: Sweep) -> str:
    """One row per arm: what it is, what it costs, what it reached."""
    factors = list(dict.fromkeys(key for arm in sweep.arms for key in arm.factors))
    # A single factor is the label already.
    factors = factors if len(factors) > 1 else []
    best, seen_is = (max, "highest seen") if more_is_better(sweep.metric) else (min, "lowest seen")
    rows = []
    for arm in sweep.arms:
        runs = sweep.runs_of(arm.name)
        speeds = [run.series("train/tokens_per_second").value for run in runs]
        speeds = np.concatenate(speeds) if speeds else np.array([])
        final = spread(final_values(sweep, arm.name, sweep.metric).values())
        seen = [value for run in runs if (value := run.best(sweep.metric)) is not None]
        rows.append(
            [
                arm_cell(arm.label),
                *(Cell(arm.factors.get(key, "–")) for key in factors),
                numeric(number(_parameters(sweep, arm.name))),
                numeric(number(float(np.round(np.nanmedian(speeds)))) if np.isfinite(speeds).any() else "–"),
                numeric(plus_minus(final.mean, final.sd) if final else "–"),
                numeric(number(best(seen, default=None))),
                Cell(_states(runs), "short"),
            ]
        )
    header = ["arm", *factors, "parameters", "tokens/s", f"final {sweep.metric}", seen_is, "runs"]
    n = len(factors)
    caption = f"Arms (tokens/s: median; final: mean ± sd over the seeds that are done; {seen_is}: over all runs)"
    return table(caption, header, rows, range(1 + n, 5 + n))


def differences_table(sweep: Sweep) -> str:
    """Every arm against the first one, paired by seed."""
    rows = []
    against = against_baseline(sweep)
    # Ten seeds and more are enough for an interval that assumes no normal distribution.
    resampled = any(difference.bootstrap() for difference in against.values())
    for (name, difference), p in zip(against.items(), holm([found.p for found in against.values()]), strict=True):
        seeds = ", ".join(f"{seed}: {value:+.4f}".replace("-", "−") for seed, value in difference.differences.items())
        unpaired = [
            f"{'this arm' if run.arm == name else 'baseline'}, seed {run.seed}: {run.state}"
            for run in sweep.runs
            if run.arm in (name, sweep.arms[0].name) and run.seed not in difference.differences and run.state != "done"
        ]
        rows.append(
            [
                arm_cell(sweep.arm(name).label),
                numeric(measured(difference.mean, difference.low, difference.high)),
                numeric(interval(difference.low, difference.high)),
                *([numeric(interval(*difference.bootstrap()) if difference.bootstrap() else "–")] if resampled else []),
                numeric(f"{difference.p:.2g}" if math.isfinite(difference.p) else "–"),
                numeric(f"{p:.2g}" if math.isfinite(p) else "–"),
                numeric(_effect(difference)),
                numeric(str(difference.n)),
                Cell(seeds or "–"),
                Cell("; ".join(unpaired) or "–"),
            ]
        )
    header = [
        "arm",
        "mean difference",
        f"{confidence(sweep.alpha)} interval",
        *(["bootstrap"] if resampled else []),
        "p (paired t)",
        "p (Holm)",
        "effect",
        "pairs",
        "by seed",
        "not paired",
    ]
    return table(f"Final {sweep.metric} minus that of {sweep.arms[0].label}", header, rows, range(1, 7 + resampled))


def effect_levels(effect: Effect) -> str:
    """`post against pre × 100 against 0`."""
    return " × ".join(f"{level} against {first}" for level, first in effect.levels)


def effects_table(sweep: Sweep, found: list[Effect]) -> str:
    """Main effects and interactions."""
    rows = []
    for effect, p in zip(found, holm([effect.difference.p for effect in found]), strict=True):
        difference = effect.difference
        rows.append(
            [
                Cell(" × ".join(effect.what)),
                Cell(effect_levels(effect)),
                numeric(measured(difference.mean, difference.low, difference.high)),
                numeric(interval(difference.low, difference.high)),
                numeric(f"{p:.2g}" if math.isfinite(p) else "–"),
                numeric(_effect(difference)),
                numeric(str(difference.n)),
            ]
        )
    header = ["factor", "levels", "difference", f"{confidence(sweep.alpha)} interval", "p (Holm)", "effect", "pairs"]
    return table(f"Main effects and interactions in {sweep.metric}", header, rows, range(2, 7))


def _folder_cell(run: Run, page_folder: Path | None) -> Cell:
    if page_folder is None:
        return Cell(run.folder.name)
    # "./" and quoting keep a folder called "javascript:..." a folder.
    target = "./" + quote(os.path.relpath(run.folder, page_folder).replace(os.sep, "/"), errors="replace") + "/"
    name = escape(run.folder.name)
    return Cell(markup=name if run.state == "missing" else f'<a href="{escape(target)}">{name}</a>')


def runs_table(sweep: Sweep, page_folder: Path | None) -> str:
    """One row per run, whatever became of it. Without `page_folder` their folders are not linked."""
    rows = []
    for run in sweep.runs:
        speed = run.series("train/tokens_per_second").value
        steps = run.status.get("steps")
        of_steps = f" of {steps:,}" if isinstance(steps, int) and run.state not in ("done", "missing") else ""
        final = run.final(sweep.metric)
        rows.append(
            [
                _folder_cell(run, page_folder),
                arm_cell(sweep.arm(run.arm).label),
                numeric(str(run.seed)),
                state(run.state),
                numeric(number(final)),
                numeric(number(run.best(sweep.metric))),
                numeric(f"{run.step:,}{of_steps}" if run.state != "missing" else "–"),
                numeric(number(run.seconds, 3)),
                numeric(number(float(np.round(np.nanmedian(speed)))) if np.isfinite(speed).any() else "–"),
                Cell(str(run.status.get("reason") or "")[:2000]),
            ]
        )
    header = ["run", "arm", "seed", "state", f"final {sweep.metric}", "best", "step", "seconds", "tokens/s", "reason"]
    return table("Runs (missing: not started)", header, rows, (2, 4, 5, 6, 7, 8))


def prepared_table(sweep: Sweep, page_folder: Path | None) -> str:
    """One row per run that others start from."""
    rows = [
        [
            _folder_cell(run, page_folder),
            Cell(run.arm),
            numeric(str(run.seed)),
            state(run.state),
            numeric(number(run.final("eval/loss"))),
            numeric(f"{run.step:,}" if run.state != "missing" else "–"),
            numeric(number(run.seconds, 3)),
            Cell(str(run.status.get("reason") or "")[:2000]),
        ]
        for run in sweep.prepared
    ]
    header = ["run", "prepared as", "seed", "state", "final eval/loss", "step", "seconds", "reason"]
    return table("Runs that others start from (no arms: nothing is judged by them)", header, rows, (2, 4, 5, 6))


def config_table(sweep: Sweep) -> str:
    """Config keys in which arms differ; those that the experiment does not name follow from others."""
    started = [run for run in sweep.runs if run.config]
    keys = differing([run.config for run in started])
    named = {key for arm in sweep.arms for key in arm.overrides}
    if not keys:
        return (
            "<p>The configs differ in nothing but the seed.</p>"
            if started
            else "<p>No run has written its config yet.</p>"
        )
    rows = []
    for arm in sweep.arms:
        flat = [flatten(run.config) for run in started if run.arm == arm.name]
        values = [dict.fromkeys(json.dumps(c[key]) if key in c else "–" for c in flat) for key in keys]
        rows.append([arm_cell(arm.label), *(Cell(" | ".join(value) or "–") for value in values)])
    header = ["arm", *(key + (" (derived)" if named and key not in named else "") for key in keys)]
    return table("Config keys that differ (the seed aside)", header, rows)


def facts_table(caption: str, facts: dict[str, Any]) -> str:
    """A flat key and value table."""
    rows = [
        [Cell(key), Cell(value if isinstance(value, str) else json.dumps(value))]
        for key, value in flatten(facts).items()
    ]
    return table(caption, ["", "value"], rows)


def samples_table(caption: str, rows: list[dict[str, str]]) -> str:
    """Texts as they were written, line breaks included."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    cells = [
        [Cell(str(index)), *(Cell(row.get(key, "–"), "sample") for key in header)]
        for index, row in enumerate(rows, start=1)
    ]
    return table(caption, ["", *header], cells)


def summary(sweep: Sweep) -> str:
    """`4 arms, 3 seeds, 12 runs: 10 done, 1 diverged, 1 missing`."""
    size = [f"size {sweep.size}"] if sweep.size else []
    runs = f"{count(len(sweep.runs), 'run')}: {_states(sweep.runs)}"
    return ", ".join([*size, count(len(sweep.arms), "arm"), count(len(sweep.seeds), "seed"), runs])
