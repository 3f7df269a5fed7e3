"""The vectors of the words of sentences in every layer of a run.

The vector of a word is the mean over its pieces.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from zoo.analysis.activations import EncodedTexts, elmo_layer_states, encode_texts, input_vectors, record_activations
from zoo.training.trained_run import TrainedRun

WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
BATCH_SIZE = 32


class WordOccurrence(NamedTuple):
    """A word in a sentence.

    Attributes:
        sentence: index of the sentence.
        word: as written.
        ids: token ids of its pieces.
        places: indices of the pieces among the tokens of the sentence.
    """

    sentence: int
    word: str
    ids: tuple[int, ...]
    places: tuple[int, ...]


def find_words(texts: Sequence[str], rows: EncodedTexts) -> list[WordOccurrence]:
    """Returns all words of the texts that have pieces."""
    found = []
    for number, (text, offsets) in enumerate(zip(texts, rows.offsets, strict=True)):
        for match in WORD.finditer(text):
            places = np.flatnonzero((offsets.starts < match.end()) & (offsets.stops > match.start()))
            if len(places):
                ids = tuple(offsets.ids[places].tolist())
                found.append(WordOccurrence(number, match[0], ids, tuple(places.tolist())))
    return found


def read_word_vectors(
    run: TrainedRun, tokenizer, texts: Sequence[str]
) -> tuple[list[str], list[WordOccurrence], Float[np.ndarray, "layers N E"]]:
    """Returns the names of the layers, the words of the texts, and their vectors in float64."""
    config, model, values = run.config, run.model, (run.params, run.stats)
    elmo = config.model.architecture == "elmo"
    spellings = tokenizer.token_characters(config.model.elmo.characters) if elmo else None
    rows = encode_texts(texts, tokenizer)
    words = find_words(texts, rows)
    ids, places = np.unique(rows.tokens[rows.tokens >= 0], return_inverse=True)
    of_ids = input_vectors(config, model, *values, ids, spellings)
    table = np.zeros((*rows.tokens.shape, of_ids.shape[1]), np.float32)
    table[rows.tokens >= 0] = of_ids[places]
    batches = []
    for tokens in _batches(rows.tokens):
        if elmo:
            # The lowest layer of an ELMo is its input table, which is there already.
            found = elmo_layer_states(model, *values, spellings[np.maximum(tokens, 0)], tokens >= 0)[1:]
        else:
            begin = np.full((len(tokens), 1), tokenizer.bos_id, np.int32)
            found = next(iter(record_activations(config, model, *values, tokens, begin, maps=False).values())).states
        batches.append(np.pad(found, [(0, 0), (0, 0), (0, rows.tokens.shape[1] - found.shape[2]), (0, 0)]))
    states = np.concatenate([table[None], np.concatenate(batches, axis=1)[:, : len(texts)]])
    vectors = np.empty((len(states), len(words), states.shape[-1]))
    for index, word in enumerate(words):
        pieces = rows.first + np.array(word.places)
        vectors[:, index] = states[:, word.sentence, pieces].astype(np.float64).mean(axis=1)
    layers = len(states) - (1 if elmo else 2)
    names = ["input table", *([] if elmo else ["first input"]), *(f"layer {number}" for number in range(layers))]
    return names, words, vectors


def _batches(tokens: np.ndarray) -> Iterator[np.ndarray]:
    """Yields batches of equal size, each as wide as its longest row, rounded up to 16.

    Few different shapes mean few compiled programs.
    """
    for start in range(0, len(tokens), BATCH_SIZE):
        part = tokens[start : start + BATCH_SIZE]
        width = min(-(-int((part >= 0).sum(axis=1).max()) // 16) * 16, tokens.shape[1])
        batch = np.full((BATCH_SIZE, width), -1, np.int32)
        batch[: len(part)] = part[:, :width]
        # A row of padding alone would have nothing to attend to.
        batch[len(part) :] = batch[0]
        yield batch
