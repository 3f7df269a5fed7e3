"""The tab about the plug-ins of a sweep, which are not executed: docstring, equation, fields,
parameters, cache, terms of the loss, checks and text.
"""

import ast
import hashlib
from pathlib import Path
from typing import Any

from zoo.config.check_records import FAIL, summary, well_formed
from zoo.config.plugins import FOLDER
from zoo.files import read_object_or_empty
from zoo.lab.report.html_tables import escape
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict

LISTED = {"fields": "fields", "parameters": "parameters", "loss_terms": "terms of the loss"}


def plugins(sweep: SweepResults, verdict: Verdict, folder: Path | None) -> str:
    """Returns the tab; "" for a sweep without plug-ins."""
    del verdict, folder
    found: dict[str, str] = {}
    for place in (sweep.folder, *(run.folder for run in sweep.runs)):
        for path in sorted((place / FOLDER).glob("*.py")):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            sha256 = hashlib.sha256(text.encode()).hexdigest()
            found[sha256] = found.get(sha256) or _plugin(path, text, sha256)
    return "".join(found.values())


def _plugin(path: Path, text: str, sha256: str) -> str:
    """Returns the section about one text."""
    facts = read_object_or_empty(path.with_suffix(".facts.json"))
    record = read_object_or_empty(path.with_suffix(".check.json"))
    checked = record.get("kinds") if record.get("sha256") == sha256 else None
    checked = checked if isinstance(checked, dict) else {}
    kinds = facts.get("kinds") if facts.get("sha256") == sha256 else None
    kinds = [kind for kind in kinds if isinstance(kind, dict)] if isinstance(kinds, list) else []
    kinds = kinds or [{"kind": label} for label in checked]
    parts = [f"<h2>{escape(path.name)}</h2>", f'<p class="note">sha256 {escape(sha256[:16])}</p>', _docstring(text)]
    parts += [_kind(kind, checked) for kind in kinds]
    code = f"<pre>{escape(text)}</pre>"
    return f"<section>{''.join(parts)}<details open><summary>text</summary>{code}</details></section>"


def _docstring(text: str) -> str:
    try:
        found = ast.get_docstring(ast.parse(text))
    except (SyntaxError, ValueError):
        found = None
    return f"<p>{escape(found)}</p>" if found else ""


def _kind(kind: dict[str, Any], checked: dict[str, Any]) -> str:
    """Returns what is known about one kind."""
    label = str(kind.get("kind"))
    parts = [f"<h3>{escape(label)}</h3>"]
    if kind.get("equation"):
        parts.append(f"<pre>{escape(kind['equation'])}</pre>")
    elif kind.get("meaning"):
        parts.append(f"<p>{escape(kind['meaning'])}</p>")
    items = [
        f"{title}: {escape('; '.join(map(str, lines)))}"
        for key, title in LISTED.items()
        if isinstance(lines := kind.get(key), list) and lines
    ]
    items += [f"cache: {escape(kind['cache'])}"] if kind.get("cache") else []
    entry = checked.get(label)
    properties = entry.get("properties") if isinstance(entry, dict) else None
    outcomes = well_formed(properties)
    items.append(f"checked: {escape(summary(outcomes))}" if outcomes else "this text was not checked when it was run")
    items += [f"{escape(one['property'])} fails: {escape(one['reason'])}" for one in outcomes if one["state"] == FAIL]
    return "".join([*parts, "<ul>", *(f"<li>{item}</li>" for item in items), "</ul>"])
