"""What a run holds while it reads a text: trained, and at the initial values that its seed gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.analysis.activations import Inside, look_inside, rows_of
from zoo.analysis.word_senses import SENSES
from zoo.errors import ConfigError
from zoo.training.trained_run import TrainedRun, load_trained, values_of


@dataclass(frozen=True)
class Read:
    """A run that has read one text.

    Attributes:
        run: the run.
        labels: by side ("", or "encoder" and "decoder"), what stands for each token in a picture.
        inside: by `TRAINED` and `INITIAL`, then by side, with a batch of one.
    """

    run: TrainedRun
    labels: dict[str, list[str]]
    inside: dict[str, dict[str, Inside]]


def default_text(sentences: int = 1) -> str:
    """Something to read where nobody gives anything: the first sentences of
    `zoo.analysis.word_senses`.
    """
    everything = [text for word in SENSES.values() for group in word.values() for text in group]
    return " ".join(everything[:sentences])


def read(folder: Path, text: str, target: str = "", step: str = "latest", most: int | None = None) -> Read:
    """Lets a run read a text, trained and at initial values.

    Args:
        folder: the run's.
        text: what it reads, or its encoder.
        target: what the decoder of two sides reads.
        step: as for `load_trained`.
        most: tokens of the text after which it is cut; None to refuse a text that is too long.

    Raises:
        ConfigError, DataError: no run, no attention in it, or a text that it cannot read.
    """
    run = load_trained(folder, step)
    config, tokenizer = run.config, run.tokenizer
    if config.model.architecture == "elmo":
        raise ConfigError(f"{folder} is an ELMo, which has no attention and no residual stream")
    if run.source_tokenizer is not None:
        raise ConfigError(f"{folder} reads tokens of a dictionary of its own, and no text can be cut into these")
    both = config.model.architecture == "encoder_decoder"
    if target and not both:
        raise ConfigError(
            f"--target: {folder} has no decoder beside its encoder; its model.architecture is {config.model.architecture}"
        )
    sides = {"encoder": text, "decoder": target} if both else {"": text}
    rows, labels = {}, {}
    for side, each in sides.items():
        opens = not (side == "encoder" and config.objective.kind == "translation")
        # A sentence ends where the rows of this architecture had an end.
        closes = config.model.architecture == "encoder"
        ids, names = _row(tokenizer, each, opens, closes, most)
        if side == "encoder" and config.objective.kind in ("translation", "span", "denoising"):
            ids, names = [*ids, tokenizer.document_id], [*names, "[end]"]
        rows[side], labels[side] = np.array([ids], np.int32), names
    reading = [rows[side] for side in sides]
    inside = {
        name: look_inside(config, run.model, *values, *reading) for name, values in values_of(run).items()
    }
    return Read(run, labels, inside)


def _row(tokenizer, text: str, opens: bool, closes: bool, most: int | None) -> tuple[list[int], list[str]]:
    """(ids, labels) of a text; an empty one is what opens it alone."""
    if not text:
        return [tokenizer.document_id], ["[begin]"]
    rows = rows_of([text], tokenizer, opens, closes)
    found = rows.located[0]
    names = [text[start:stop].strip() or "␣" for start, stop in zip(found.starts, found.stops, strict=True)]
    ids = rows.tokens[0].tolist()
    names = ["[begin]"] * opens + names
    names += ["[end]"] * (len(ids) - len(names))
    return (ids, names) if most is None else (ids[:most], names[:most])


def chosen(asked: str, count: int, what: str) -> Sequence[int]:
    """The numbers in "0,3", all where it is empty.

    Raises:
        ConfigError: no number, or one past the last.
    """
    if not asked:
        return range(count)
    try:
        numbers = [int(part) for part in asked.split(",")]
    except ValueError:
        numbers = [-1]
    if any(not 0 <= number < count for number in numbers):
        raise ConfigError(f"--{what}s {asked}: expected numbers from 0 to {count - 1} with commas between")
    return numbers
