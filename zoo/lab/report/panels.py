"""The tabs of the page as HTML. A tab without content is an empty string."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from zoo.lab.declarations import premises_sentences
from zoo.lab.formatting import count
from zoo.lab.measures import find_measure
from zoo.lab.metrics import higher_is_better
from zoo.lab.report import html_tables, result_tables, run_tables, tuning_tables
from zoo.lab.report.about import about_table, conditions_table
from zoo.lab.report.heatmaps import FILE as DYNAMICS_FILE
from zoo.lab.report.html_tables import escape, unbroken
from zoo.lab.report.plugin_panel import plugins
from zoo.lab.report.progress_line import progress_line
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.contrast_verdict import outcome_text
from zoo.lab.results.curves import loss_by_length, main_metrics
from zoo.lab.results.differences import baselines
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.feature_gains import gain_lines
from zoo.lab.results.notes import read_notes
from zoo.lab.results.samples import read_samples
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.tuning_grid import load_tuning_grid
from zoo.lab.results.verdict import Verdict
from zoo.terminal import shell_line

LEGEND = '<ul class="legend" aria-label="arms; press to hide one"></ul>'
CONTROLS = """<div class="controls">
<label>metric <select id="curves-metric"></select></label>
<span class="choice" id="curves-x" role="group" aria-label="horizontal axis"></span>
<label>side by side <select id="curves-beside"></select></label>
<label>difference from <select id="curves-minus"></select></label>
<label>band <select id="curves-band"></select></label>
<label id="curves-smoothing" hidden>smoothing
<select id="curves-window"><option value="0">none</option><option value="1">1 %</option><option value="3">3 %</option>
<option value="10">10 %</option></select></label>
<label><input type="checkbox" id="curves-log-x"> log x axis</label>
<label><input type="checkbox" id="curves-log-y"> log y axis</label>
<label><input type="checkbox" id="curves-late"> second half</label>
<label><input type="checkbox" id="curves-whole"> whole range</label>
<label><input type="checkbox" id="curves-seeds"> single seeds</label>
</div>"""


def section(title: str, *parts: str) -> str:
    """Returns a part of a tab with a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def plot(name: str, description: str) -> str:
    """Returns the element of the chart `name`, one of those in `zoo.lab.report.plot_data`."""
    return (
        f'<div class="plot" id="{name}-plot" data-about="{escape(description)}">'
        '<p class="without-script">This plot needs JavaScript; the tables contain its numbers.</p></div>'
    )


def _note(text: str) -> str:
    return f'<p class="note">{text}</p>'


def _looks(sweep: SweepResults) -> str:
    if not sweep.looks:
        return ""
    return (
        f"Seeds were added until the contrasts were decided, from {min(sweep.looks)} to at most {max(sweep.looks)}. "
        "The intervals are wider for it, so that the error rate of all looks together is at most 5 %. "
    )


def _verdict(sweep: SweepResults, verdict: Verdict) -> str:
    """Returns the verdict; while runs are left, how far the sweep is and what its pairs say so far."""
    progress = progress_line(sweep)
    kind = "running" if progress else verdict.overall.replace(" ", "-")
    title = progress or (verdict.overall.capitalize() if verdict.outcomes else "Result")
    text = verdict.paragraph.removeprefix(verdict.overall.capitalize() + ": ")
    if progress and verdict.outcomes:
        sentences = [outcome_text(outcome, sweep.unit) for outcome in verdict.outcomes if outcome.difference.n]
        text = f"So far: {'. '.join(sentences)}." if sentences else "No contrast has a pair of finished runs yet."
    claim = ""
    if sweep.claim:
        identity, statement, source = (str(sweep.claim.get(key) or "") for key in ("id", "statement", "source"))
        tail = f"<br>Source: {escape(source)}" if source else ""
        tail += "".join(f"<br>{escape(line)}" for line in premises_sentences(sweep.claim))
        claim = f'<p class="soft">Claim {escape(identity)}: {unbroken(statement)}{tail}</p>'
    return (
        f'<section class="verdict {kind}" aria-label="verdict"><h2>{escape(title)}</h2>'
        f"<p>{unbroken(text)}</p>{claim}</section>"
    )


