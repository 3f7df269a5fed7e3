"""The texts that a run has generated, shortened for the report."""

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

# The output of `zoo generate --json`, saved in the run's folder, and the translations written at
# evaluations.
FILES = ("samples.jsonl", "translations.jsonl")
MAX_ROWS, MAX_CHARACTERS = 8, 1500


@dataclass(frozen=True)
class Samples:
    """Rows of a file of texts, as {column: text}."""

    file: str
    rows: list[dict[str, str]]


def read_samples(folder: Path) -> Samples | None:
    """Returns the first rows of the first file in a run's folder with a readable line, or None."""
    for name in FILES:
        try:
            with open(folder / name, encoding="utf-8", errors="replace") as file:
                lines = list(islice(file, MAX_ROWS))
        except OSError:
            continue
        if rows := [row for line in lines if (row := _row(line))]:
            return Samples(name, rows)
    return None


def _row(line: str) -> dict[str, str]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}
    return {key: text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…" for key, text in texts.items()}
