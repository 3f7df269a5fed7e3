"""The file of results: one JSON object a line, which is only ever appended to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE = "lines.jsonl"

Key = tuple[str, str, bool]
"""Stage, cell, and whether it was the small version of a dry run."""


def append(folder: Path, line: Mapping[str, Any]) -> None:
    """Appends a line to the file of a folder.

    A line that an interruption cut off is ended first, so that it spoils no other.

    Raises:
        ValueError: a number is not finite, which JSON cannot hold.
    """
    text = json.dumps(line, allow_nan=False) + "\n"
    with open(folder / FILE, "ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            text = text if file.read(1) == b"\n" else "\n" + text
        file.write(text.encode())


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the lines of a file in order; what was cut off is left out, and a missing file has none."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and {"stage", "cell", "tiny"} <= line.keys():
            found.append(line)
    return found


def key(line: Mapping[str, Any]) -> Key:
    """Returns the stage, cell and size that a line is a result of."""
    return line["stage"], line["cell"], line["tiny"]


def newest(path: Path) -> dict[Key, dict[str, Any]]:
    """Returns the last line of everything that was tried; a success is not replaced by a later failure."""
    found: dict[Key, dict[str, Any]] = {}
    for line in read(path):
        if is_done(line) or not is_done(found.get(key(line))):
            found[key(line)] = line
    return found


def is_done(line: Mapping[str, Any] | None) -> bool:
    """Returns whether a line is a result, and not a failure or a reason why there is none. Running out
    of memory is a result.
    """
    return line is not None and not ("error" in line or "skipped" in line)
