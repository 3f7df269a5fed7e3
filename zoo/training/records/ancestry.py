"""The runs that a run's parameters come from: the tokens that they have seen, and the texts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.files import is_step, read_object_or_empty
from zoo.nested import flatten
from zoo.training.records.run_folder import RunFolder

# Where Orbax keeps what a checkpoint was saved with.
_SAVED = "_CHECKPOINT_METADATA"
ALLOWED, NAME = "training.allow_seen_text", "seen_text"
"""The field that allows held-out text which an ancestor has seen, and its name for `--allow`."""
START, TEACHER = "training.start_from", "objective.distillation.teacher"


def seen_tokens(folder: Path, step: int | None = None) -> int | None:
    """Returns the tokens that the parameters of a run were trained on: its own and those of the run
    that it started from, and so on.

    None if that is not known, as of a model that was imported, or of a run whose records are gone.

    Args:
        folder: of the run.
        step: of the checkpoint that the parameters are those of; None for the newest.
    """
    found = RunFolder(folder, strict=False)
    if isinstance(averaged := found.meta.get("averaged"), dict) and isinstance(averaged.get("folder"), str):
        steps = averaged.get("steps")
        newest = steps[-1] if isinstance(steps, list) and steps and is_step(steps[-1]) else None
        return seen_tokens(Path(averaged["folder"]), newest)
    step = found.newest if step is None else step
    saved = read_object_or_empty(found.path / "checkpoints" / str(step) / _SAVED).get("custom_metadata")
    own = saved.get("tokens") if isinstance(saved, dict) else None
    if not is_step(own):  # Its checkpoint is gone: the last line before it is next.
        rows = [row for row in found.curves.rows if row.get("tokens", -1) >= 0 and row["step"] <= (step or math.inf)]
        own = max((row["tokens"] for row in rows), default=None)
    if "imported" in found.meta or own is None:
        return None
    start = found.meta.get("started_from")
    before = _tokens_before(start) if isinstance(start, dict) else 0
    return None if before is None else int(own) + before


def inherited_tokens(meta: Mapping[str, Any]) -> int:
    """Returns the tokens that a run's initial parameters had seen, by its meta.json; 0 if unknown."""
    start = meta.get("started_from")
    return (_tokens_before(start) or 0) if isinstance(start, dict) else 0


def _tokens_before(start: Mapping[str, Any]) -> int | None:
    """Returns the tokens of a record of the run that another one started from; None if unknown."""
    if is_step(start.get("tokens")):
        return start["tokens"]
    folder, step = start.get("folder"), start.get("step")
    return seen_tokens(Path(folder), step if is_step(step) else None) if isinstance(folder, str) else None


@dataclass(frozen=True)
class Texts:
    """The texts of a run, by names that are equal if the texts are: fingerprints, or fields.

    Attributes:
        sources: those that training text is taken from.
        held_out: the held-out text, if it has a source of its own.
        fraction: share of `sources` that is held out otherwise.
        split: how that share is chosen.
    """

    sources: frozenset[str]
    held_out: str
    fraction: float
    split: tuple[Any, ...]

    @classmethod
    def of_fields(cls, flat: Mapping[str, Any]) -> "Texts":
        """Returns the texts that a flat config names."""
        return cls(frozenset([str(flat.get("data.source"))]), str(flat.get("data.held_out") or ""), *_split(flat))

    @classmethod
    def of_record(cls, flat: Mapping[str, Any], data: Mapping[str, Any]) -> "Texts":
        """Returns the texts that a data set's record names (`zoo.data.TextDataset.summary`), by their
        fingerprints.
        """
        parts = data.get("parts") if isinstance(data.get("parts"), list) else [data]
        held_out = data.get("held_out")
        own = str(held_out.get("fingerprint")) if isinstance(held_out, dict) else ""
        if not own or "parts" in data:
            prints = {str(part.get("fingerprint")) for part in parts if isinstance(part, dict)}
        else:
            # The record of one source with a held-out text has only the fingerprint of both.
            prints = {str(data["source_fingerprint"])} if data.get("source_fingerprint") else set()
        return cls(frozenset(prints), own, *_split(flat))


def _split(flat: Mapping[str, Any]) -> tuple[float, tuple[Any, ...]]:
    names = ("data.split", "data.document_separator", "data.column", "data.bad_text")
    return float(flat.get("data.validation_fraction") or 0), tuple(str(flat.get(name)) for name in names)


def seen_text(texts: Texts, before: Texts) -> str | None:
    """Returns why the held-out text of a run was training text of a run before it, or None.

    A smaller share of one text is a part of a larger one (`Documents.split`).
    """
    if texts.held_out:
        return "data.held_out is its training text" if texts.held_out in before.sources else None
    if not texts.sources & before.sources:
        return None
    if before.held_out:
        return "it was trained on all of data.source, with a held-out text of its own"
    if texts.split != before.split:
        return "it has another split of data.source"
    if texts.fraction > before.fraction:
        return f"it held out only data.validation_fraction={before.fraction:g} of data.source, not {texts.fraction:g}"
    return None


def related_runs(flat: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
    """Yields (field, folder) of the runs that a config's run starts from or learns from, and of those
    that these started from, as far as their folders are there.
    """
    for field in (START, TEACHER):
        folder, known = flat.get(field), set()
        while isinstance(folder, str) and folder and folder not in known:
            known.add(folder)
            yield field, Path(folder)
            folder = flatten(RunFolder(Path(folder), strict=False).config).get(START)


def seen_held_out_text(flat: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> list[str]:
    """Returns a line for each run that a config's run starts from, or learns from, and that was
    trained on its held-out text.

    Args:
        flat: the flat resolved config.
        data: the record of its data set; None if the texts are not read yet, and are compared by the
            names of their sources.
    """
    lines = []
    for field, folder in related_runs(flat):
        found = RunFolder(folder, strict=False)
        its, record = flatten(found.config), found.meta.get("data")
        pairs = [(Texts.of_fields(flat), Texts.of_fields(its))]
        if data is not None and isinstance(record, dict):
            pairs.append((Texts.of_record(flat, data), Texts.of_record(its, record)))
        why = next((why for pair in pairs if its and (why := seen_text(*pair))), None)
        if why:
            lines.append(f"{field}={flat[field]}: held-out text of this run was training text of {folder}: {why}")
    return lines
