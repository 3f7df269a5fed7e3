"""Data sets of runs that train as one program: which runs use one data set, and what others share."""

import itertools

import numpy as np
import pytest

import zoo.data
from zoo import config as configs
from zoo.data import load_data
from zoo.data.rows import packed_rows
from zoo.nested import flatten

MASKED = {"model.architecture": "encoder", "objective.kind": "masked", "training.eval_masks": "as_trained"}


def base(make_config, tmp_path, changes):
    (tmp_path / "text.txt").write_text("".join(f"Line {number} of a text.\n" for number in range(30)))
    source = {"data.source": f"text:{tmp_path}/text.txt", "data.document_separator": "\n", "data.sequence_length": 16}
    return lambda more: make_config(source | {"data.batch_size": 4} | changes | more)


def first(dataset, count=3):
    with dataset.training_batches() as batches:
        return list(itertools.islice(batches, count))


def same(one, other):
    return all(np.array_equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a | b)


# Fields that change batches and may differ between masked runs of one program, with other values.
BATCH_FIELDS = {
    "seed": 5,
    "data.training_fraction": 0.5,
    "objective.mask_token_fraction": 0.5,
    "objective.random_token_fraction": 0.2,
    "objective.mask_copies": 1,
    "objective.rare_token_exponent": 1.0,
    "objective.select_fraction": 0.14,
}


@pytest.mark.parametrize("path", BATCH_FIELDS)
def test_fields_that_change_batches_give_separate_data_sets(make_config, tmp_path, path):
    config = base(make_config, tmp_path, MASKED)
    one, other = config({}), config({path: BATCH_FIELDS[path]})
    assert configs.program_key(flatten(one)) == configs.program_key(flatten(other))
    datasets = zoo.data.SharedDatasets()
    shared, separate = datasets.load(other), zoo.data.load(other)
    assert datasets.load(one) is not shared
    assert same(first(datasets.load(other), 60), first(separate, 60))
    # A row has 2.4 or 2.24 tokens to predict, which rounds differently only in rows with padding.
    if path != "objective.select_fraction":
        assert not same(first(datasets.load(one), 60), first(separate, 60))
    held_out = [list(dataset.evaluation_batches()) for dataset in (datasets.load(one), separate)]
    if configs.held_out_key(flatten(one)) == configs.held_out_key(flatten(other)):
        assert same(*held_out)
    else:
        assert path.startswith("objective.")


def test_no_other_field_that_may_differ_within_a_program_is_read(make_config, tmp_path):
    """Records which fields are read while data are loaded and batches are made."""
    config, read = base(make_config, tmp_path, MASKED)({}), set()

    class Recording:
        def __init__(self, node, path=""):
            self.node, self.path = node, path

        def __getattr__(self, name):
            value, path = getattr(self.node, name), f"{self.path}{name}"
            read.add(path)
            return Recording(value, f"{path}.") if hasattr(value, "keys") else value

    dataset = load_data.load(Recording(config))
    first(dataset)
    list(dataset.evaluation_batches())
    assert "objective.mask_copies" in read
    flat = flatten(config)
    kept = dict(configs.program_key(flat))
    free = {path for path in flat if path not in kept or configs.is_traced(path) or path == "objective.select_fraction"}
    assert read & free == set(BATCH_FIELDS)


def test_learning_rates_share_one_data_set_and_seeds_share_text_and_rows(make_config, tmp_path, monkeypatch):
    config, loaded = base(make_config, tmp_path, {}), []
    monkeypatch.setattr("zoo.data.shared_datasets.load", lambda one: loaded.append(one) or zoo.data.load(one))
    datasets = zoo.data.SharedDatasets()
    one, rate, seed = (
        datasets.load(config(changes)) for changes in ({}, {"optimizer.learning_rate": 0.1}, {"seed": 1})
    )
    assert len(loaded) == 1
    assert one is rate
    assert seed is not one
    assert seed.parts is one.parts
    (stream,) = [part.train_stream for part in one.parts]
    assert seed.batching.rows([stream], 16) is one.batching.rows([stream], 16)
    assert same(first(seed), first(zoo.data.load(config({"seed": 1}))))


def test_another_program_shares_nothing(make_config, tmp_path):
    config, datasets = base(make_config, tmp_path, {}), zoo.data.SharedDatasets()
    datasets.load(config({}))
    assert first(datasets.load(config({"data.sequence_length": 8})))[0]["tokens"].shape == (4, 9)


def test_permutations_of_many_seeds_are_computed_once(monkeypatch):
    computed, original = [], packed_rows._epoch_sequence
    monkeypatch.setattr(packed_rows, "_epoch_sequence", lambda *key: computed.append(key) or original(*key))
    rows = packed_rows.PackedRows(np.arange(1001), 10)
    for step in range(3):
        for seed in range(1000, 1020):
            rows.order(np.arange(step * 8, step * 8 + 8), seed)
    assert len(computed) == 20


def test_permutations_take_no_more_memory_than_their_limit():
    permutations = packed_rows._Permutations(limit=4 * 10 * 3)
    expected = {seed: permutations(10, seed, 0).copy() for seed in range(5)}
    assert [key[1] for key in permutations._kept] == [2, 3, 4]
    for seed, values in expected.items():
        assert np.array_equal(permutations(10, seed, 0), values)
