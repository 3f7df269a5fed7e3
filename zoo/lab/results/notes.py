"""Notes of people on a sweep, in notes.md in its folder: one line each."""

import datetime
from pathlib import Path

from zoo.errors import ConfigError, not_writable
from zoo.files import printable, write_atomic

NOTES_FILE = "notes.md"
MAX_NOTES, MAX_CHARACTERS = 200, 2000


def read_notes(folder: Path) -> list[str]:
    """Returns the lines of a sweep's notes, without list markers; none without the file."""
    if not (folder / "experiment.json").is_file():
        return []
    try:
        text = (folder / NOTES_FILE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    lines = (line.strip().removeprefix("* ").removeprefix("- ") for line in text.splitlines())
    return [printable(line)[:MAX_CHARACTERS] for line in lines if line and not line.startswith("#")][:MAX_NOTES]


def add_note(folder: Path, text: str, today: datetime.date | None = None) -> None:
    """Appends a note with its date.

    Raises:
        ConfigError: the note is empty, or the file cannot be written.
    """
    line = " ".join(text.split())
    if not line:
        raise ConfigError("--note: the note is empty")
    path = folder / NOTES_FILE
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if before and not before.endswith("\n"):
            before += "\n"
        write_atomic(path, f"{before}* {today or datetime.date.today()}: {line}\n")
    except OSError as error:
        raise not_writable(path, error) from error
