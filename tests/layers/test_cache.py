"""The ring buffer of keys and values against a list of all keys."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies

from zoo.layers.attention.key_values import KeyValues
from zoo.layers.cache import Cache

# Values are narrower than keys.
B, G, K, V = 2, 3, 4, 2


def remembered(lengths, width, slots, further, window=0):
    """Returns a ring after reading rows of the given lengths, padded to `width`, and further
    tokens; and all keys of each row.
    """
    generator = np.random.default_rng(0)
    k, v = (generator.standard_normal((B, max(lengths) + further, G, size)).astype(np.float32) for size in (K, V))
    padded = [np.full((B, width, G, size), np.nan, np.float32) for size in (K, V)]
    for row, length in enumerate(lengths):
        for array, source in zip(padded, (k, v), strict=True):
            array[row, :length] = source[row, :length]
    cache = Cache([{}], jnp.array(lengths) - 1, jnp.int32(width - 1), slots)
    entries = cache.layer(0).entries
    entries["attention"] = KeyValues.newest_of(*map(jnp.asarray, padded), cache, window)
    for step in range(further):
        cache = cache.following()
        at = np.array(lengths) + step
        new = (jnp.asarray(x[np.arange(B), at][:, None]) for x in (k, v))
        entries = cache.layer(0).entries
        entries["attention"] = entries["attention"].with_next(*new, cache)
    return cache, k, v


@pytest.mark.promise(reason="a program for each random shape of a cache")
@settings(max_examples=12)
@given(
    strategies.tuples(*[strategies.integers(1, 9)] * B),
    strategies.integers(0, 6),
    strategies.integers(0, 14),
    strategies.integers(1, 20),
)
def test_slots_hold_the_keys_of_their_positions(lengths, padding, further, window):
    total = max(lengths) + further
    cache, k, v = remembered(lengths, max(lengths) + padding, total, further, window)
    entry = cache.layers[0]["attention"]
    slots = min(window, total)
    assert entry.keys.shape == (B * G, entry.slots, K) == (B * G, slots, K)
    assert entry.values.shape == (B * G, slots, V)
    positions = np.asarray(cache.positions(slots))
    for row, length in enumerate(lengths):
        newest = length + further - 1
        filled = sorted(positions[row][positions[row] >= 0])
        assert filled == list(range(max(0, newest - slots + 1), newest + 1))
        for slot, position in enumerate(positions[row]):
            if position >= 0:
                for kept, source in ((entry.keys, k), (entry.values, v)):
                    np.testing.assert_array_equal(
                        np.asarray(kept).reshape(B, G, slots, -1)[row, :, slot], source[row, position]
                    )


def test_empty_slots_have_no_position():
    cache, _, _ = remembered((1, 4), 6, 8, 0)
    np.testing.assert_array_equal(np.sort(cache.positions(8)), [[-1] * 7 + [0], [-1] * 4 + [0, 1, 2, 3]])


def test_appending_does_not_change_the_previous_cache():
    before, _, _ = remembered((2, 3), 4, 8, 0)
    kept = before.layers[0]["attention"].keys
    after = before.following()
    entries = after.layer(0).entries
    entries["attention"] = entries["attention"].with_next(jnp.ones((B, 1, G, K)), jnp.ones((B, 1, G, V)), after)
    assert before.layers[0]["attention"].keys is kept
    assert int(after.newest_index) == int(before.newest_index) + 1
    assert (np.asarray(after.layers[0]["attention"].keys) == 1).any()


@pytest.mark.parametrize(("layers", "filled"), [([{}, {}], False), ([{"attention": 0}, {}], True)])
def test_cache_knows_whether_the_prompt_was_read(layers, filled):
    assert Cache(layers, jnp.zeros(1), jnp.int32(0), 4).filled == filled


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("rows", [[0], [0, 0, 1], [1, 1]])
def test_cache_rows_can_be_selected(rows, heads):
    """Rows are selected twice, because a cache of one row and one head is stored differently."""
    k = np.random.default_rng(3).standard_normal((B, 5, heads, K)).astype(np.float32)
    cache = Cache([{}], jnp.array([4, 4]), jnp.int32(4), 5)
    values = -k[..., :V]
    cache.layers[0]["attention"] = KeyValues.newest_of(jnp.asarray(k), jnp.asarray(values), cache, 0)
    cache.layers[0]["cross_attention"] = memory = jnp.zeros((1, 7, K))
    for _ in range(2):
        cache, k = cache.take(jnp.array(rows)), k[rows]
        assert cache.newest.shape == (len(rows),)
        entry, expected = cache.layers[0]["attention"], k.transpose(0, 2, 1, 3).reshape(-1, 5, K)
        assert entry.slots == 5
        assert entry.keys.shape == (expected.shape if len(expected) > 1 else (5, K))
        np.testing.assert_array_equal(entry.keys.reshape(-1, 5, K), expected)
        np.testing.assert_array_equal(entry.values.reshape(-1, 5, V), -expected[..., :V])
        rows = [0, 0]
    assert cache.layers[0]["cross_attention"] is memory
