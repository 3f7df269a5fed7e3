"""Writes one page about all saved results, from the files of `zoo.lab.report.saved.archive` alone."""

import csv
import json
import math
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, not_writable
from zoo.files import read_json, write_atomic
from zoo.lab.formatting import interval, plus_minus, rounded_mean
from zoo.lab.report.saved.claims_table import claims_lines, read_claims, read_measured
from zoo.lab.report.saved.forest_plot import write_forest_plot
from zoo.lab.report.saved.noise_floor import NOISE_FILE

HEAD = ["# Results", "", "Written by `zoo results` from the tables in these folders."]
# Beside the archive in the project itself.
RULES_PAGE = "../comparisons.md"
RULES = [
    HEAD[-1] + " The experiment files state the rules before any run;",
    f"[comparisons.md]({RULES_PAGE}) explains how they are judged.",
]
TABLE = ["| claim | verdict | result | size |", "| --- | --- | --- | --- |"]


def build(output: Path, tests: Path | None = None) -> Path:
    """Writes `output`/README.md about all saved results in `output`, and returns its path.

    Args:
        output: the folder that `archive_results` wrote to. Other Markdown files in it are listed by
            their titles.
        tests: folder of the tests of exact claims, which are listed too; `test_a4_...` tests the
            claim A4.

    Raises:
        ConfigError: there is no such folder, or a result in it cannot be read.
    """
    if not output.is_dir():
        raise ConfigError(f"{output}: there is no such folder")
    results, problems, by_claim, effects = [], [], {}, []
    for path in sorted(output.glob("*/result.json")):
        try:
            name, result = path.parent.name, read_json(path)
            claim = (result.get("claim") or {}).get("id") or "~"
            results.append((_order(claim), _row(name, result), "\n".join(_section(path.parent, result))))
            contrasts = _read_rows(path.parent / "contrasts.csv")
            by_claim.setdefault(claim, []).append((name, result, contrasts))
            effects += [((_order(claim), f"{claim.strip('~')} {row['contrast']}".strip()), row) for row in contrasts]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problems.append(
                f"{path}: not readable as a result ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            )
    if problems:
        raise ConfigError(problems)
    results.sort(key=lambda found: found[0])
    page, claims, exact, measured = (
        output / "README.md",
        read_claims(output),
        _exact_tests(output, tests),
        read_measured(output),
    )
    try:
        drawn = write_forest_plot([(label, row) for (_, label), row in sorted(effects, key=lambda one: one[0])], output)
        lines = [
            *([*HEAD[:-1], *RULES] if (output / RULES_PAGE).exists() else HEAD),
            "",
            *(claims_lines(claims, by_claim, measured, exact) if claims else []),
            *([f"![the difference of every contrast with its interval]({drawn.name})", ""] if drawn else []),
            *([*TABLE, *(row for _, row, _ in results), ""] if not claims else []),
            *_other(output),
            *_exact(exact),
            *(section for *_, section in results),
        ]
        write_atomic(page, "\n".join(lines))
    except OSError as error:
        raise not_writable(page, error) from error
    return page


def _order(claim: str) -> tuple[str, int]:
    """Returns a sort key that puts N2 before N10."""
    found = re.match(r"([A-Z]+)(\d+)", claim)
    return (found[1], int(found[2])) if found else (claim, 0)


def _row(name: str, result: dict[str, Any]) -> str:
    claim = result.get("claim") or {}
    text = f"{claim.get('id', '')} {claim.get('statement') or result['question']}".strip()
    found = result["paragraph"].split(": ", 1)[-1]
    return (
        f"| [{_cell(text)}](#{_anchor(name)}) | **{result['verdict']}** | {_cell(found)} | {result['size']}, "
        f"{len(result['seeds'])} seeds |"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9_ -]", "", name.lower()).replace(" ", "-")


def _other(output: Path) -> list[str]:
    """Lists the noise floor and the pages that were written by hand."""
    lines = []
    if (output / NOISE_FILE).exists():
        lines += [f"[The noise floor]({NOISE_FILE}): how small a difference an experiment of each size can find.", ""]
    hand_written = []
    for path in sorted(output.glob("*.md")):
        if path.name not in ("README.md", NOISE_FILE) and (
            title := path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").strip()
        ):
            hand_written.append(f"* [{title}]({path.name})")
    return lines + (["Other results, written by hand:", "", *hand_written, ""] if hand_written else [])


def _exact_tests(output: Path, tests: Path | None) -> dict[str, list[str]]:
    """Returns links to the tests of exact claims, by the claim's id, in order."""
    found: dict[str, list[str]] = {}
    for path in sorted(tests.glob("test_*.py")) if tests else []:
        for line in path.read_text(encoding="utf-8").splitlines():
            if match := re.match(r"def test_([a-z])(\d+)_(\w+)\(", line):
                link = Path(os.path.relpath(path, output)).as_posix()
                found.setdefault(f"{match[1].upper()}{match[2]}", []).append(f"[{match[3].replace('_', ' ')}]({link})")
    return {claim: found[claim] for claim in sorted(found, key=_order)}


def _exact(tests: Mapping[str, list[str]]) -> list[str]:
    """Lists the exact claims with their tests."""
    if not tests:
        return []
    rows = [f"| {claim} | {'; '.join(links)} |" for claim, links in tests.items()]
    text = "Exact claims need no training; they are tests."
    return ["## Exact claims", "", text, "", "| claim | tests |", "| --- | --- |", *rows, ""]


def _read_rows(path: Path) -> list[dict[str, str]]:
    """Returns the rows of an archived table; none without the file."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _section(folder: Path, result: dict[str, Any]) -> list[str]:
    name, claim = folder.name, result.get("claim") or {}
    lines = [f"## {name}", "", result["question"], ""]
    if claim:
        lines += [f"Claim {claim.get('id')}: {claim.get('statement')} ({claim.get('source')}).", ""]
    lines += [f"> {result['paragraph']}", ""]
    lines += [f"Expected before the runs: {'; '.join(result['expected'])}.", ""] if result["expected"] else []
    tuned = (result.get("tuning") or {}).get("field")
    measured = list(dict.fromkeys(metric for arm in result["arms"] for metric in arm.get("measured", {})))
    header = [
        "arm",
        "parameters",
        *([tuned] if tuned else []),
        f"{result['metric']}{result['unit'].replace(' ', ', ', 1)}",
        *measured,
    ]
    lines += [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    for arm in result["arms"]:
        parameters = f"{arm['parameters']:,}" if isinstance(arm["parameters"], int) else ""
        found = arm.get("measured", {})
        values = [
            _spread(arm if arm["mean"] is not None else None),
            *(_spread(found[metric]) if metric in found else "–" for metric in measured),
        ]
        rate = [f"{arm['overrides'].get(tuned):g}"] if tuned else []
        lines.append(f"| {' | '.join([_cell(arm['name']), parameters, *rate, *values])} |")
    lines += ["", *_differences(folder)]
    lines += [
        f"![{picture.removesuffix('.png').replace('_', ' ')} of {name}]({name}/{picture})"
        for picture in result["pictures"]
    ]
    lines.append("")
    lines += [
        " ".join([f"Tables: {', '.join(f'[{file}]({name}/{file})' for file in result['tables'])}.", *_made(result)]),
        "",
    ]
    lines += [*(f"* {warning}" for warning in result["warnings"]), ""] if result["warnings"] else []
    lines += ["Notes:", "", *(f"* {note}" for note in result["notes"]), ""] if result.get("notes") else []
    return lines


def _differences(folder: Path) -> list[str]:
    """Returns a table of the differences from the first arm; nothing for archives without them."""
    rows = _read_rows(folder / "differences.csv")
    if not rows:
        return []
    lines = [f"Differences from {_cell(rows[0]['baseline'])}, paired by seed:", ""]
    lines += ["| arm | difference | interval | pairs | p (Holm) |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        mean, low, high, p = (float(row[name] or "nan") for name in ("difference", "low", "high", "p (Holm)"))
        chance = f"{p:.2g}" if math.isfinite(p) else "–"
        lines.append(
            f"| {_cell(row['arm'])} | {rounded_mean(mean, low, high)} | {interval(low, high)} | {row['pairs']} "
            f"| {chance} |"
        )
    return [*lines, ""]


def _made(result: dict[str, Any]) -> Iterable[str]:
    """Yields the command, if it was recorded, and the device."""
    device = f"on {_device(result['device'])}" if result.get("device") else ""
    device += f" ({processor})" if device and (processor := result.get("processor")) else ""
    if result.get("command"):
        yield f"To repeat: {_code(shlex.join(result['command']))}{device and ', ' + device}."
    elif device:
        yield f"Trained {device}."


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _spread(found: dict[str, Any] | None) -> str:
    """Returns the mean and standard deviation as text."""
    return (
        "not finite"
        if found is None
        else plus_minus(found["mean"], found["sd"] if found["sd"] is not None else math.nan)
    )


def _device(device: Any) -> str:
    """Returns e.g. `1 x cpu`."""
    if isinstance(device, dict) and {"count", "kind"} <= set(device):
        return f"{device['count']} x {device['kind']}"
    return device if isinstance(device, str) else json.dumps(device)
