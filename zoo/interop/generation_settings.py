"""Settings of generation in a checkpoint's files that `zoo generate` does not apply."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo.files import read_object_or_empty

GENERATION_FILE = "generation_config.json"
# By setting: the value that changes nothing.
UNAPPLIED: Mapping[str, Any] = {
    "bad_words_ids": None, "begin_suppress_tokens": None, "encoder_no_repeat_ngram_size": 0,
    "exponential_decay_length_penalty": None, "min_length": 0, "min_new_tokens": None, "no_repeat_ngram_size": 0,
    "num_beams": 1, "repetition_penalty": 1.0, "suppress_tokens": None,
}  # fmt: skip


def unapplied_choices(folder: Path, settings: Mapping[str, Any]) -> str:
    """Returns a line about a checkpoint's settings of generation that are not applied here, or "".

    Args:
        folder: of the checkpoint.
        settings: its config.json.
    """
    chosen = read_object_or_empty(folder / GENERATION_FILE) or settings
    found = [
        f"{name}={chosen[name]!r:.40}"
        for name, neutral in UNAPPLIED.items()
        if chosen.get(name) is not None and chosen[name] != neutral
    ]
    return f"zoo generate does not apply the checkpoint's {', '.join(found)}" if found else ""
