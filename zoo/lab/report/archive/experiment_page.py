"""Writes the page of one archived experiment from the files in its folder alone."""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.lab.declarations import POST_HOC, premises_sentences
from zoo.lab.floors.record import PART
from zoo.lab.formatting import count, difference_columns, number, plus_minus_column, with_minus
from zoo.lab.planning.other_corpus import corpus_label
from zoo.lab.report.archive.detectable import detectable_difference
from zoo.lab.report.archive.level_plot import file_name, level_curves
from zoo.lab.report.archive.result_record import ELSEWHERE, FITTED, GRID, NONE, tuning_method, uncommitted
from zoo.lab.results.tuning_grid import tuning_entries
from zoo.lab.results.tuning_misfit import record_misfits
from zoo.lab.statistics.sequential import POWER
from zoo.terminal import shell_line

PAGE = "README.md"
# A column of differences.csv, as text.
TIMES_THE_TOKENS = "times the tokens"


def experiment_page(
    folder: Path, result: Mapping[str, Any], published: Sequence[str] = (), limits: Sequence[str] = ()
) -> str:
    """Returns the page in Markdown.

    It has the question, the rule, the verdict, curves, differences, arms, limits and the command.

    Args:
        folder: of the archived sweep.
        result: its result.json.
        published: results that papers report about its claims.
        limits: sentences on what could be wrong with the experiment.
    """
    return "\n".join(
        [
            f"# {result['name']}: {as_cell(result['question'])}",
            "",
            *_claim(result, published),
            *_text(result),
            *_rules(result),
            f"> {result['paragraph']}",
            "",
            *_earlier_verdicts(result),
            *_conditions(result),
            *_pictures(result, (picture for picture in result["pictures"] if picture.startswith("loss_by"))),
            *_pictures(result, (file_name(curves.field) for curves in level_curves(result))),
            *_differences(folder, result),
            *_pictures(result, (picture for picture in result["pictures"] if picture.startswith("differences"))),
            *_baseline_differences(folder),
            *_arms(folder, result),
            *_limits(limits),
            *_warnings(result),
            *(["Notes:", "", *(f"* {note}" for note in result["notes"]), ""] if result.get("notes") else []),
            " ".join([f"Tables: {', '.join(f'[{file}]({file})' for file in result['tables'])}.", *_command(result)]),
            "",
        ]
    )


def rule_changes(result: Mapping[str, Any]) -> list[str]:
    """Returns the warnings of an archived result that a rule, the metric or an arm was changed when
    runs had finished. Added seeds and looks change no rule.
    """
    return [
        warning
        for warning in result["warnings"]
        if POST_HOC in warning and not warning.startswith(("looks ", "seeds "))
    ]


def read_contrasts(folder: Path) -> list[dict[str, str]]:
    """Returns the rows of an archived contrasts.csv; none without the file."""
    return read_table(folder / "contrasts.csv")


def _numbers(row: Mapping[str, str], *names: str) -> tuple[float, ...]:
    return tuple(float(row[name] or "nan") for name in names)


