import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zoo.data
from tests.support.building import tiny
from tests.support.sample_data import vocabulary
from zoo.data.pipeline.batches import evaluation_batches, training_batches
from zoo.data.rows.corruption import make_corruption
from zoo.data.rows.masking import Masking, rare_token_weights
from zoo.data.rows.packed_rows import PackedRows
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import DataError

V, BOUNDARY, MASK = 40, 7, 40
TOKENS = np.random.default_rng(0).integers(0, V, 2000)  # 200 rows of T = 10, with boundary ids
BERT = Masking(0.15, 0.8, 0.1, V, (BOUNDARY,), V)


def corrupt(rows, masking=BERT, seed=0, epoch=0, first=0):
    indices = np.arange(first, first + len(rows))
    return masking.training_batch({"tokens": rows}, indices, np.full(len(rows), epoch), seed)


def random_rows(count, length, seed=0, padded=False):
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, V, (count, length)).astype(np.int32)
    if padded:
        rows[np.arange(length) >= generator.integers(0, length + 1, count)[:, None]] = -1
    return rows


def test_static_masks_repeat_and_dynamic_masks_do_not():
    rows = random_rows(40, 32)
    static = dataclasses.replace(BERT, copies=3)
    shown = [corrupt(rows, static, epoch=epoch)["tokens"] for epoch in range(7)]
    for epoch in range(7):
        repeats = [np.array_equal(shown[epoch], other) for other in shown]
        assert repeats == [other % 3 == epoch % 3 for other in range(7)]
        assert np.array_equal(shown[epoch], corrupt(rows, epoch=epoch)["tokens"]) == (epoch < 3)


def take(count, masking=BERT, length=10, batch_size=4, seed=0, **options):
    with training_batches(
        PackedRows(TOKENS, length, num_extra_tokens=0), batch_size, seed, corruption=masking, **options
    ) as batches:
        return list(itertools.islice(batches, count))


def same(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[name], other[name]) for name in one)


@settings(deadline=None)
@given(length=st.integers(1, 60), fraction=st.floats(0.01, 1), seed=st.integers(0, 2**31 - 1), padded=st.booleans())
def test_the_rounded_fraction_of_the_text_is_predicted_and_nothing_else_changes(length, fraction, seed, padded):
    rows = random_rows(12, length, seed, padded)
    batch = corrupt(rows, Masking(fraction, 0.5, 0.3, V, (BOUNDARY,), V), seed)
    for row, tokens, places, targets in zip(
        rows, batch["tokens"], batch["masked_positions"], batch["targets"], strict=True
    ):
        text = [place for place in range(length) if row[place] not in (-1, BOUNDARY)]
        used = places[targets >= 0]
        exact = fraction * len(text)
        assert len(set(used.tolist())) == len(used)
        assert abs(len(used) - exact) <= 0.5 or len(used) == 1
        assert len(used) >= min(1, len(text))
        assert set(used.tolist()) <= set(text)
        np.testing.assert_array_equal(targets[targets >= 0], row[used])
        unused = np.setdiff1d(np.arange(length), used)
        np.testing.assert_array_equal(tokens[unused], row[unused])
        assert ((tokens[used] >= 0) & (tokens[used] <= MASK) & (tokens[used] != BOUNDARY)).all()


def test_rows_without_boundaries_have_equally_many_predictions():
    rows = np.where(random_rows(50, 128) == BOUNDARY, 0, random_rows(50, 128))
    batch = corrupt(rows)
    assert batch["masked_positions"].shape == batch["targets"].shape == (50, 19)  # 0.15 * 128 = 19.2
    assert (batch["targets"] >= 0).all()
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}


@pytest.mark.parametrize(("mask", "random"), [(0.8, 0.1), (0.5, 0.5), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)])
def test_fractions_of_masked_random_and_unchanged_tokens(mask, random):
    rows = random_rows(2000, 64)
    batch = corrupt(rows, Masking(0.15, mask, random, V, (BOUNDARY,), V))
    shown, targets = np.take_along_axis(batch["tokens"], batch["masked_positions"], axis=1), batch["targets"]
    shown, targets = shown[targets >= 0], targets[targets >= 0]
    masked = (shown == MASK).mean()
    assert masked == pytest.approx(mask, abs=0.012)
    # A random token is the original one with probability 1 / (V - 1).
    changed = ((shown != MASK) & (shown != targets)).mean()
    assert changed == pytest.approx(random * (V - 2) / (V - 1), abs=0.012)
    if mask in (0.0, 1.0):
        assert masked == mask
    if random == 0.0:
        assert changed == 0