def _notes(sweep: SweepResults) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in read_notes(sweep.folder))
    return f'<section class="notes"><h2>Notes</h2><ul>{lines}</ul></section>' if lines else ""


def _contrasts(sweep: SweepResults, verdict: Verdict) -> str:
    if not verdict.outcomes:
        return ""
    return section(
        "Contrasts",
        result_tables.contrast_table(sweep, verdict),
        _note(
            "Differences are paired by seed. Each interval is for its contrast alone, with the uncertainty of tuning, "
            "and not narrower than other runs say the noise is; refutations are corrected for the number of contrasts "
            f"(Holm). {_looks(sweep)}Hedges' g: mean of the paired differences by their SD, with the correction for "
            "small samples. A negative difference means that a "
            "has the lower value, which is better for losses and worse for scores."
        ),
    )


def overview(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns the verdict and its caveats, the main curves, the arms and the contrasts."""
    warnings = "".join(f"<li>{escape(text)}</li>" for text in sweep_caveats(sweep))
    metrics = main_metrics(sweep)
    drawn = section(metrics[0], LEGEND, plot("overview", f"{metrics[0]} of all arms by update")) if metrics else ""
    answer = _verdict(sweep, verdict) + _contrasts(sweep, verdict) + _answer(sweep)
    return "".join(
        [
            f'<div class="columns"><div>{answer}</div><div>{drawn}</div></div>',
            _notes(sweep),
            f'<section class="warnings"><h2>Caveats</h2><ul>{warnings}</ul></section>' if warnings else "",
            section("Arms", result_tables.arms_table(sweep), _note(escape(result_tables.arms_note(sweep)))),
            _measured(sweep),
            section("About these runs", facts) if (facts := about_table(sweep)) else "",
        ]
    )


def _answer(sweep: SweepResults) -> str:
    """Returns the difference of every arm from each baseline."""
    if len(sweep.arms) < 2:
        return ""
    higher = higher_is_better(sweep.metric)
    words = (
        f"Arm minus baseline, paired by seed: {'above' if higher else 'below'} 0 the arm is better. Intervals have "
        "the uncertainty of tuning, and are not narrower than other runs say the noise is. These comparisons are "
        "descriptive, not tests stated before the runs. Testable: whether the runs can answer which of the two is "
        "better."
    )
    return section("Differences", _baseline_menu(sweep), _by_baseline(sweep, result_tables.answer_table), _note(words))


def _baseline_menu(sweep: SweepResults) -> str:
    """Returns the menu of baselines, which needs a script to act."""
    arms = [arm for arm in sweep.arms if arm in baselines(sweep)]
    if len(arms) < 2:
        return _note(
            f"Baseline: {escape(sweep.baseline_arm.label)}; zoo report DIR --baseline ARM compares with another arm."
        )
    chosen = sweep.baseline_arm
    options = "".join(
        f'<option value="{sweep.arms.index(arm)}"{" selected" if arm is chosen else ""}>{escape(arm.label)}</option>'
        for arm in arms
    )
    return f'<p class="controls needs-script"><label>baseline <select class="baseline">{options}</select></label></p>'


def _by_baseline(sweep: SweepResults, made: Callable[[SweepResults], str]) -> str:
    """Returns what `made` makes of the sweep with each baseline; only that of the chosen one is
    visible.
    """
    return "".join(
        f'<div data-baseline="{sweep.arms.index(arm)}"{"" if arm is sweep.baseline_arm else " hidden"}>'
        f"{made(replace(sweep, baseline=arm.name))}</div>"
        for arm in baselines(sweep)
    )


def _measured(sweep: SweepResults) -> str:
    measured = result_tables.measured_table(sweep)
    notes = [
        f"{name.replace('_', ' ')}: {measure.definition}."
        for name in sweep.measures
        if (measure := find_measure(name)) is not None
    ]
    return (
        section("Measures", measured, _note(escape(" ".join([*notes, "@initial: at the initial values."]))))
        if measured
        else ""
    )


def learning_curves(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns every metric over steps, tokens, FLOPs or seconds, and the loss by length."""
    if not main_metrics(sweep):
        return section("Learning curves", "<p>No run has written a metric yet.</p>")
    note = _note(
        "Line: mean over seeds; band: lowest to highest seed, or the t interval of the mean; faint lines: single "
        "seeds, and raw values behind a smoothed line. A mean ends where the first of its runs ends. A cross marks "
        "where a run diverged, an open circle where one failed, a triangle a loss spike. Differences from an arm are "
        "taken at equal values of the x axis, seed by seed. Drag to zoom, double-click to reset; with the keyboard: "
        "arrows go from point to point, + and − zoom, Escape resets. The address of the page holds what is shown, for "
        "a link to it."
    )
    lengths = (
        ""
        if loss_by_length(sweep) is None
        else section(
            "Loss by evaluation length",
            plot("lengths", "final loss by evaluation length"),
            _note("Mean over seeds; bars: lowest to highest seed. An arm has no point where it cannot be evaluated."),
            result_tables.lengths_table(sweep),
        )
    )
    return (
        section(
            "Learning curves",
            LEGEND,
            CONTROLS,
            f'<div id="curves-grid">{plot("curves", "learning curves of all arms")}</div>',
            note,
        )
        + lengths
    )


def differences(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns every arm against each baseline, with all that is known."""
    if len(sweep.arms) < 2:
        return ""
    if not any(difference.n for difference in baseline_differences(sweep).values()):
        baseline = escape(sweep.baseline_arm.label)
        return section(
            "Differences from the baseline", f"<p>No seed is finished in {baseline} and another arm yet.</p>"
        )
    better = "Right" if higher_is_better(sweep.metric) else "Left"
    return section(
        "Differences from the baseline",
        _baseline_menu(sweep),
        plot("differences", "differences from the baseline"),
        _by_baseline(sweep, result_tables.differences_table),
        _note(
            "Arm minus baseline. Diamond: mean difference over paired seeds; line: t interval; dots: single seeds. "
            f"{better} of zero is better than the baseline. These comparisons are descriptive, not tests stated before "
            "the runs. Each interval is for its comparison alone; p (Holm) is corrected for their number. Hedges' g: "
            "mean of the differences by their SD, with the correction for small samples. Not paired: runs without a "
            "partner of the same seed."
        ),
        _note(escape(explained)) if (explained := result_tables.units_note(sweep)) else "",
    )


def gains(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns what each feature of a recipe gains, if the sweep leaves them out or adds them."""
    lines = gain_lines(sweep)
    return section("Features", *(_note(escape(f"{line[0].upper()}{line[1:]}.")) for line in lines)) if lines else ""


def factors(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns main effects and interactions, if a sweep has at least two factors."""
    found = estimate_effects(sweep)
    if not any(effect.difference.n for effect in found):
        return ""
    return section(
        "Factors",
        _note(
            "A main effect is the difference that a level makes, averaged over all levels of the other factors; an "
            "interaction is how much this difference varies between two levels of another factor. Both are paired by "
            "seed. Diamond: mean; line: t interval; dots: single seeds."
        ),
        plot("effects", "main effects and interactions"),
        result_tables.effects_table(sweep, found),
    )


def tuning(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns the tuning grid of each arm, and all arms at equal values."""
    found = load_tuning_grid(sweep.folder, sweep.tuning)
    if found is None:
        return ""
    same = tuning_tables.same_value_table(sweep, found)
    return section(
        "Tuning",
        _note(
            (
                f"Each arm was trained at the {escape(found.field)} at which a curve through the results of its own "
                "values is lowest; an arm without such a minimum is not tuned, and its contrasts are not judged. The "
                "uncertainty of the minimum is part of the intervals. "
                if found.curves
                else f"Each arm was trained with its best {escape(found.field)} from the same grid. "
            )
            + "The seeds are not used in the comparison. Points: means over these seeds; bars: lowest to highest seed; "
            "values at which a run diverged have no point."
        ),
        LEGEND,
        plot("tuning", f"{found.metric} by {found.field}"),
        tuning_tables.curve_table(sweep, found),
        tuning_tables.grid_table(sweep, found),
        _note("The arms of the tuning runs at equal values:") + same if same else "",
    )


def dynamics(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns heat maps of recorded layer statistics."""
    if not any((run.folder / DYNAMICS_FILE).exists() for run in (*sweep.runs, *sweep.prerequisites)):
        return ""
    return section(
        "Dynamics",
        '<div class="controls"><span class="choice" id="dynamics-statistic" role="group" aria-label="statistic"></span>'
        '<span class="controls" id="dynamics-runs"></span></div><div id="dynamics-maps"></div>',
        _note(
            "Rows: parts of the model; columns: recorded updates; blank: no finite value. Two runs share one scale, "
            "from the 1st to the 99th percentile, logarithmic if that is more than a factor of 50."
        ),
    )


def runs(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns every run, including failed and unfinished ones."""
    prerequisites = section("Prerequisite runs", run_tables.prerequisites_table(sweep)) if sweep.prerequisites else ""
    speed = section(
        "Speed",
        run_tables.speed_table(sweep),
        _note(
            "Tokens/s: median over the updates, with whatever else the machine did. MFU: operations of the model as a "
            "share of the devices' peak."
        ),
    )
    return section("Runs", run_tables.runs_table(sweep)) + prerequisites + speed


def configs(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns the fields in which the configs differ, and one config in full."""
    first = next((run for run in sweep.runs if run.config), None)
    full = (
        ""
        if first is None
        else (
            f"<details><summary>Full config of {escape(first.folder.name)}</summary>"
            f"<pre>{escape(json.dumps(first.config, indent=2))}</pre></details>"
        )
    )
    return section("Configs", run_tables.config_table(sweep), full)


def samples(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns the first texts of each arm, from its first run that has any."""
    parts = []
    for arm in sweep.arms:
        for run in sweep.runs_of(arm.name):
            if found := read_samples(run.folder):
                parts.append(html_tables.samples_table(f"{run.folder.name}: {found.file}", found.rows))
                break
    return section("Samples", *parts) if parts else ""


def reproduce(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns the commands of the sweep and of every run, and what the runs ran on."""
    rows = [
        [
            html_tables.Cell(
                run.folder.name, markup=f'<span id="{run_tables.anchor(run)}">{escape(run.folder.name)}</span>'
            ),
            html_tables.Cell(_path(run.folder, folder)),
            html_tables.Cell(run.meta["command"], markup=f"<code>{escape(run.meta['command'])}</code>"),
        ]
        for run in (*sweep.prerequisites, *sweep.runs)
        if run.meta.get("command")
    ]
    whole = f"<p>The whole sweep: <code>{escape(shell_line(sweep.command))}</code></p>" if sweep.command else ""
    each = (
        ""
        if not rows
        else _note(
            f"The exact command of {count(len(rows), 'run')}, to be run in the folder in which the sweep was started."
        )
        + (html_tables.table("Command of each run", ["run", "folder", "command"], rows))
    )
    commands = section("Commands", whole, each) if whole or each else ""
    conditions = conditions_table(sweep) or "<p>No run has recorded its device and software yet.</p>"
    return commands + section("Conditions", conditions)


def _path(folder: Path, page_folder: Path | None) -> str:
    """Returns the path of a run's folder, from the folder of the page if that is known."""
    return str(folder) if page_folder is None else os.path.relpath(folder, page_folder)


PANELS = (
    ("overview", "Overview", overview),
    ("curves", "Curves", learning_curves),
    ("differences", "Differences", differences),
    ("gains", "Features", gains),
    ("factors", "Factors", factors),
    ("tuning", "Tuning", tuning),
    ("dynamics", "Dynamics", dynamics),
    ("runs", "Runs", runs),
    ("configs", "Configs", configs),
    ("plugins", "Plug-ins", plugins),
    ("samples", "Samples", samples),
    ("reproduce", "Reproduce", reproduce),
)
