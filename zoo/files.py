"""Small files written whole or not at all, and the one place where caches live."""

import contextlib
import json
import os
from collections.abc import Container
from pathlib import Path
from typing import Any

# What a shell or a scheduler leaves in a folder before the command in it has begun.
OUTPUT_ENDINGS = (".log", ".out", ".err")


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Writes a file so that a reader sees the old one or the new one, never a part of it.

    Raises:
        OSError: with the name of the file. Nothing is left of the new one.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        error.filename = str(path)
        raise


def write_json(path: str | Path, value: Any) -> None:
    """Writes `value` as indented JSON, atomically. NaN and infinities are refused: they are not
    JSON.
    """
    write_atomic(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Reads one JSON document.

    Raises:
        OSError: there is no such file.
        ValueError: it holds something else, or is nested too deeply to be read.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def foreign_entries(folder: Path, known: Container[str]) -> list[str]:
    """Returns the sorted names in a folder that are neither in `known` nor output of a shell or a
    scheduler nor left over from `write_atomic`; empty if there is no folder.
    """
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir())
    return [
        name
        for name in names
        if name not in known
        and not name.endswith(OUTPUT_ENDINGS)
        and not (name.startswith(".") and name.endswith(".tmp"))
    ]


def cache_directory() -> Path:
    """Folder for tokenised corpora and compiled programs: `$ZOO_CACHE`, or `~/.cache/zoo`."""
    return Path(os.environ.get("ZOO_CACHE") or Path.home() / ".cache" / "zoo")
