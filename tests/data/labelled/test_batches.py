"""Batches of rows of similar lengths: every row once per epoch, few shapes, and the same batches from
any start step and in any number of processes.
"""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sample_data import questions, table, tagged
from zoo import config as configs
from zoo import data
from zoo.data import resolve_with_data
from zoo.data.labelled.example_batches import ExampleBatches, widths
from zoo.data.labelled.sequence_tasks import EncodedExamples
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.evaluation.held_out import evaluate
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program

T = 80

OTHER = pytest.mark.promise(reason="programs of every width are compiled for another objective")


def batches_of(lengths, batch_size=4, count=4):
    """Returns batches of rows of these lengths; all tokens of a row are its number."""
    tokens = np.where(np.arange(T)[None] < np.array(lengths)[:, None], np.arange(len(lengths))[:, None], -1)
    arrays = {
        "tokens": tokens,
        "segments": np.zeros_like(tokens),
        "features": tokens[:, :3] + 0.5,
        "labels": np.arange(len(lengths)),
    }
    return ExampleBatches(EncodedExamples(arrays, {}), T, batch_size, count)


row_lengths = st.lists(st.integers(1, T), min_size=1, max_size=60)


def test_widths():
    assert widths(128, 8).tolist() == [16, 32, 64, 128]
    assert widths(100, 7).tolist() == [25, 50, 100]
    assert widths(128, 1).tolist() == [128]
    # No width is below 16, unless the sequence length is.
    assert widths(64, 9).tolist() == [16, 32, 64]
    assert widths(8, 4).tolist() == [8]


@settings(max_examples=40)
@given(row_lengths, st.integers(1, 7), st.integers(1, 5), st.integers(0, 2))
def test_an_epoch_has_every_row_once(lengths, batch_size, count, epoch):
    batches = batches_of(lengths, batch_size, count)
    assert batches.per_epoch == -(-len(lengths) // batch_size)
    rows_seen, narrow = [], 0
    with batches.training(7, epoch * batches.per_epoch) as endless:
        for batch in itertools.islice(endless, batches.per_epoch):
            rows = batch["labels"][batch["labels"] >= 0]
            rows_seen += rows.tolist()
            assert len(batch["labels"]) == batch_size
            width = batch["tokens"].shape[1]
            # The smallest of the widths that holds the longest row.
            assert width == min(one for one in widths(T, count) if one >= max(lengths[row] for row in rows))
            narrow += width < T
            for row, tokens, features in zip(batch["labels"], batch["tokens"], batch["features"], strict=True):
                assert (tokens[tokens >= 0] == row).all()
                assert (tokens >= 0).sum() == (lengths[row] if row >= 0 else 0)
                assert features[0] == (0.5 + row if row >= 0 else 0)
    assert sorted(rows_seen) == list(range(len(lengths)))
    # Only batches with a wide row have the full width; one may hold just the first of them.
    wide = sum(length > widths(T, count)[-2] for length in lengths) if count > 1 else len(lengths)
    assert batches.per_epoch - narrow <= -(-wide // batch_size) + 1


def test_batches_do_not_depend_on_start_step_or_process_count():
    lengths = np.random.default_rng(0).integers(1, T, 50).tolist()
    with batches_of(lengths, 6).training(3, 5) as endless:
        whole = list(itertools.islice(endless, 12))
    for start, processes in ((5, 2), (11, 3)):
        parts = []
        for process in range(processes):
            with batches_of(lengths, 6).training(3, start, process, processes) as endless:
                parts.append(list(itertools.islice(endless, 3)))
        for batch, *shares in zip(whole[start - 5 :], *parts, strict=False):
            for name, array in batch.items():
                np.testing.assert_array_equal(np.concatenate([part[name] for part in shares]), array)
    with pytest.raises(ConfigError, match="is not divisible"):
        batches_of(lengths, 6).training(0, 0, 0, 4)


def test_epochs_and_seeds_have_different_orders():
    batches = batches_of(np.random.default_rng(0).integers(1, T, 120).tolist())
    orders = [
        [
            frozenset(batches.batch_indices(seed, step))
            for step in range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        ]
        for seed, epoch in ((0, 0), (0, 1), (1, 0), (0, 0))
    ]
    assert orders[0] == orders[3]
    assert not set(orders[0]) & (set(orders[1]) | set(orders[2]))
    longest = [max(batches.lengths[batches.batch_indices(0, step)]) for step in range(batches.per_epoch)]
    found = np.searchsorted(widths(T, 4), longest).tolist()
    assert found != sorted(found)


@settings(max_examples=20)
@given(row_lengths, st.integers(1, 8), st.sampled_from([1, 2]))
def test_evaluation_has_every_row_once_in_order(lengths, multiple_of, processes):
    batches, parts = batches_of(lengths), []
    for process in range(processes):
        parts.append([batch["labels"].tolist() for batch in batches.evaluation(2 * multiple_of, process, processes)])
        assert all(len(part) * processes % (2 * multiple_of) == 0 for part in parts[-1])
    found = [row for mine in zip(*parts, strict=True) for part in mine for row in part if row >= 0]
    assert found == batches.order.tolist()
    assert sorted(found) == list(range(len(lengths)))


def test_padding_is_reported_as_a_share_of_the_batches():
    # Two batches of width 20 and one of width 80.
    assert batches_of([20] * 8 + [80] * 4, 4, 4).padding() == pytest.approx(0)
    assert batches_of([10] * 8 + [80] * 4, 4, 4).padding() == pytest.approx(80 / (160 + 320))
    assert batches_of([10] * 8 + [80] * 4, 4, 1).padding() == pytest.approx(560 / 960)


@pytest.mark.parametrize(
    ("kind", "source", "length"),
    [
        ("tagging", tagged, 72),
        pytest.param("classification", lambda: table("train"), 120, marks=OTHER),
        pytest.param("extraction", questions, 160, marks=OTHER),
    ],
)
def test_scores_do_not_depend_on_the_widths(kind, source, length):
    fields = {
        "model.architecture": "encoder",
        "objective.kind": kind,
        "data.source": source(),
        "model.dim": 8,
        "model.num_layers": 1,
        "model.attention.num_heads": 2,
        "data.sequence_length": length,
        "data.batch_size": 2,
        "data.stride": 20,
        "data.validation_fraction": 0.4,
    }
    fields = {path: value for path, value in fields.items() if kind == "extraction" or path != "data.stride"}
    both = [
        resolve_with_data(configs.override(configs.default(), fields | {"data.buckets": count})) for count in (1, 4)
    ]
    datasets = [data.load(resolved) for resolved in both]
    shapes = [{batch["tokens"].shape[1] for batch in dataset.evaluation_batches()} for dataset in datasets]
    assert shapes[0] == {length}
    assert len(shapes[1]) > 1
    program = make_program(
        both[0],
        make_model(both[0]),
        make_objective(both[0], datasets[0].tokenizer),
        make_mesh(both[0], jax.devices()[:1]),
    )
    state, constants = program.initial_state(0), program.constants(0)
    # Larger parameters, so that the scores of rows and words differ.
    params = jax.tree.map(lambda x: 10 * x, state["params"])
    scores = [
        evaluate(program, params, state["stats"], dataset.evaluation_batches(), constants, measure=dataset.measure)
        for dataset in datasets
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5)
