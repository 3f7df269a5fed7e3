"""The activations of a run while it reads a text, trained and at the initial values of its seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zoo.analysis.activations import StackActivations, encode_texts, record_activations
from zoo.config.kinds.side_lengths import side_lengths
from zoo.data.tokenizers.run_frame import frame_of_run
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE, Tokenizer
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives.objective import beyond_position_table
from zoo.training.trained_run import TrainedRun, imported_frame, load_trained, read_settings, trained_and_initial

MAX_TEXT = 90
"""Characters of a text that a title shows."""
SENTENCES = (
    "after she lost her job she borrowed a little money from the bank and paid it back .",
    "the thieves knew how much cash was kept in the bank that night .",
    "he took his savings and opened an account with a small bank in the city .",
    "interest on the loan has to be paid to the bank every month .",
    "they pulled the boat out of the river and up the muddy bank before dark .",
    "the water rose until it flowed over the bank and into the fields .",
    "willows grew all along the stream , on its steep northern bank and in the shallows .",
    "the fisherman sat all day with his rod on the grassy bank near the old bridge .",
)
"""The built-in text, in words that are separated by spaces."""


@dataclass(frozen=True)
class RunActivations:
    """The activations of a run for one text.

    Attributes:
        run: the run.
        labels: by side ("", or "encoder" and "decoder"), the text shown for each token.
        stacks: by `TRAINED` and `INITIAL`, then by side, the activations of a batch of one.
        source: the run's folder, the step and the text, for titles.
    """

    run: TrainedRun
    labels: dict[str, list[str]]
    stacks: dict[str, dict[str, StackActivations]]
    source: str = ""


def default_text(sentences: int = 1) -> str:
    """Returns the first of `SENTENCES`, which are read if no text is given."""
    return " ".join(SENTENCES[:sentences])


def read_text(
    folder: Path,
    text: str = "",
    target: str = "",
    step: str = "latest",
    max_tokens: int | None = None,
    sentences: int = 1,
) -> RunActivations:
    """Lets a run read a text, trained and at initial values.

    Args:
        folder: the run's folder.
        text: input of the model, or of the encoder of an encoder-decoder; "" for built-in
            sentences, as much of them as a row of the run's training holds.
        target: input of the decoder of an encoder-decoder.
        step: as for `load_trained`.
        max_tokens: number of tokens at which the text is cut off; None rejects a text that is too
            long.
        sentences: number of built-in sentences.

    Raises:
        ConfigError: there is no such run, it has no attention, or a text is too long for it. No
            checkpoint has been read then.
        DataError: its tokenizer cannot encode a text.
    """
    config, tokenizer = read_settings(folder)
    if config.model.architecture == "elmo":
        raise ConfigError(f"{folder} is an ELMo, which has no attention and no residual stream")
    if (folder / SOURCE_TOKENIZER_FILE).is_file():
        raise ConfigError(f"{folder} uses a fixed vocabulary without a tokenizer, so text cannot be tokenized")
    both = config.model.architecture == "encoder_decoder"
    if target and not both:
        raise ConfigError(
            f"--target: {folder} is not an encoder-decoder; its model.architecture is {config.model.architecture}"
        )
    frame = frame_of_run(config, tokenizer, imported=imported_frame(folder))
    if not text:
        length = side_lengths(config.objective, config.data.sequence_length)[0] if both else config.data.sequence_length
        text = beginning(default_text(sentences), tokenizer, length - len(frame.before) - len(frame.after))
    sides = {"encoder": (text, frame), "decoder": (target, TextFrame(frame.decoder))} if both else {"": (text, frame)}
    rows, labels = {}, {}
    for side, (each, around) in sides.items():
        ids, labels[side] = _encode(tokenizer, each, around, max_tokens)
        rows[side] = np.array([ids], np.int32)
    inputs, model = [rows[side] for side in sides], make_model(config)
    for side, each in rows.items():
        if problem := beyond_position_table(config.model, getattr(model, side) if side else model, each.shape[1]):
            flag = "--target" if side == "decoder" else "--text"
            raise ConfigError(
                f"{flag} has {each.shape[1]} tokens, too many for {folder}: {problem}; give a shorter one"
            )
    run = load_trained(folder, step)
    stacks = {
        name: record_activations(config, run.model, *values, *inputs)
        for name, values in trained_and_initial(run).items()
    }
    return RunActivations(run, labels, stacks, describe_source(folder, run.step, text, target))


def describe_source(folder: Path, step: int, *texts: str) -> str:
    """Returns the run, its step and the beginnings of the texts that it reads, for a title."""
    short = [text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…" for text in texts if text]
    return "\n".join([f"{folder}, step {step:,}", *(f"“{text}”" for text in short)])


def beginning(text: str, tokenizer: Tokenizer, count: int) -> str:
    """Returns the beginning of a text that has at most `count` tokens, in whole words if it can."""
    (found,) = tokenizer.encode_with_offsets([text])
    if len(found.ids) <= count:
        return text
    kept = text[: found.stops[max(count, 1) - 1]]
    words = text[: len(kept) + 1].rsplit(None, 1)[0]
    return words if words.strip() else kept


def _encode(tokenizer: Tokenizer, text: str, frame: TextFrame, max_tokens: int | None) -> tuple[list[int], list[str]]:
    """Returns the ids and labels of a text; an empty text is the tokens with which it begins."""
    if not text:
        ids = list(frame.before) or [tokenizer.bos_id]
        return ids, ["[begin]"] * len(ids)
    rows = encode_texts([text], tokenizer, frame)
    found = rows.offsets[0]
    names = [text[start:stop].strip() or "␣" for start, stop in zip(found.starts, found.stops, strict=True)]
    ids = rows.tokens[0].tolist()
    names = [*["[begin]"] * len(frame.before), *names, *["[end]"] * len(frame.after)]
    return (ids, names) if max_tokens is None else (ids[:max_tokens], names[:max_tokens])


def parse_indices(text: str, count: int, what: str) -> Sequence[int]:
    """Returns the numbers in a text like "0,3", or all of `range(count)` if it is empty.

    Raises:
        ConfigError: a part is not a number from 0 to count - 1.
    """
    if not text:
        return range(count)
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if any(not 0 <= number < count for number in numbers):
        raise ConfigError(f"--{what}s {text}: expected numbers from 0 to {count - 1}, separated by commas")
    return numbers
