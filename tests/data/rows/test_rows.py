import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from zoo.data.rows.packed_rows import MixedRows, PackedRows


def gathered(rows):
    return rows.gather(np.arange(rows.num_rows), None, 0)["tokens"]


@given(n=st.integers(0, 200), length=st.integers(1, 40))
def test_rows_hold_every_target_exactly_once(n, length):
    tokens = np.arange(n, dtype=np.uint16)
    packed = PackedRows(tokens, length)
    count, full = packed.num_rows, packed.num_training_rows
    result = gathered(packed)
    assert result.dtype == np.int32
    assert result.shape == (count, length + 1)
    targets = result[:, 1:].ravel()
    assert targets[targets >= 0].tolist() == list(range(1, n))
    inputs = result[:, :-1][result[:, 1:] >= 0]
    assert inputs.tolist() == list(range(n - 1))
    assert (result[:, 1:] >= 0).any(axis=1).all()
    assert full == sum((row >= 0).all() for row in result)
    for number in range(full):
        assert result[number].tolist() == list(range(number * length, number * length + length + 1))


@given(n=st.integers(0, 200), length=st.integers(1, 20))
def test_rows_without_extra_tokens_do_not_overlap(n, length):
    tokens = np.arange(n, dtype=np.uint16)
    packed = PackedRows(tokens, length, num_extra_tokens=0)
    count = packed.num_rows
    if n:
        result = gathered(packed)
        assert result.shape == (count, length)
        assert result[result >= 0].tolist() == list(range(n))
        assert (result >= 0).any(axis=1).all()
        assert packed.num_training_rows == sum((row >= 0).all() for row in result)
    assert (count == 0) == (n == 0)


def counting_rows(rows, first):
    """Rows of one token each, which count up from `first`."""
    return PackedRows(np.arange(first, first + rows), 1, num_extra_tokens=0)


def taken(mixed, start, count, seed=0):
    indices, epochs = mixed.order(np.arange(start, start + count), seed)
    return mixed.gather(indices, epochs, seed)["tokens"][:, 0], epochs


@settings(deadline=None, max_examples=20)
@given(
    weights=st.lists(st.floats(0.01, 1), min_size=2, max_size=4), start=st.integers(0, 9000), seed=st.integers(0, 99)
)
def test_a_mixture_has_its_shares_and_depends_on_the_position_alone(weights, start, seed):
    sizes = [50, 7, 900, 33][: len(weights)]
    mixed = MixedRows([counting_rows(size, 1000 * number) for number, size in enumerate(sizes)], weights)
    rows, _ = taken(mixed, 0, 8192, seed)
    shares = np.bincount(rows // 1000, minlength=len(weights)) / 8192
    np.testing.assert_allclose(shares, np.array(weights) / sum(weights), atol=1 / 4096)
    # Evenly spread: no stretch of 256 rows is far off.
    for begin in range(0, 8192, 256):
        part = np.bincount(rows[begin : begin + 256] // 1000, minlength=len(weights)) / 256
        np.testing.assert_allclose(part, shares, atol=2 * len(weights) / 256)
    np.testing.assert_array_equal(taken(mixed, start, 40, seed)[0], taken(mixed, 0, start + 40, seed)[0][start:])


def test_each_source_of_a_mixture_goes_through_its_own_epochs():
    mixed = MixedRows([counting_rows(10, 0), counting_rows(100, 1000)], [1, 1])
    rows, epochs = taken(mixed, 0, 400)
    for first, size in ((0, 10), (1000, 100)):
        from_source = (rows >= first) & (rows < first + size)
        orders = [
            rows[from_source][begin : begin + size].tolist() for begin in range(0, from_source.sum() - size + 1, size)
        ]
        assert all(sorted(order) == list(range(first, first + size)) for order in orders)
        assert len({tuple(order) for order in orders}) == len(orders)
        assert epochs[from_source].tolist() == [number // size for number in range(from_source.sum())]


def test_a_mixture_evaluates_every_row_of_every_source():
    mixed = MixedRows([counting_rows(10, 0), counting_rows(3, 1000)], [5, 1])
    assert mixed.num_rows == 13
    assert gathered(mixed)[:, 0].tolist() == [*range(10), 1000, 1001, 1002]


def test_a_source_too_short_for_a_mixture_is_reported():
    mixed = MixedRows([counting_rows(10, 0), PackedRows(np.arange(3), 8)], [1, 1])
    assert mixed.num_training_rows == 0
    assert "3 tokens" in mixed.shortage
