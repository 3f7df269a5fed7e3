"""Masking for masked diffusion: how many tokens are hidden, which, and on what it depends."""

import numpy as np

from zoo.data.rows.diffusion_masking import DiffusionMasking

OPENS, MASK = 9, 10
MASKING = DiffusionMasking((OPENS,), MASK)
ROWS = np.array([[9, 1, 2, 3, 9, 5], [9, 4, 5, -1, -1, -1], [-1] * 6], np.int32)


def test_hidden_tokens_are_shown_as_mask_and_are_the_targets():
    batch = MASKING.training_batch({"tokens": ROWS, "segments": ROWS * 0}, np.arange(3), np.zeros(3, int), seed=1)
    assert batch["candidates"].tolist() == [4, 2, 0]
    for row, original in enumerate(ROWS):
        used = batch["targets"][row] >= 0
        places = batch["masked_positions"][row][used]
        assert len(set(places)) == used.sum() == (batch["tokens"][row] == MASK).sum()
        np.testing.assert_array_equal(batch["targets"][row][used], original[places])
        restored = batch["tokens"][row].copy()
        restored[places] = original[places]
        np.testing.assert_array_equal(restored, original)
        assert not np.isin(original[places], [OPENS, -1]).any()
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}
    assert set(batch) == {"tokens", "segments", "masked_positions", "targets", "candidates"}


def test_every_number_of_hidden_tokens_and_every_token_is_equally_likely():
    rows = np.tile(np.array([[9, 1, 2, 3, 4]], np.int32), (8000, 1))
    batch = MASKING.training_batch({"tokens": rows}, np.arange(8000), np.zeros(8000, int), seed=0)
    hidden = batch["tokens"] == MASK
    counts = np.bincount(hidden.sum(axis=1), minlength=5) / 8000
    np.testing.assert_allclose(counts, [0, 0.25, 0.25, 0.25, 0.25], atol=0.02)
    np.testing.assert_allclose(hidden.mean(axis=0), [0, 0.625, 0.625, 0.625, 0.625], atol=0.02)
    # Each pair among the six is as likely as the others.
    pairs = hidden[hidden.sum(axis=1) == 2][:, 1:] @ [1, 2, 4, 8]
    np.testing.assert_allclose(np.unique(pairs, return_counts=True)[1] / len(pairs), 1 / 6, atol=0.03)


def test_masks_depend_on_seed_epoch_and_row_alone():
    rows, indices = {"tokens": ROWS[[0] * 64]}, np.arange(64)

    def hidden(epoch=0, seed=0, order=slice(None)):
        return MASKING.training_batch({"tokens": rows["tokens"]}, indices[order], np.full(64, epoch), seed)["tokens"]

    assert (hidden() == hidden()).all()
    assert (hidden(order=slice(None, None, -1)) == hidden()[::-1]).all()
    assert (hidden(epoch=1) != hidden()).any()
    assert (hidden(seed=1) != hidden()).any()
    evaluated = MASKING.evaluation_batch(rows, indices)["tokens"]
    assert (evaluated == MASKING.evaluation_batch(rows, indices)["tokens"]).all()
    assert (evaluated != hidden()).any()
