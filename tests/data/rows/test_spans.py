"""Span corruption: published lengths, ordered sentinels, an exact inverse, and spans that are uniform
over all partitions.
"""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo import config as configs
from zoo import data
from zoo.config.kinds.side_lengths import SpanLengths
from zoo.data.rows.spans import SpanCorruption, _parts

V, SENTINELS, END = 50, 10, 7
T5 = SpanCorruption(0.15, 3.0, V, 100, END)


def corrupt(rows, corruption, seed=0, epoch=0):
    return corruption.training_batch({"tokens": rows}, np.arange(len(rows)), np.full(len(rows), epoch), seed)


def filled(row):
    return row[row >= 0]


@pytest.mark.parametrize(("tokens", "source", "targets", "spans"), [
    # T5 has 512 tokens on the encoder's side (Raffel et al. 2020, section 3.1.4); then the lengths of
    # mT5 and of the objective study.
    (568, 512, 114, 28), (1137, 1024, 229, 57), (2, 3, 3, 1), (3, 4, 3, 1),
])  # fmt: skip
def test_lengths(tokens, source, targets, spans):
    found = SpanLengths.of(tokens, 0.15, 3.0)
    assert (found.source, found.targets, found.spans) == (source, targets, spans)


@given(st.integers(2, 40), st.floats(0.01, 0.9), st.floats(1, 9), st.integers(0, 2**31 - 1))
def test_the_inverse_restores_the_row(length, density, mean, seed):
    corruption = SpanCorruption(density, mean, V, 40, END)
    rows = np.random.default_rng(seed).integers(0, V, (3, length)).astype(np.int32)
    batch, lengths = corrupt(rows, corruption, seed), SpanLengths.of(length, density, mean)
    assert batch["source"].shape == (3, lengths.source)
    assert batch["targets"].shape == (3, lengths.targets)
    for row, source, targets in zip(rows, batch["source"], batch["targets"], strict=True):
        np.testing.assert_array_equal(corruption.inverse(source, targets), row)
        assert source[-1] == targets[-1] == END
        sentinels = [V + 39 - i for i in range(lengths.spans)]
        assert [token for token in source if token >= V] == sentinels
        assert [token for token in targets if token >= V] == sentinels
        # A row begins with kept tokens, and two sentinels are never adjacent on either side.
        assert source[0] < V
        assert targets[0] >= V
        for side in (source[:-1], targets[:-1]):
            places = np.flatnonzero(side >= V)
            assert (np.diff(places) > 1).all()
        assert targets[-2] < V


def test_a_token_is_on_one_side_only():
    rows = np.arange(40, dtype=np.int32)[None].repeat(50, 0)
    batch = corrupt(rows, SpanCorruption(0.4, 3.0, V, 20, V - 1))
    for source, targets in zip(batch["source"], batch["targets"], strict=True):
        assert not set(source[:-1]) & set(targets[:-1]) & set(range(40))
        assert set(source) | set(targets) >= set(range(40))


def test_shorter_rows_are_padded_and_empty_ones_stay_empty():
    rows = np.array([[1, 2, 3, 4, 5, 6, 8, 9], [1, 2, 3, 4, 5, -1, -1, -1], [1] + [-1] * 7, [-1] * 8], np.int32)
    batch = corrupt(rows, SpanCorruption(0.3, 2.0, V, SENTINELS, END))
    for row, source, targets in zip(rows[:2], batch["source"], batch["targets"], strict=False):
        np.testing.assert_array_equal(
            SpanCorruption(0.3, 2.0, V, SENTINELS, END).inverse(filled(source), filled(targets)), filled(row)
        )
        assert (np.diff((source >= 0).astype(int)) <= 0).all()
    assert (batch["source"][2:] == -1).all()
    assert (batch["targets"][2:] == -1).all()


def test_every_partition_is_equally_likely():
    draws = np.random.default_rng(0).random((60_000, 5))
    counts = collections.Counter(map(tuple, _parts(draws, 3).tolist()))
    partitions = [cut for cut in itertools.product(range(1, 4), repeat=3) if sum(cut) == 5]
    assert set(counts) == set(partitions)
    expected = 60_000 / len(partitions)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


def test_spans_depend_only_on_seed_epoch_and_row_number():
    rows = np.random.default_rng(0).integers(0, V, (6, 90)).astype(np.int32)
    base = corrupt(rows, T5)
    other_numbers = T5.training_batch({"tokens": rows}, np.arange(6) + 9, np.zeros(6, int), 0)
    for changed in (corrupt(rows, T5, seed=1), corrupt(rows, T5, epoch=1), other_numbers):
        assert (changed["source"] != base["source"]).any(axis=1).sum() >= 5
    single = T5.training_batch({"tokens": rows[4:5]}, np.array([4]), np.array([0]), 0)
    np.testing.assert_array_equal(single["source"][0], base["source"][4])
    evaluated = T5.evaluation_batch({"tokens": rows}, np.arange(6))
    np.testing.assert_array_equal(
        T5.evaluation_batch({"tokens": rows[2:]}, np.arange(2, 6))["source"], evaluated["source"][2:]
    )
    assert (evaluated["source"] != base["source"]).any()


def test_a_data_set_holds_corrupted_spans(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("Sheep and wolves never met. " * 80)
    config = configs.override(
        configs.default(),
        {
            "data.source": f"text:{tmp_path / 'text.txt'}",
            "model.architecture": "encoder_decoder",
            "objective.kind": "span",
            "data.sequence_length": 64,
            "objective.sentinels": 12,
        },
    )
    resolved = configs.resolve(config)
    assert resolved.model.vocab_size == 257 + 12
    dataset = data.load(resolved)
    lengths = SpanLengths.of(64, 0.15, 3.0)
    with dataset.training_batches() as batches:
        batch = next(batches)
    assert batch["source"].shape == (16, lengths.source)
    assert batch["targets"].shape == (16, lengths.targets)
    assert batch["targets"][:, 0].tolist() == [257 + 11] * 16
    rows = [
        SpanCorruption(0.15, 3.0, 257, 12, 256).inverse(filled(s), filled(t))
        for one in dataset.evaluation_batches()
        for s, t in zip(one["source"], one["targets"], strict=True)
        if s[0] >= 0
    ]
    np.testing.assert_array_equal(np.concatenate(rows), dataset.held_out_texts[0].stream.tokens)
