"""Corruption of rows for masked language modelling: which tokens are hidden, and behind what.

What happens to a row is a function of the seed, the epoch and the row's number alone, and of
nothing that varies with batches, hosts or a restart. So every arm of an experiment sees the same
masks, and each epoch has new ones.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zoo.data.rows.packed_rows import PADDING, Arrays
from zoo.data.tokenizers.word_boundaries import WordJoins, choose_words, first_tokens

EVALUATION, TRAINING = 0, 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Masking:
    """Devlin et al. 2019, section 3.1, Task 1, with new masks in every epoch, or the same ones
    again (Liu et al. 2019, section 4.1).

    `select_fraction` of a row's tokens are predicted, rounded, and at least one: never padding,
    never a token that only tells of a border ("[CLS]", "[SEP]"). Of those each is shown as [MASK]
    with probability `mask_fraction`, as a random token with `random_fraction`, and else as it is.
    Random tokens are uniform over the tokenizer's ids without those of borders, which would tell of
    one that is not there.

    With `joins` whole words are chosen: in random order until that many tokens are, and a word that
    would be too many is passed over (whole-word masking, as BERT's later models have it), so that
    long words are chosen a little less often. Of each word all tokens are predicted, each with a
    draw of its own of how it is shown. A row in which no word is short enough predicts nothing.

    Attributes:
        select_fraction, mask_fraction, random_fraction: as in `objective`.
        vocab_size: number of the tokenizer's ids.
        borders: ids that are never predicted and never drawn: what opens a document, and what ends
            a sentence where rows have that.
        mask_id: id of [MASK].
        copies: masks of a row, which its epochs take in turn; 0 for new ones in every epoch.
        joins: which tokens form words, where whole words are chosen.
        evaluate_hidden: evaluation shows all predicted tokens as [MASK].
    """

    select_fraction: float
    mask_fraction: float
    random_fraction: float
    vocab_size: int
    boundary_ids: tuple[int, ...]
    mask_id: int
    copies: int = 0
    joins: WordJoins | None = field(default=None, compare=False, repr=False)
    mask_all_in_evaluation: bool = False

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Corrupts rows for training.

        Args:
            rows: "tokens" [B, T], padded with -1; what else there is stays as it is.
            indices: number of each row, [B].
            epochs: epoch of each row, [B].
            seed: the run's.

        Returns:
            int32 arrays: "tokens" [B, T], what the model sees, padding still -1; "places" [B, N],
                the predicted tokens' places in the
            row, in no order; "targets" [B, N], the tokens that were there, -1 for places that stay
            unused. N is the number of predicted tokens of a row in which all can be. Besides, all
            else that `rows` has.
        """
        return self._corrupted(rows, row_keys(TRAINING, seed, epochs % self.copies if self.copies else epochs, indices))

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Corrupts rows for evaluation, the same way every time and for every seed; as
        `training_batch`.
        """
        shown = replace(self, mask_fraction=1.0, random_fraction=0.0) if self.mask_all_in_evaluation else self
        return shown._corrupted(rows, row_keys(EVALUATION, indices))

    def _count(self, tokens: Any) -> Any:
        return np.minimum(tokens, np.maximum(1, np.floor(self.select_fraction * tokens + 0.5))).astype(np.int64)

    def _corrupted(self, named: Arrays, keys: np.ndarray) -> Arrays:
        rows = named["tokens"]
        length = rows.shape[1]
        width = int(self._count(np.array(length)))
        draws = uniform_draws(keys, length + 2 * width)
        order, action, other = np.split(draws, [length, length + width], axis=1)
        candidates = (rows != PADDING) & ~np.isin(rows, self.boundary_ids)
        count = self._count(candidates.sum(axis=1))
        if self.joins is not None:
            candidates = choose_words(first_tokens(rows, self.joins, candidates), candidates, order, count)
            count = candidates.sum(axis=1)
        # The candidates with the smallest draws: a uniform choice without replacement, where they
        # are not the choice already.
        places = np.argsort(np.where(candidates, order, 2.0), axis=1, kind="stable")[:, :width]
        used = np.arange(width) < count[:, None]
        targets = np.where(used, np.take_along_axis(rows, places, axis=1), PADDING)
        shown = np.where(
            action < self.mask_fraction,
            self.mask_id,
            np.where(action < self.mask_fraction + self.random_fraction, self._random(other), targets),
        )
        tokens = rows.copy()
        row, place = np.nonzero(used)
        tokens[row, places[row, place]] = shown[row, place]
        batch = {**named, "tokens": tokens, "places": np.where(used, places, 0), "targets": targets}
        return {name: array.astype(np.int32) for name, array in batch.items()}

    def _random(self, draws: np.ndarray) -> np.ndarray:
        """Ids, uniform over the tokenizer's without those of borders."""
        left_out = sorted(id for id in self.boundary_ids if id < self.vocab_size)
        ids = np.floor(draws * (self.vocab_size - len(left_out))).astype(np.int32)
        for id in left_out:
            ids += ids >= id
        return ids


def _splitmix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def row_keys(*words: Any) -> np.ndarray:
    """One key per row out of whole numbers, of which some are arrays [B]: uint64 [B]."""
    state = np.zeros(1, np.uint64)
    for word in words:
        state = _splitmix(state + np.asarray(word, np.uint64) + _GOLDEN)
    return state


def uniform_draws(keys: np.ndarray, count: int) -> np.ndarray:
    """Numbers in [0, 1), [B, count]: SplitMix64 (Steele et al. 2014) from each key, which needs no
    loop over rows.
    """
    steps = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    return (_splitmix(keys[:, None] + steps) >> np.uint64(11)) * 2.0**-53
