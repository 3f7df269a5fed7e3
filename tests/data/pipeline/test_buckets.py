"""Batches of pairs of similar lengths: every pair once per epoch, few shapes, and the same batches
from any start step and in any number of processes.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.data.pipeline.buckets import PairBatches, TokenSequences, bucket_shapes
from zoo.errors import ConfigError, DataError


def batches_of(lengths, length, batch_size, count):
    """Returns batches of pairs of these lengths, end tokens included; the other tokens of a pair are
    its number, so that a batch shows which pairs it holds.
    """
    sides = [
        TokenSequences([np.full(size - 1, number) for number, size in enumerate(side)], 10**6)
        for side in zip(*lengths, strict=True)
    ]
    return PairBatches(*sides, bucket_shapes(length, batch_size, count))


def pairs_of(batch):
    """Returns the numbers of the pairs of a batch, with None for an empty row."""
    numbers = []
    for source, target in zip(batch["source"].tolist(), batch["targets"].tolist(), strict=True):
        sides = [[token for token in side if token != -1] for side in (source, target)]
        assert all(
            side == [token for token in row[: len(side)]] for side, row in zip(sides, (source, target), strict=True)
        )
        assert all(not side or side[-1] == 10**6 for side in sides)
        inside = {token for side in sides for token in side[:-1]}
        numbers.append(None if not sides[0] else inside.pop())
        assert not inside
    return numbers


# Drawn by NumPy, because most lists that Hypothesis draws are too short for a batch.
pair_lengths = st.builds(lambda count, seed: np.random.default_rng(seed).integers(2, 41, (count, 2)).tolist(),
                 st.integers(1, 150), st.integers(0, 10**6))  # fmt: skip


def test_bucket_shapes_hold_about_equally_many_tokens():
    found = bucket_shapes(128, 64, 12)
    assert found[0] == (10, 768)
    assert found[-1] == (128, 64)
    assert [bucket.width for bucket in found] == [10, 11, 12, 14, 16, 18, 21, 25, 32, 42, 64, 128]
    assert all(rows % 64 == 0 and 0.93 * 128 * 64 <= width * rows <= 128 * 64 for width, rows in found)
    # Equal widths give one shape.
    assert bucket_shapes(5, 2, 9) == [(1, 10), (2, 4), (5, 2)]


@settings(max_examples=30)
@given(pair_lengths, st.integers(4, 32), st.integers(1, 6), st.integers(1, 9), st.integers(0, 3))
def test_an_epoch_has_every_fitting_pair_once_except_an_incomplete_batch(lengths, length, batch_size, count, epoch):
    batches = batches_of(lengths, length, batch_size, count)
    fitting = {number for number, pair in enumerate(lengths) if max(pair) <= length}
    assert set(np.flatnonzero(batches.fits)) == fitting
    pairs_seen, used = [], set()
    for step in range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch):
        bucket, numbers = batches.batch_indices(7, step)
        assert len(numbers) == bucket.rows
        assert all(max(lengths[number]) <= bucket.width for number in numbers)
        used.add(bucket)
        pairs_seen += numbers.tolist()
    assert len(pairs_seen) == len(set(pairs_seen))
    assert set(pairs_seen) <= fitting
    assert len(fitting) - len(pairs_seen) < batch_size
    assert used <= set(batches.buckets)
    assert len(used) <= count


@settings(max_examples=10)
@given(pair_lengths, st.integers(0, 50), st.sampled_from([1, 2, 3]))
def test_batches_do_not_depend_on_start_step_or_process_count(lengths, start, processes):
    batches = batches_of([*lengths, *[(3, 4)] * 6], 40, 6, 4)
    same_batches = batches_of([*lengths, *[(3, 4)] * 6], 40, 6, 4)
    with same_batches.training(3, start) as endless:
        whole = list(itertools.islice(endless, 3))
    for offset, batch in enumerate(whole):
        bucket, numbers = batches.batch_indices(3, start + offset)
        assert batch["source"].shape == batch["targets"].shape == (bucket.rows, bucket.width)
        assert pairs_of(batch) == numbers.tolist()
    parts = []
    for process in range(processes):
        with same_batches.training(3, start, process, processes) as endless:
            parts.append(list(itertools.islice(endless, 3)))
    for batch, *shares in zip(whole, *parts, strict=True):
        for name, array in batch.items():
            np.testing.assert_array_equal(np.concatenate([part[name] for part in shares]), array)


def test_epochs_and_seeds_have_different_orders():
    generator = np.random.default_rng(0)
    batches = batches_of(generator.integers(2, 30, (200, 2)).tolist(), 32, 4, 6)
    orders = [
        [
            tuple(batches.batch_indices(seed, step)[1])
            for step in range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        ]
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    ]
    assert len({tuple(order) for order in orders}) == 3
    # Widths are mixed within an epoch, and another epoch combines other pairs in a batch.
    widths = [batches.batch_indices(0, step)[0].width for step in range(batches.per_epoch)]
    assert widths != sorted(widths)
    assert not set(map(frozenset, orders[0])) & set(map(frozenset, orders[1]))


@settings(max_examples=20)
@given(pair_lengths, st.integers(1, 8), st.sampled_from([1, 2, 4]))
def test_evaluation_has_every_pair_that_fits_once(lengths, multiple_of, processes):
    batches = batches_of([(2, 2), *lengths], 24, 4, 5)
    rows = []
    for process in range(processes):
        rows.append([pairs_of(batch) for batch in batches.evaluation(4 * multiple_of, process, processes)])
    found = [number for part in rows for batch in part for number in batch if number is not None]
    assert sorted(found) == np.flatnonzero(batches.fits).tolist()


def test_limited_evaluation_is_the_same_for_any_number_of_devices():
    batches = batches_of([(2 + number % 30, 3) for number in range(300)], 32, 4, 5)
    whole = [pairs_of(batch) for batch in batches.evaluation()]
    some, filled = ([pairs_of(batch) for batch in batches.evaluation(multiple, limit=5)] for multiple in (1, 3))
    assert len(some) == 5
    assert [whole.index(batch) for batch in some] == [place * len(whole) // 5 for place in range(5)]
    assert [[number for number in batch if number is not None] for batch in filled] == [
        [number for number in batch if number is not None] for batch in some
    ]
    assert all(batch for batch in some)


def test_too_few_pairs_are_reported():
    few = batches_of([(3, 3)] * 3, 8, 4, 2)
    with pytest.raises(
        DataError, match=r"3 pairs of up to 8 tokens a side are too few for a batch of data.batch_size=4"
    ):
        few.training(0)
    with pytest.raises(DataError, match="no held-out pair"):
        list(batches_of([(9, 3)], 8, 4, 2).evaluation())
    with pytest.raises(ConfigError, match="is not divisible"):
        batches_of([(3, 3)] * 9, 8, 4, 2).training(0, 0, 0, 3)


def test_padding_is_reported_as_a_share_of_the_batches():
    batches = batches_of([(4, 2), (4, 4)] * 8, 4, 2, 1)
    assert batches.padding() == pytest.approx(2 / 16)
