import itertools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.data.pipeline.batches import evaluation_batches, training_batches
from zoo.data.rows import packed_rows
from zoo.data.rows.packed_rows import PackedRows
from zoo.errors import ConfigError, DataError

TOKENS = np.arange(1003, dtype=np.uint16)  # 100 full rows of T = 10


def take(count, tokens=TOKENS, length=10, batch_size=4, seed=0, **options):
    with training_batches(PackedRows(tokens, length), batch_size, seed, **options) as batches:
        return [batch["tokens"] for batch in itertools.islice(batches, count)]


def evaluation(tokens=TOKENS, length=10, batch_size=4, limit_batches=0, **options):
    return [
        batch["tokens"]
        for batch in evaluation_batches(PackedRows(tokens, length), batch_size, limit_batches * batch_size, **options)
    ]


def row_numbers(batches, length=10):
    """Returns the numbers of the rows, which their first tokens show because TOKENS counts up."""
    stacked = np.concatenate(batches)
    np.testing.assert_array_equal(stacked, stacked[:, :1] + np.arange(length + 1))
    return (stacked[:, 0] // length).tolist()


@settings(deadline=None, max_examples=30)
@given(n=st.integers(12, 300), length=st.integers(1, 10), batch_size=st.integers(1, 9), seed=st.integers(0, 2**31 - 1))
def test_an_epoch_is_every_full_row_once(n, length, batch_size, seed):
    tokens = np.arange(n, dtype=np.uint16)
    full = PackedRows(tokens, length).num_training_rows
    rows_seen = row_numbers(take(-(-3 * full // batch_size), tokens, length, batch_size, seed), length)
    for epoch in range(3):
        assert sorted(rows_seen[epoch * full : (epoch + 1) * full]) == list(range(full))


def test_epochs_too_long_for_a_list_are_permuted_too(monkeypatch):
    monkeypatch.setattr(packed_rows, "_LISTED_ROWS", 0)
    rows_seen = row_numbers(take(50))
    assert sorted(rows_seen[:100]) == sorted(rows_seen[100:]) == list(range(100))
    assert rows_seen[:100] != rows_seen[100:] != list(range(100))


@settings(deadline=None, max_examples=30)
@given(start=st.integers(0, 60), seed=st.integers(0, 2**31 - 1), batch_size=st.integers(1, 33))
def test_batch_is_a_function_of_seed_and_step(start, seed, batch_size):
    whole = take(start + 3, batch_size=batch_size, seed=seed)
    np.testing.assert_array_equal(take(3, batch_size=batch_size, seed=seed, start_step=start), whole[start:])


@settings(deadline=None, max_examples=30)
@given(parts=st.integers(1, 4), size=st.integers(1, 3), start=st.integers(0, 80), seed=st.integers(0, 99))
def test_parts_of_all_processes_form_the_whole_batch(parts, size, start, seed):
    options = {"batch_size": parts * size, "seed": seed, "start_step": start}
    whole = take(5, **options)
    shares = [take(5, process_index=index, process_count=parts, **options) for index in range(parts)]
    for step, batch in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([share[step] for share in shares]), batch)
    all_rows = [number for share in shares for number in row_numbers(share)]
    assert sorted(all_rows) == sorted(row_numbers(whole))


def test_batches_have_the_documented_shape_and_type():
    (batch,) = take(1)
    assert batch.dtype == np.int32
    assert batch.shape == (4, 11)
    assert take(1, process_index=1, process_count=2)[0].shape == (2, 11)


def test_order_depends_on_seed_and_epoch():
    epochs = {tuple(row_numbers(take(25, seed=seed, start_step=25 * epoch))) for seed in range(6) for epoch in range(4)}
    assert len(epochs) == 24
    assert tuple(range(100)) not in epochs


def test_shuffled_positions_are_uniform_and_uncorrelated():
    places = np.array([row_numbers(take(25, seed=seed)) for seed in range(40)])
    assert abs(places[:, :50].mean() - 49.5) < 3
    assert abs(np.corrcoef(places[0], places[1])[0, 1]) < 0.35


def test_a_late_start_builds_no_earlier_batch():
    batch_sizes = []

    class Watched(np.ndarray):
        def take(self, indices, **options):
            batch_sizes.append(len(indices))
            return np.asarray(self).take(indices, **options)

    take(2, TOKENS.view(Watched), start_step=10**12)
    assert 2 <= len(batch_sizes) <= 7


def test_batch_larger_than_an_epoch():
    assert sorted(row_numbers(take(1, batch_size=250))) == sorted(
        [*range(100)] * 2 + row_numbers(take(1, batch_size=250))[200:]
    )


def test_too_short_texts_are_refused_with_a_remedy():
    with pytest.raises(
        DataError, match=r"10 tokens, and one row takes data\.sequence_length \+ 1 = 11; take a longer text"
    ):
        training_batches(PackedRows(TOKENS[:10], 10), 4, 0)
    assert row_numbers(take(2, TOKENS[:11], batch_size=1)) == [0, 0]


def test_indivisible_batch_sizes_are_refused():
    with pytest.raises(ConfigError, match=r"data\.batch_size=4 is not divisible by the 3 processes"):
        training_batches(PackedRows(TOKENS, 10), 4, 0, process_count=3)
    with pytest.raises(ConfigError, match=r"data\.batch_size"):
        evaluation_batches(PackedRows(TOKENS, 10), 4, process_count=3)


def test_close_ends_the_thread():
    before = set(threading.enumerate())
    batches = training_batches(PackedRows(TOKENS, 10), 4, 0)
    next(batches)
    started = set(threading.enumerate()) - before
    assert started
    batches.close()
    batches.close()
    for thread in started:
        thread.join(timeout=20)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "ending",
    [
        "",
        *(
            pytest.param(ending, marks=pytest.mark.promise(reason="a process for each way to end"))
            for ending in ("batches.close()", "raise SystemExit(0)")
        ),
    ],
)
def test_the_process_exits_without_output(ending):
    program = (
        "import numpy as np; from zoo.data.pipeline.batches import training_batches; from zoo.data.rows.packed_rows import PackedRows\n"
        "batches = training_batches(PackedRows(np.arange(1000), 10), 4, 0); next(batches)\n" + ending
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_at_most_a_few_batches_are_prefetched():
    batch_sizes = []

    class Watched(np.ndarray):
        def take(self, indices, **options):
            batch_sizes.append(len(indices))
            return np.asarray(self).take(indices, **options)

    with training_batches(PackedRows(TOKENS.view(Watched), 10), 4, 0) as batches:
        next(batches)
        time.sleep(0.2)
        assert 1 <= len(batch_sizes) <= 5


@settings(deadline=None)
@given(n=st.integers(2, 300), length=st.integers(1, 20), batch_size=st.integers(1, 9))
def test_evaluation_covers_every_target_once_in_order(n, length, batch_size):
    tokens = np.arange(n, dtype=np.uint16)
    batches = evaluation(tokens, length, batch_size)
    assert {batch.shape for batch in batches} == {(batch_size, length + 1)}
    assert {batch.dtype for batch in batches} == {np.dtype(np.int32)}
    targets = np.concatenate(batches)[:, 1:].ravel()
    assert targets[targets >= 0].tolist() == list(range(1, n))
    for batch in batches:
        empty = (batch == -1).all(axis=1)
        assert not empty[0]
        assert (np.diff(empty.astype(int)) >= 0).all()


@settings(deadline=None)
@given(n=st.integers(2, 2000), length=st.integers(1, 20), batch_size=st.integers(1, 9), limit=st.integers(1, 9))
def test_limited_evaluation_is_an_even_sample(n, length, batch_size, limit):
    tokens = np.arange(n, dtype=np.uint16)
    whole = np.concatenate(evaluation(tokens, length, batch_size))
    whole = whole[whole[:, 0] >= 0]
    sample = np.concatenate(evaluation(tokens, length, batch_size, limit))
    sample = sample[sample[:, 0] >= 0]
    assert len(sample) == min(len(whole), limit * batch_size)
    chosen = sample[:, 0] // length
    np.testing.assert_array_equal(sample, whole[chosen])
    gaps = np.diff(np.append(chosen, len(whole) + chosen[0]))
    assert gaps.max() - gaps.min() <= 1
    assert gaps.min() >= 1


def test_limited_evaluation_is_the_same_every_time():
    np.testing.assert_array_equal(evaluation(limit_batches=3), evaluation(limit_batches=3))


def test_evaluation_parts_form_the_whole_batches():
    whole = evaluation()
    shares = [evaluation(process_index=index, process_count=2) for index in range(2)]
    for step, batch in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([share[step] for share in shares]), batch)


def test_evaluation_texts_without_targets_are_refused():
    with pytest.raises(DataError, match="1 tokens"):
        evaluation_batches(PackedRows(TOKENS[:1], 10), 4)


def test_training_and_evaluation_rows_agree():
    expected = PackedRows(TOKENS, 10).gather(np.arange(100), None, 0)["tokens"]
    np.testing.assert_array_equal(np.concatenate(evaluation())[:100], expected)
