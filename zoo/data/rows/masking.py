"""Masking for masked language modelling.

The corruption of a row depends only on the seed, the epoch and the row number, not on batches,
hosts or restarts. So all arms of an experiment see the same masks, and each epoch has new ones.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zoo.data.rows.packed_rows import BYTES, PADDING, Arrays
from zoo.data.tokenizers.word_boundaries import WordJoins, choose_words, first_tokens

EVALUATION, TRAINING = 0, 1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Masking:
    """Masking of Devlin et al. 2019, section 3.1, Task 1.

    Masks are new in every epoch (dynamic masking), or repeat (Liu et al. 2019, section 4.1).

    `select_fraction` of a row's tokens are predicted, rounded, and at least one: never padding and
    never a boundary token ("[CLS]", "[SEP]"). Each of them is replaced by [MASK] with probability
    `mask_token_fraction`, by a random token with probability `random_token_fraction`, and else left
    unchanged. Random tokens are uniform over the tokenizer's ids without boundary tokens, which
    would mark a boundary that is not there.

    With `joins` whole words are selected, in random order, until that many tokens are selected; a
    word that would exceed the number is skipped (whole-word masking, as in BERT's later models), so
    long words are selected slightly less often. All tokens of a selected word are predicted; each
    is replaced independently. A row in which every word is too long predicts nothing.

    With `weights` training selects the tokens of a row one after the other, without replacement, each
    time with a probability in proportion to the weights of those that are left (Lample & Conneau 2019,
    section 3.3; see `rare_token_weights`). As many are selected as without. Evaluation selects all
    with equal probability, so its losses are comparable.

    Attributes:
        select_fraction, mask_token_fraction, random_token_fraction: as in `objective`.
        vocab_size: number of the tokenizer's ids.
        boundary_ids: ids that are never predicted and never drawn: the token that opens a document,
            and the separator if rows have one.
        mask_id: id of [MASK].
        copies: number of masks per row, which its epochs use in turn; 0 for new ones in every
            epoch.
        joins: which tokens form words, if whole words are selected.
        mask_all_in_evaluation: evaluation shows all predicted tokens as [MASK].
        weights: positive weight of each of the tokenizer's ids, [V]; None for equal ones.
    """

    select_fraction: float
    mask_token_fraction: float
    random_token_fraction: float
    vocab_size: int
    boundary_ids: tuple[int, ...]
    mask_id: int
    copies: int = 0
    joins: WordJoins | None = field(default=None, compare=False, repr=False)
    mask_all_in_evaluation: bool = False
    weights: np.ndarray | None = field(default=None, compare=False, repr=False)

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Corrupts rows for training.

        Args:
            rows: "tokens" [B, T], padded with -1; all other arrays are passed on unchanged.
            indices: number of each row, [B].
            epochs: epoch of each row, [B].
            seed: the run's seed.

        Returns:
            int32 arrays: "tokens" [B, T], which the model sees, padding still -1;
                "masked_positions" [B, N], the positions of the predicted tokens in their row, in no
                order; "targets" [B, N], the original tokens, -1 for unused entries, and `BYTES` [B,
                N], theirs; and all other arrays of `rows`. N is the number of predicted tokens of a
                row without padding and boundaries.
        """
        keys = row_keys(TRAINING, seed, epochs % self.copies if self.copies else epochs, indices)
        return self._corrupted(rows, keys, self.weights)

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Corrupts rows for evaluation: the same way every time and for every seed.

        Arguments and result are those of `training_batch`.
        """
        shown = (
            replace(self, mask_token_fraction=1.0, random_token_fraction=0.0) if self.mask_all_in_evaluation else self
        )
        return shown._corrupted(rows, row_keys(EVALUATION, indices))

    def _count(self, tokens: Any) -> Any:
        return np.minimum(tokens, np.maximum(1, np.floor(self.select_fraction * tokens + 0.5))).astype(np.int64)

    def _corrupted(self, named: Arrays, keys: np.ndarray, weights: np.ndarray | None = None) -> Arrays:
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
        if weights is not None:
            # Exponential with the weight as rate: each is the smallest with a probability in
            # proportion to its weight, and so it is among the rest (Efraimidis & Spirakis 2006).
            order = -np.log1p(-order) / weights.take(rows, mode="clip")
        # The candidates with the smallest draws: a uniform choice without replacement. Whole words
        # are already chosen.
        places = np.argsort(np.where(candidates, order, np.inf), axis=1, kind="stable")[:, :width]
        used = np.arange(width) < count[:, None]
        targets = np.where(used, np.take_along_axis(rows, places, axis=1), PADDING)
        shown = np.where(
            action < self.mask_token_fraction,
            self.mask_id,
            np.where(action < self.mask_token_fraction + self.random_token_fraction, self._random(other), targets),
        )
        tokens = rows.copy()
        row, place = np.nonzero(used)
        tokens[row, places[row, place]] = shown[row, place]
        batch = {**named, "tokens": tokens, "masked_positions": np.where(used, places, 0), "targets": targets}
        batch |= bytes_at(named, places, used)
        return {name: array.astype(np.int32) for name, array in batch.items()}

    def _random(self, draws: np.ndarray) -> np.ndarray:
        """Ids that are uniform over the tokenizer's without boundary tokens."""
        left_out = sorted(id for id in self.boundary_ids if id < self.vocab_size)
        ids = np.floor(draws * (self.vocab_size - len(left_out))).astype(np.int32)
        for id in left_out:
            ids += ids >= id
        return ids


def rare_token_weights(counts: np.ndarray, exponent: float) -> np.ndarray:
    """Returns max(n, 1)^-exponent for the number of occurrences n of each id, float64 [V].

    With the exponent 0.5 this is the weight of Lample & Conneau 2019, section 3.3; with 0.7 that of
    the authors' training script for DistilBERT (Sanh et al. 2019).
    """
    return np.maximum(counts, 1.0) ** -exponent


def bytes_at(rows: Arrays, places: np.ndarray, used: np.ndarray) -> Arrays:
    """Returns the bytes of the tokens at some places of rows, [B, N], where they are known."""
    return {BYTES: np.where(used, np.take_along_axis(rows[BYTES], places, axis=1), 0)} if BYTES in rows else {}


def _splitmix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def row_keys(*words: Any) -> np.ndarray:
    """Hashes whole numbers, some of which are arrays [B], into one key per row: uint64 [B]."""
    state = np.zeros(1, np.uint64)
    for word in words:
        state = _splitmix(state + np.asarray(word, np.uint64) + _GOLDEN)
    return state


def uniform_draws(keys: np.ndarray, count: int) -> np.ndarray:
    """Returns numbers in [0, 1), [B, count], by SplitMix64 (Steele et al. 2014) from each key.

    There is no loop over rows.
    """
    steps = np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN
    return (_splitmix(keys[:, None] + steps) >> np.uint64(11)) * 2.0**-53
