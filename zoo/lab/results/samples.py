"""The texts that a run has written, as far as a page shows them."""

import json
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

# The first is what `zoo generate --json` prints, kept in the run's folder; the second is what
# translation writes at its evaluations.
FILES = ("samples.jsonl", "translations.jsonl")
MOST_ROWS, MOST_CHARACTERS = 8, 1500


@dataclass(frozen=True)
class Samples:
    """Rows of a file of texts: what is there under which name."""

    file: str
    rows: list[dict[str, str]]


def read_samples(folder: Path) -> Samples | None:
    """The first rows of the first file that a run's folder has; None where there is none, or none
    with a readable line.
    """
    for name in FILES:
        try:
            with open(folder / name, encoding="utf-8", errors="replace") as file:
                lines = list(islice(file, MOST_ROWS))
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
    return {key: text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…" for key, text in texts.items()}
