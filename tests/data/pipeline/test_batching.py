"""Batches of every kind of rows are a function of seed and step alone."""

import itertools

import numpy as np
import pytest

import zoo.data

ENCODER = {"model.architecture": "encoder", "objective.kind": "masked"}
KINDS = {
    "packed": {},
    "masked": ENCODER,
    "masked diffusion": ENCODER | {"objective.kind": "masked_diffusion"},
    "rare tokens": ENCODER | {"objective.rare_token_exponent": 0.7},
    "whole words": ENCODER | {"objective.whole_words": True},
    **{
        rows: ENCODER | {"data.row_format": rows}
        for rows in ("full_sentences", "doc_sentences", "segment_pairs", "sentence_pairs", "swapped_pairs")
    },
    "span": {"model.architecture": "encoder_decoder", "objective.kind": "span"},
    "denoising": {"model.architecture": "encoder_decoder", "objective.kind": "denoising"},
}


@pytest.fixture(params=KINDS)
def config(request, make_config, tmp_path):
    # A few dozen rows, so that a few steps go through several epochs.
    stories = (f"Story {number} is of {number * 79}. It is short! Is it true? No." for number in range(30))
    (tmp_path / "stories.txt").write_text("|".join(stories))
    source = {"data.source": f"text:{tmp_path}/stories.txt", "data.document_separator": "|"}
    return make_config(source | KINDS[request.param] | {"data.sequence_length": 24, "data.batch_size": 6})


def take(dataset, count, start=0, **options):
    with dataset.training_batches(start, **options) as batches:
        return list(itertools.islice(batches, count))


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_start_step_and_process_count_change_no_batch(config):
    dataset = zoo.data.load(config)
    rows = dataset.batching.row_count([part.train_stream for part in dataset.parts])
    steps = 2 * rows // 6 + 3
    whole = take(dataset, steps)
    start = rows // 6
    assert all(same(*pair) for pair in zip(take(dataset, 3, start), whole[start:], strict=False))
    for parts in (2, 3):
        shares = [take(dataset, 3, start, process_index=index, process_count=parts) for index in range(parts)]
        for batch, *mine in zip(whole[start:], *shares, strict=False):
            assert same(batch, {name: np.concatenate([share[name] for share in mine]) for name in batch})


@pytest.mark.parametrize("threads", [0, 2])
def test_number_of_workers_changes_no_batch(config, threads, monkeypatch):
    import grain

    dataset = zoo.data.load(config)
    expected, options, calls = take(dataset, 4), grain.ReadOptions, []

    def read_options(**given):
        calls.append(given)
        return options(**given | {"num_threads": threads, "prefetch_buffer_size": threads * 2})

    monkeypatch.setattr(grain, "ReadOptions", read_options)
    assert all(same(*pair) for pair in zip(take(dataset, 4), expected, strict=True))
    assert calls


def test_evaluation_takes_every_row_once_at_any_batch_size(config):
    dataset = zoo.data.load(config)

    def rows(multiple_of):
        found = []
        for batch in dataset.evaluation_batches(multiple_of=multiple_of, limit_batches=0):
            name = "source" if "source" in batch else "tokens"
            real = (batch[name] >= 0).any(axis=1)
            found += [{key: array[number].tolist() for key, array in batch.items()} for number in np.flatnonzero(real)]
        return found

    streams = [text.stream for text in dataset.held_out_texts]
    assert len(rows(1)) == dataset.batching.rows(streams, 24).num_rows
    assert rows(1) == rows(8)