def test_random_tokens_are_uniform_over_all_but_the_boundary():
    batch = corrupt(random_rows(3000, 64), Masking(0.5, 0.0, 1.0, V, (BOUNDARY,), V))
    shown = np.take_along_axis(batch["tokens"], batch["masked_positions"], axis=1)[batch["targets"] >= 0]
    counts = np.bincount(shown, minlength=V + 1)
    assert counts[BOUNDARY] == counts[MASK] == 0
    expected = len(shown) / (V - 1)
    kept = np.delete(counts, [BOUNDARY, MASK])
    assert ((kept - expected) ** 2 / expected).sum() < 80  # chi-square of 38 degrees of freedom: beyond 80 once in 10^4


def test_boundaries_are_never_predicted_or_drawn_and_other_arrays_are_kept():
    rows = random_rows(3000, 32)
    boundary_ids = (3, BOUNDARY, V + 1)
    rows[:, 9] = V + 1
    others = {"next": np.arange(3000), "segments": rows % 2}
    batch = Masking(0.5, 0.0, 1.0, V, boundary_ids, V).evaluation_batch({"tokens": rows, **others}, np.arange(3000))
    shown = np.take_along_axis(batch["tokens"], batch["masked_positions"], axis=1)[batch["targets"] >= 0]
    assert not np.isin(batch["targets"], boundary_ids).any()
    counts = np.bincount(shown, minlength=V + 2)
    assert counts[list(boundary_ids)].sum() == counts[V] == 0
    kept, expected = np.delete(counts, [3, BOUNDARY, V, V + 1]), len(shown) / (V - 2)
    assert ((kept - expected) ** 2 / expected).sum() < 80
    assert all(np.array_equal(batch[name], array) for name, array in others.items())
    np.testing.assert_array_equal(batch["tokens"][np.isin(rows, boundary_ids)], rows[np.isin(rows, boundary_ids)])


def test_every_position_is_equally_likely():
    rows = np.zeros((20000, 16), np.int32)
    places = corrupt(rows, Masking(0.25, 1.0, 0.0, V, (BOUNDARY,), V))["masked_positions"]
    np.testing.assert_allclose(np.bincount(places.ravel(), minlength=16) / 20000, 0.25, atol=0.015)
    # Pairs of positions are equally likely too, so each choice is independent of the others.
    pair_counts = np.zeros((16, 16))
    for one, other in itertools.permutations(range(4), 2):
        np.add.at(pair_counts, (places[:, one], places[:, other]), 1 / 20000)
    np.testing.assert_allclose(pair_counts[~np.eye(16, dtype=bool)], 4 * 3 / (16 * 15), atol=0.012)


def test_rare_tokens_are_selected_in_proportion_to_their_weights():
    """With one token of each row selected, its probability is its share of the row's weight; with
    two, the second is drawn in the same way from the rest.
    """
    counts = np.full(V, 10_000)
    counts[[0, 1, 2, 3]] = 0, 1, 16, 256
    weights = rare_token_weights(counts, 0.5)
    np.testing.assert_allclose(weights[[0, 1, 2, 3, 4]], [1, 1, 1 / 4, 1 / 16, 1 / 100])
    rows = np.tile(np.array([1, 2, 3, 2, BOUNDARY, -1], np.int32), (40_000, 1))
    share = np.array([1, 1 / 4, 1 / 16, 1 / 4]) / (1 + 1 / 4 + 1 / 16 + 1 / 4)
    one = corrupt(rows, Masking(0.2, 1.0, 0.0, V, (BOUNDARY,), V, weights=weights))
    assert (one["targets"] >= 0).sum(axis=1).tolist() == [1] * len(rows)
    np.testing.assert_allclose(np.bincount(one["masked_positions"][:, 0], minlength=4) / len(rows), share, atol=0.01)
    two = corrupt(rows, Masking(0.5, 1.0, 0.0, V, (BOUNDARY,), V, weights=weights))
    either = share + sum(share[other] * share / (1 - share[other]) * (np.arange(4) != other) for other in range(4))
    used = two["masked_positions"][two["targets"] >= 0]
    np.testing.assert_allclose(np.bincount(used, minlength=4) / len(rows), either, atol=0.01)