def read_table(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _claim(result: Mapping[str, Any], published: Sequence[str]) -> list[str]:
    stated = result.get("claim") or {}
    if not stated:
        return []
    premises = "".join(f" {line}." for line in premises_sentences(stated))
    lines = [f"Claim {stated.get('id')}: {stated.get('statement')} ({stated.get('source')}).{premises}", ""]
    return lines + [line for text in published for line in (f"Published: {text}.", "")]


def _text(result: Mapping[str, Any]) -> list[str]:
    if not (corpus := result.get("corpus")):
        return []
    return [f"This is the experiment {corpus['experiment']} on another text, `{corpus['source']}`.", ""]


def _limits(limits: Sequence[str]) -> list[str]:
    return [f"**What could be wrong with it.** {' '.join(dict.fromkeys(limits))}", ""] if limits else []


def _warnings(result: Mapping[str, Any]) -> list[str]:
    """Returns the archived warnings, and those about tuning that older archives lack."""
    found = list(dict.fromkeys([*result["warnings"], *record_misfits(result)]))
    return [*(f"* {warning}" for warning in found), ""] if found else []


def _rules(result: Mapping[str, Any]) -> list[str]:
    if not result["expected"]:
        return []
    changed = rule_changes(result)
    stated = (
        "; it or an arm was changed after runs had finished (see below)" if changed else ", stated before these runs"
    )
    return [f"**Rule{stated}:**", "", *(f"* {rule}" for rule in result["expected"]), ""]


def _earlier_verdicts(result: Mapping[str, Any]) -> list[str]:
    """Says what earlier procedures of judging found, where it was something else."""
    return [
        line
        for before in result.get("verdicts_before", ())
        if before["verdict"] != result["verdict"]
        for line in (f"Judged before by {before['procedure']}: {before['verdict']}.", "")
    ]


def _conditions(result: Mapping[str, Any]) -> list[str]:
    """Says how the arms were tuned, and whether the code is in a commit."""
    entries, method = tuning_entries(result.get("tuning") or {}) or [{}], tuned_by(result)
    settings = "; then ".join(_settings(entry, method) for entry in entries)
    lines = [f"Settings: {settings}.", ""]
    if found := uncommitted(result.get("commits") or ()):
        lines += [
            f"**Uncommitted code.** Runs were trained by code with changes that are in no commit ({', '.join(found)}), "
            "so that nobody can see what ran.",
            "",
        ]
    return lines


def _settings(tuning: Mapping[str, Any], method: str) -> str:
    """Says how one number was tuned."""
    return {
        NONE: "no setting was tuned",
        GRID: "{field} is the best of a grid of {values} values by {seeds} of each, in each arm",
        ELSEWHERE: "{field} was tuned in another sweep ({tuned_at}) and not in this one",
        FITTED: "{field} is fitted in each arm, by a curve through at least {fitted} values with {seeds} of each, "
        "around the best of {values}",
    }[method].format(
        field=tuning.get("field"),
        values=len(tuning.get("values") or ()),
        fitted=min((len(curve["values"]) for curve in (tuning.get("curves") or {}).values()), default=0),
        seeds=count(len(tuning.get("seeds") or ()), "run"),
        tuned_at=tuning.get("tuned_at"),
    )


def tuned_by(result: Mapping[str, Any]) -> str:
    """Returns how the arms of an archived result were tuned: "fitted", "grid", "at another size" or
    "none".
    """
    return result.get("tuned") or tuning_method(result.get("tuning") or {})


def described_size(result: Mapping[str, Any]) -> str:
    """Returns the size, the seeds and the tuning of an archived result, `tiny, 3 seeds, untuned`, and
    its text where that is not the experiment's own.
    """
    words = {NONE: "untuned", GRID: "tuned on a grid", ELSEWHERE: "tuned in another sweep", FITTED: "tuned by a fit"}
    return f"{result['size']}, {count(len(result['seeds']), 'seed')}, {words[tuned_by(result)]}{other_text(result)}"


def other_text(result: Mapping[str, Any]) -> str:
    """Returns `, on news` of an archived sweep on another text than its experiment's, else nothing."""
    return f", on {corpus_label(result['corpus']['source'])}" if result.get("corpus") else ""


def _pictures(result: Mapping[str, Any], pictures: Iterable[str]) -> list[str]:
    shown = [
        f"![{picture.removesuffix('.png').replace('_', ' ')} of {result['name']}]({picture})" for picture in pictures
    ]
    return [*shown, ""] if shown else []


def _differences(folder: Path, result: Mapping[str, Any]) -> list[str]:
    """Returns the table of the contrasts, with the smallest difference that the seeds detect."""
    contrasts, runs = read_contrasts(folder), read_table(folder / "runs.csv")
    if not contrasts:
        return []
    lines = [
        "| contrast | a − b | interval | pairs | rule | outcome | detectable |",
        "| --- | ---: | --- | ---: | --- | --- | ---: |",
    ]
    columns = difference_columns([_numbers(row, "a - b", "low", "high") for row in contrasts])
    for row, *texts in zip(contrasts, *columns, strict=True):
        smallest = detectable_difference(row, runs, result)
        cells = [
            f"{row['contrast']}: {row['a']} (a), {row['b']} (b)",
            *texts,
            row["pairs"],
            row["rule"],
            row["outcome"],
            f"{smallest:.2g}" if smallest is not None else "–",
        ]
        lines.append(f"| {' | '.join(map(as_cell, cells))} |")
    text = (
        "*Interval*: of 90 % under rules of equivalence and non-inferiority (two one-sided tests of 5 %), of 95 % "
        "under others; wider where several looks were planned, or where no other runs tell the noise. *Detectable*: "
        f"the smallest difference that such an interval, of 95 %, finds with {100 * POWER:.0f} % power, in the "
        "metric's unit."
    )
    return [*lines, "", text, ""]


def _baseline_differences(folder: Path) -> list[str]:
    """Returns a table of the differences from the first arm; nothing for archives without them."""
    rows = read_table(folder / "differences.csv")
    if not rows:
        return []
    # Archives from before this column, and sweeps without a learning curve, lack it.
    in_tokens = any(row.get(TIMES_THE_TOKENS) for row in rows)
    header = ["arm", "difference", "interval", *([TIMES_THE_TOKENS] if in_tokens else []), "pairs", "p (Holm)"]
    lines = [f"Differences from {as_cell(rows[0]['baseline'])}, paired by seed:", ""]
    lines += [f"| {' | '.join(header)} |", f"| --- | ---: | --- |{' --- |' if in_tokens else ''} ---: | ---: |"]
    columns = difference_columns([_numbers(row, "difference", "low", "high") for row in rows])
    for row, *texts in zip(rows, *columns, strict=True):
        (p,) = _numbers(row, "p (Holm)")
        cells = [
            row["arm"],
            *texts,
            *([row.get(TIMES_THE_TOKENS) or "–"] if in_tokens else []),
            row["pairs"],
            with_minus(f"{p:.2g}") if math.isfinite(p) else "–",
        ]
        lines.append(f"| {' | '.join(map(as_cell, cells))} |")
    return [*lines, ""]


def _arms(folder: Path, result: Mapping[str, Any]) -> list[str]:
    """Returns the table of arms and floors: parameters, tokens, tuned values, mean and deviation."""
    tuned = [entry["field"] for entry in tuning_entries(result.get("tuning") or {})]
    measured = list(dict.fromkeys(metric for arm in result["arms"] for metric in arm.get("measured", {})))
    runs = read_table(folder / "runs.csv")
    sparse = any("active_parameters" in arm for arm in result["arms"])
    header = [
        "arm",
        "parameters",
        *(["active"] if sparse else []),
        "tokens / parameter",
        *tuned,
        f"{result['metric']}{result['unit'].replace(' ', ', ', 1)}",
        *(metric for metric in measured if metric != result["metric"]),
    ]
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    others = [name for name in measured if name != result["metric"]]
    columns = [_spreads([arm if arm["mean"] is not None else None for arm in result["arms"]], "not finite")]
    columns += [_spreads([arm.get("measured", {}).get(name) for arm in result["arms"]], "–") for name in others]
    for arm, *spreads in zip(result["arms"], *columns, strict=True):
        ratio = tokens_per_parameter(arm, runs)
        cells = [
            arm["name"],
            f"{arm['parameters']:,}" if isinstance(arm["parameters"], int) else "",
            *([f"{arm.get('active_parameters', arm['parameters']):,}"] if sparse else []),
            "" if ratio is None else f"{ratio:.2g}",
            *(f"{arm['overrides'].get(field):g}" for field in tuned),
            *spreads,
        ]
        lines.append(f"| {' | '.join(map(as_cell, cells))} |")
    for floor in result.get("floors", ()):
        metrics = [result["metric"], *others]
        scores = [number(floor["scores"].get(name)) for name in metrics]
        cells = [f"floor: {floor['name']}", "", "", *([""] * (sparse + len(tuned))), *scores]
        lines.append(f"| {' | '.join(map(as_cell, cells))} |")
    return [*lines, "", *_partial_floors(result)]


def _partial_floors(result: Mapping[str, Any]) -> list[str]:
    """Says where floors were counted on a part of what the arms read."""
    floors = ((arm.get("floors") or {}) for arm in result["arms"])
    notes = dict.fromkeys(found.get("note") or "" for found in floors)
    return [
        line
        for note in notes
        if PART in note
        for line in (f"Floors of an arm are {note}, which makes them too easy.", "")
    ]


def tokens_per_parameter(arm: Mapping[str, Any], runs: Iterable[Mapping[str, str]]) -> float | None:
    """Returns the training tokens of an archived arm by its parameters; None if either is unknown.

    Args:
        arm: of a result.json.
        runs: the rows of runs.csv.
    """
    done = (run for run in runs if run["arm"] == arm["name"] and run["state"] == "done")
    tokens = {int(run["tokens"]) for run in done if run.get("tokens")}
    parameters = arm["parameters"]
    return tokens.pop() / parameters if len(tokens) == 1 and isinstance(parameters, int) and parameters else None


def _command(result: Mapping[str, Any]) -> Iterable[str]:
    """Yields the command, if it was recorded, and the device."""
    device = f"on {_device(result['device'])}" if result.get("device") else ""
    device += f" ({processor})" if device and (processor := result.get("processor")) else ""
    if result.get("command"):
        yield f"To repeat: {_code(shell_line(result['command']))}{device and ', ' + device}."
    elif device:
        yield f"Trained {device}."


def as_cell(text: str) -> str:
    """Returns a text that stays in one cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _spreads(found: Sequence[Mapping[str, Any] | None], missing: str) -> list[str]:
    """Returns a column of means with standard deviations; `missing` where there is none."""
    pairs = [None if one is None else (one["mean"], math.nan if one["sd"] is None else one["sd"]) for one in found]
    texts = plus_minus_column(pairs)
    return [missing if pair is None else text for pair, text in zip(pairs, texts, strict=True)]


def _device(device: Any) -> str:
    """Returns e.g. `1 x cpu`."""
    if isinstance(device, dict) and {"count", "kind"} <= set(device):
        return f"{device['count']} x {device['kind']}"
    return device if isinstance(device, str) else json.dumps(device)
