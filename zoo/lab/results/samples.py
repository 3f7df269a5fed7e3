"""The texts that a run has generated, shortened for the report."""

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from zoo.files import printable, read_json_lines

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
        rows = [_texts(row) for _, row in islice(read_json_lines(folder / name), MAX_ROWS) if row]
        if rows:
            return Samples(name, rows)
    return None


def _texts(row: dict[str, Any]) -> dict[str, str]:
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in printable(row).items()}
    return {key: text if len(text) <= MAX_CHARACTERS else text[:MAX_CHARACTERS] + "…" for key, text in texts.items()}