def test_as_many_tokens_are_selected_whatever_their_weights():
    rows = random_rows(60, 40, padded=True)
    weights = rare_token_weights(np.arange(V) ** 3, 0.7)
    plain, rare = (corrupt(rows, dataclasses.replace(BERT, weights=one)) for one in (None, weights))
    np.testing.assert_array_equal((plain["targets"] >= 0).sum(axis=1), (rare["targets"] >= 0).sum(axis=1))
    assert plain["targets"][plain["targets"] >= 0].mean() > 1.5 * rare["targets"][rare["targets"] >= 0].mean()
    assert not np.isin(rare["targets"], [BOUNDARY, V]).any()
    # Equal weights select the same tokens as none.
    assert same(plain, corrupt(rows, dataclasses.replace(BERT, weights=np.ones(V))))
    # Evaluation does not prefer rare tokens.
    indices = np.arange(len(rows))
    evaluated = (
        dataclasses.replace(BERT, weights=one).evaluation_batch({"tokens": rows}, indices) for one in (None, weights)
    )
    assert same(*evaluated)


def test_masked_positions_do_not_depend_on_the_tokens():
    """Masks reveal nothing about their targets: another text is masked at the same positions."""
    rows = np.where(random_rows(50, 64) == BOUNDARY, 0, random_rows(50, 64))
    other = np.where(rows == 3, 5, 3)
    one, two = corrupt(rows), corrupt(other)
    np.testing.assert_array_equal(one["masked_positions"], two["masked_positions"])
    np.testing.assert_array_equal(one["tokens"] == MASK, two["tokens"] == MASK)
    hidden = (one["tokens"] == MASK) | (one["tokens"] != rows)
    np.testing.assert_array_equal(
        one["tokens"][hidden & (two["tokens"] != other)], two["tokens"][hidden & (two["tokens"] != other)]
    )


def test_masks_are_a_function_of_seed_row_and_epoch():
    rows = random_rows(1, 64)
    masks = {}
    for seed, epoch, index in itertools.product(range(6), range(6), range(6)):
        batch = corrupt(rows, seed=seed, epoch=epoch, first=index)
        assert same(batch, corrupt(rows, seed=seed, epoch=epoch, first=index))
        masks[seed, epoch, index] = tuple(batch["masked_positions"][0])
    assert len(set(masks.values())) == len(masks)


def test_rows_are_masked_independently_of_their_batch():
    rows, indices, epochs = (
        random_rows(6, 20, padded=True),
        np.array([5, 3, 10**9, 0, 7, 5]),
        np.array([0, 2, 1, 0, 0, 1]),
    )
    whole = BERT.training_batch({"tokens": rows}, indices, epochs, 3)
    for place in range(6):
        part = slice(place, place + 1)
        single = BERT.training_batch({"tokens": rows[part]}, indices[part], epochs[part], 3)
        assert same(single, {name: array[part] for name, array in whole.items()})


def test_masks_are_the_same_in_every_version():
    """A run that is resumed with another version of zoo must see the same masks."""
    batch = corrupt(np.arange(20, dtype=np.int32)[None], seed=3, epoch=1, first=11)
    assert batch["masked_positions"].tolist() == [[9, 10, 1]]
    assert batch["tokens"].tolist() == [[0, 34, 2, 3, 4, 5, 6, 7, 8, 9, MASK, 11, 12, 13, 14, 15, 16, 17, 18, 19]]


