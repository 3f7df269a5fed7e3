"""Records of `zoo check`: which properties the kinds of a plug-in's text have.

A record belongs to a text, by its sha256: a file that was edited since is unchecked. It is kept in the
user's cache, and beside the text in `plugins/` of every run and sweep with the plug-in.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zoo
from zoo.config.kinds import Kind
from zoo.config.plugins import FOLDER, Plugin, kinds_of, named
from zoo.files import cache_directory, read_object_or_empty, write_atomic

CHECKED = "checked_plugins"
FAIL, PASS = "FAIL", "pass"


def label_of(kind: Kind) -> str:
    """Returns the kind as a setting, "model.attention.kind=retention"."""
    return f"{kind.path}={kind.name}"


def _in_cache(plugin: Plugin) -> Path:
    return cache_directory() / CHECKED / f"{plugin.sha256}.json"


def _beside(text: Path) -> Path:
    return text.with_suffix(".check.json")


def record_of(plugin: Plugin) -> dict[str, Any]:
    """Returns the record of a plug-in's text, from the cache or beside a stored text, or {}."""
    for path in (_in_cache(plugin), _beside(plugin.origin)):
        found = read_object_or_empty(path)
        if found.get("sha256") == plugin.sha256 and isinstance(found.get("kinds"), dict):
            return found
    return {}


def keep(plugin: Plugin, kind: Kind, settings: Mapping[str, Any], outcomes: Sequence[Mapping[str, str]]) -> None:
    """Adds the outcomes of one kind to the record of its plug-in's text.

    Args:
        plugin: the plug-in.
        kind: the kind, one of those that it registers.
        settings: further fields that it was checked with.
        outcomes: {"property", "state", "reason"} of every property.
    """
    kinds = record_of(plugin).get("kinds", {})
    kinds[label_of(kind)] = {"settings": dict(settings), "properties": [dict(one) for one in outcomes]}
    path = _in_cache(plugin)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"plugin": plugin.name, "sha256": plugin.sha256, "zoo": zoo.__version__, "kinds": kinds}
    write_atomic(path, f"{json.dumps(content, indent=2)}\n")


def store(folder: Path, entries: Sequence[str]) -> None:
    """Writes the records of loaded plug-ins beside their texts in the folder of a run or a sweep.

    Args:
        folder: folder of the run or the sweep, in which the texts are stored.
        entries: references of loaded plug-ins.
    """
    for plugin in named(entries):
        if found := record_of(plugin):
            write_atomic(_beside(folder / FOLDER / plugin.name), f"{json.dumps(found, indent=2)}\n")


def properties_in(record: Mapping[str, Any], kind: Kind) -> list[dict[str, str]]:
    """Returns the outcomes of a kind in a record; empty if it is not there."""
    entry = record.get("kinds", {}).get(label_of(kind))
    return well_formed(entry.get("properties") if isinstance(entry, dict) else None)


def well_formed(properties: Any) -> list[dict[str, str]]:
    """Returns the outcomes in what a file holds, without what is none."""
    listed = properties if isinstance(properties, list) else []
    return [one for one in listed if isinstance(one, dict) and {"property", "state", "reason"} <= one.keys()]


def summary(outcomes: Sequence[Mapping[str, str]]) -> str:
    """Returns outcomes in one line: "14 properties hold, 1 fails (causality), 2 not applicable"."""
    counts = Counter(one["state"] for one in outcomes)
    failed = [one["property"] for one in outcomes if one["state"] == FAIL]
    parts = [f"{counts[PASS]} propert{'ies hold' if counts[PASS] != 1 else 'y holds'}"]
    parts += [f"{len(failed)} fail{'s' * (len(failed) == 1)} ({', '.join(failed)})"] if failed else []
    other = len(outcomes) - counts[PASS] - len(failed)
    return ", ".join([*parts, *([f"{other} not applicable"] if other else [])])


def lines_about(plugin: Plugin, only: Kind | None = None) -> list[str]:
    """Returns a line for each kind of a plug-in, or for one: what the check of its text has found, or
    that it is unchecked and by which command it is checked.
    """
    record, lines = record_of(plugin), []
    for kind in kinds_of(plugin) if only is None else [only]:
        found = properties_in(record, kind)
        unchecked = f"this text is unchecked; zoo check --plugin {plugin.origin} {kind.name}"
        lines.append(f"{label_of(kind)} ({plugin.name}): {f'checked, {summary(found)}' if found else unchecked}")
    return lines
