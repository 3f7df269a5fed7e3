"""Masked diffusion against the reference's scores of each row alone, and its bound against the loss of
all orders in which the tokens could be written.
"""

import itertools

import numpy as np
import pytest

from tests.objectives.making import OPENS, OTHER, TOKEN_BYTES, FewTokens, Made, surprisal
from tests.support.comparisons import compared
from zoo.data.rows.diffusion_masking import DiffusionMasking
from zoo.errors import ConfigError

ENCODER = {
    "model.architecture": "encoder",
    "objective.kind": "masked_diffusion",
    "model.vocab_size": 14,
    "model.num_layers": 1,
}
MASK = FewTokens.vocab_size
MASKING = DiffusionMasking((OPENS,), MASK)
ROWS = np.array([[9, 1, 2, 3, 9, 5, 6, 0], [4, 5, 8, 1, 2, 3, 4, 5], [2, 9, 9, 3, 7, -1, -1, -1], [-1] * 8], np.int32)


@pytest.mark.parametrize(
    "overrides",
    [{}, pytest.param({"objective.chunk_tokens": 3, "model.head.transform": True}, marks=OTHER)],
    ids=["plain", "chunked"],
)
def test_loss_equals_that_of_each_row_alone(overrides):
    made, batch = Made(ENCODER | overrides), MASKING.evaluation_batch({"tokens": ROWS}, np.arange(len(ROWS)))
    loss, sums = made.sums(batch)
    expected, size = 0.0, 0.0
    for tokens, places, targets in zip(batch["tokens"], batch["masked_positions"], batch["targets"], strict=True):
        used, n = targets >= 0, ((tokens >= 0) & (tokens != OPENS)).sum()
        if used.any():
            scores = made.logits_alone(tokens[tokens >= 0])[places[used]]
            expected += n / used.sum() * surprisal(scores, targets[used]).sum()
            size += n / used.sum() * TOKEN_BYTES[targets[used]].sum()
    compared(loss, expected, config=made.config, parts="objective")
    assert loss == sums["loss"]
    np.testing.assert_allclose(sums["weight"], 6 + 8 + 3, rtol=1e-6)
    np.testing.assert_allclose(sums["bytes"], size, rtol=1e-6)
    assert sums["tokens"] == 8 + 8 + 5


def test_the_bound_is_the_mean_over_all_orders():
    made, row = Made(ENCODER), np.array([9, 1, 5, 3, 8], np.int32)
    n, places = 4, np.arange(1, 5)

    def shown(hidden):
        tokens = row.copy()
        tokens[list(hidden)] = MASK
        return tokens

    in_order = [
        sum(
            surprisal(made.logits_alone(shown(order[step:]))[[place]], row[[place]]).sum()
            for step, place in enumerate(order)
        )
        for order in itertools.permutations(places)
    ]
    bound = 0.0
    for k in range(1, n + 1):
        choices = list(itertools.combinations(places, k))
        batch = {
            "tokens": np.stack([shown(hidden) for hidden in choices]),
            "masked_positions": np.array([[*hidden, *[0] * (5 - k)] for hidden in choices], np.int32),
            "targets": np.array([[*row[list(hidden)], *[-1] * (5 - k)] for hidden in choices], np.int32),
            "candidates": np.full(len(choices), n, np.int32),
        }
        bound += made.sums(batch)[0] / len(choices) / n
    orders = "the mean loss over all orders of the tokens"
    compared(bound, np.mean(in_order), config=made.config, parts="objective", against=orders)


@pytest.mark.parametrize(
    "field", ["model.head.pooler", "objective.select_fraction", "objective.whole_words", "training.eval_masks"]
)
def test_fields_without_effect_are_refused(field):
    value = {"objective.select_fraction": 0.3, "training.eval_masks": "all"}.get(field, True)
    with pytest.raises(ConfigError, match=field.replace(".", r"\.")):
        Made(ENCODER | {field: value})