def test_an_epoch_has_every_row_once_and_the_next_has_other_masks():
    rows = len(TOKENS) // 10
    batches = take(2 * rows // 4)
    stacked = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    restored = stacked["tokens"].copy()
    row, place = np.nonzero(stacked["targets"] >= 0)
    restored[row, stacked["masked_positions"][row, place]] = stacked["targets"][row, place]
    table = TOKENS[: rows * 10].reshape(rows, 10)
    number = {tuple(values): index for index, values in enumerate(table.tolist())}
    assert len(number) == rows
    seen = [number[tuple(values)] for values in restored.tolist()]
    assert sorted(seen[:rows]) == sorted(seen[rows:]) == list(range(rows))
    first, second = (
        dict(zip(seen[part], stacked["masked_positions"][part, 0].tolist(), strict=True))
        for part in (slice(rows), slice(rows, None))
    )
    assert 0.02 < np.mean([first[index] == second[index] for index in range(rows)]) < 0.25


@settings(deadline=None, max_examples=20)
@given(start=st.integers(0, 120), seed=st.integers(0, 99), parts=st.integers(1, 3))
def test_masks_do_not_depend_on_start_step_process_count_or_batch_size(start, seed, parts):
    whole = take(start + 2, batch_size=6, seed=seed)[start:]
    shares = [
        take(2, batch_size=6, seed=seed, start_step=start, process_index=index, process_count=parts)
        for index in range(parts)
    ]
    singles = take(12, batch_size=1, seed=seed, start_step=6 * start)
    for step, batch in enumerate(whole):
        assert same(batch, {name: np.concatenate([share[step][name] for share in shares]) for name in batch})
        assert same(
            batch, {name: np.concatenate([one[name] for one in singles[6 * step : 6 * step + 6]]) for name in batch}
        )


def test_evaluation_masks_do_not_depend_on_process_count_or_batch_size():
    def rows(batch_size, limit=0, **options):
        batches = list(
            evaluation_batches(
                PackedRows(TOKENS[:1995], 10, num_extra_tokens=0), batch_size, limit, corruption=BERT, **options
            )
        )
        return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}

    whole = rows(4)
    assert same(whole, rows(4))
    assert same(whole, rows(200))
    assert whole["tokens"].shape == (200, 10)
    assert (whole["tokens"][-1, 5:] == -1).all()
    assert (whole["tokens"][-1, :5] >= 0).all()
    shares = [rows(4, process_index=index, process_count=2) for index in range(2)]
    joined = {
        name: np.concatenate([array.reshape(50, 2, -1) for array in (share[name] for share in shares)], axis=1).reshape(
            200, -1
        )
        for name in whole
    }
    assert same(whole, joined)
    # A sampled row has the same masks as among all rows.
    sample = rows(5, limit=15)
    chosen = np.arange(15) * 200 // 15
    assert same(sample, {name: array[chosen] for name, array in whole.items()})
    # Masks of training differ.
    training = BERT.training_batch(
        {"tokens": TOKENS[:1990].reshape(-1, 10).astype(np.int32)}, np.arange(199), np.zeros(199, int), 0
    )
    assert not np.array_equal(training["masked_positions"], whole["masked_positions"][:199])


def test_evaluation_can_mask_every_predicted_token():
    rows = random_rows(50, 32)
    indices = np.arange(50)
    masking = dataclasses.replace(BERT, mask_all_in_evaluation=True)
    hidden, shown = (one.evaluation_batch({"tokens": rows}, indices) for one in (masking, BERT))
    for name in ("masked_positions", "targets"):
        np.testing.assert_array_equal(hidden[name], shown[name])
    used = hidden["targets"] >= 0
    assert (np.take_along_axis(hidden["tokens"], hidden["masked_positions"], axis=1)[used] == MASK).all()
    assert (np.take_along_axis(shown["tokens"], shown["masked_positions"], axis=1)[used] != MASK).any()
    assert same(corrupt(rows, masking), corrupt(rows))


def test_padding_rows_predict_nothing():
    batch = next(evaluation_batches(PackedRows(np.zeros(25, int), 10, num_extra_tokens=0), 8, corruption=BERT))
    assert (batch["tokens"][3:] == -1).all()
    assert (batch["targets"][3:] == -1).all()
    assert (batch["targets"] >= 0).sum(axis=1).tolist()[:3] == [2, 2, 1]


