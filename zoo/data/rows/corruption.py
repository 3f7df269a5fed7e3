"""Corruption of rows by an objective, before a model sees them."""

from typing import Any, Protocol

import numpy as np

from zoo.config.kinds import OBJECTIVE_KINDS
from zoo.data.rows.diffusion_masking import DiffusionMasking
from zoo.data.rows.masking import Masking, rare_token_weights
from zoo.data.rows.packed_rows import Arrays
from zoo.data.rows.row_denoising import Denoising
from zoo.data.rows.spans import SpanCorruption
from zoo.data.tokenizers.tokenizer import Tokenizer


class Corruption(Protocol):
    """Makes batches of rows; the corruption of a row depends only on seed, epoch and row number."""

    def training_batch(self, rows: Arrays, indices: np.ndarray, epochs: np.ndarray, seed: int) -> Arrays:
        """Corrupts rows for training."""

    def evaluation_batch(self, rows: Arrays, indices: np.ndarray) -> Arrays:
        """Corrupts rows for evaluation: the same way every time and for every seed."""


def make_corruption(config: Any, tokenizer: Tokenizer, counts: np.ndarray | None = None) -> Corruption | None:
    """Returns the corruption of a resolved config, or None if its objective has none.

    Args:
        config: the resolved config.
        tokenizer: the tokenizer that made the tokens.
        counts: how often each of its ids occurs in training, [V], for `objective.rare_token_exponent`
            of training; evaluation does not need them.
    """
    objective = config.objective
    boundary_ids = (tokenizer.bos_id, *((tokenizer.separator_id,) if config.data.row_format != "packed" else ()))
    if objective.kind in OBJECTIVE_KINDS.having("masking"):
        if objective.kind in OBJECTIVE_KINDS.having("any_share"):
            return DiffusionMasking(boundary_ids, tokenizer.mask_id)
        masking = Masking(
            objective.select_fraction,
            objective.mask_token_fraction,
            objective.random_token_fraction,
            tokenizer.vocab_size,
            boundary_ids,
            tokenizer.mask_id,
            objective.mask_copies,
            tokenizer.word_joins() if objective.whole_words else None,
            mask_all_in_evaluation=config.training.eval_masks == "all",
            weights=None if counts is None else rare_token_weights(counts, objective.rare_token_exponent),
        )
        rebuilt = objective.kind in OBJECTIVE_KINDS.having("denoising")
        return Denoising(masking, tokenizer.bos_id) if rebuilt else masking
    if objective.kind in OBJECTIVE_KINDS.having("spans"):
        return SpanCorruption(
            objective.noise_density,
            objective.mean_span_length,
            tokenizer.vocab_size,
            objective.sentinels,
            tokenizer.bos_id,
        )
    return None