def test_too_short_texts_are_refused():
    with pytest.raises(DataError, match=r"9 tokens, and one row takes data\.sequence_length = 10; take"):
        training_batches(PackedRows(TOKENS[:9], 10, num_extra_tokens=0), 4, 0, corruption=BERT)
    assert take(1, length=2000, batch_size=1)[0]["tokens"].shape == (1, 2000)
    with pytest.raises(DataError, match=r"0 tokens, .* nothing is predicted"):
        evaluation_batches(PackedRows(TOKENS[:0], 10, num_extra_tokens=0), 4, corruption=BERT)


def test_batches_are_masked_as_configured(tmp_path, make_config):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Story {number} of {number * 7919} words." for number in range(300)))
    encoder = {"data.source": f"text:{text}", "model.architecture": "encoder", "objective.kind": "masked"}
    changes = {
        "objective.select_fraction": 0.5,
        "objective.mask_token_fraction": 1.0,
        "objective.random_token_fraction": 0.0,
    }
    dataset = zoo.data.load(make_config(encoder | changes))
    assert dataset.batching.corruption == Masking(0.5, 1.0, 0.0, 257, (256,), 257)
    with dataset.training_batches() as batches:
        batch = next(batches)
    assert batch["tokens"].shape == (4, 8)
    assert batch["masked_positions"].shape == (4, 4)
    assert (batch["tokens"] == 257).sum(axis=1).tolist() == [4] * 4
    evaluated = next(dataset.evaluation_batches())
    assert ((evaluated["tokens"] == 257).sum(axis=1) >= 3).all()
    shown = {"objective.mask_token_fraction": 0.0, "training.eval_masks": "all"}
    evaluated = next(zoo.data.load(make_config(encoder | changes | shown)).evaluation_batches())
    assert ((evaluated["tokens"] == 257).sum(axis=1) >= 3).all()
    assert same(evaluated, next(dataset.batching.evaluation([dataset.held_out_texts[0].stream], limit_batches=0)))
    plain = zoo.data.load(make_config({"data.source": f"text:{text}"}))
    assert plain.batching.corruption is None
    with plain.training_batches() as batches:
        assert next(batches).keys() == {"tokens"}


def test_separators_are_boundaries_where_rows_have_them():
    tokenizer = read_pretrained(vocabulary())
    encoder = {"model.architecture": "encoder", "objective.kind": "masked"}
    formats = {"packed": (tokenizer.bos_id,), "doc_sentences": (tokenizer.bos_id, tokenizer.separator_id)}
    for row_format, boundaries in formats.items():
        corruption = make_corruption(tiny(encoder | {"data.row_format": row_format}), tokenizer)
        assert corruption.boundary_ids == boundaries


@pytest.mark.parametrize("kind", ["masked", "denoising"])
def test_counts_of_the_training_tokens_weigh_masks(make_config, tmp_path, kind):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Story {number} of {number * 7919} words." for number in range(300)))
    architecture = "encoder" if kind == "masked" else "encoder_decoder"
    base = {"data.source": f"text:{text}", "model.architecture": architecture, "objective.kind": kind}
    changes = {"objective.mask_token_fraction": 1.0, "objective.random_token_fraction": 0.0, "data.sequence_length": 32}

    def first(exponent, count=8):
        dataset = zoo.data.load(make_config(base | changes | {"objective.rare_token_exponent": exponent}))
        with dataset.training_batches() as batches:
            return dataset, list(itertools.islice(batches, count))

    (dataset, rare), (plain, uniform) = first(1.0), first(0.0)
    (part,) = dataset.parts
    counts = np.bincount(part.train_stream.tokens, minlength=257)
    corruption = dataset.batching.training_corruption([part.train_stream])
    masking = corruption if kind == "masked" else corruption.masking
    np.testing.assert_allclose(masking.weights, 1 / np.maximum(counts, 1))
    np.testing.assert_array_equal(part.train_stream.counts(257), counts)
    # Without the field nothing is counted.
    assert plain.batching.training_corruption([part.train_stream]) is plain.batching.corruption
    shown = "tokens" if kind == "masked" else "source"

    def hidden(batches):
        return sum((batch[shown] == 257).sum() for batch in batches)

    assert hidden(rare) == hidden(uniform) > 50
    assert not all(same(*pair) for pair in zip(rare, uniform, strict=True))
    assert same(*(next(one.evaluation_batches()) for one in (dataset, plain)))
