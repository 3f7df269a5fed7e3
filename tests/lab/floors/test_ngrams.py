"""Interpolated n-grams against counts by hand, and against a slow count with dictionaries."""

import math
from collections import defaultdict

import numpy as np
import pytest

from zoo.lab.floors import ngrams
from zoo.lab.floors.ngrams import WittenBell


def test_a_count_by_hand():
    # After a row's first token, "0 1 0 1 2" has 1, 0, 1, 2: c = {0: 1, 1: 2, 2: 1}, N = 4, T = 3.
    model = WittenBell(np.array([[0, 1, 0, 1, 2]]), vocab_size=4, longest=2)
    unigram = {0: (1 + 3 / 4) / 7, 1: (2 + 3 / 4) / 7, 3: (3 / 4) / 7}
    # 1 is followed by 0 and by 2, and 0 twice by 1; "1 0" is followed by 1 alone.
    bigram = {(1, 0): (1 + 2 * unigram[0]) / 4, (0, 3): unigram[3] / 3, (0, 1): (2 + unigram[1]) / 3}
    after_two = {(1, 0, 3): bigram[0, 3] / 2, (1, 0, 1): (1 + bigram[0, 1]) / 2}
    for end, expected in (
        (3, [[unigram[0], unigram[3]], [bigram[1, 0], bigram[0, 3]], [bigram[1, 0], after_two[1, 0, 3]]]),
        (1, [[unigram[0], unigram[1]], [bigram[1, 0], bigram[0, 1]], [bigram[1, 0], after_two[1, 0, 1]]]),
    ):
        losses = [-sum(map(math.log, probabilities)) / 2 for probabilities in expected]
        np.testing.assert_allclose(model.losses(np.array([[1, 0, end]])), losses)


def slow_losses(training, held_out, vocab_size, longest, opening):
    """Returns the losses by length of context, token by token."""

    def context(row, place, length):
        found = tuple(row[place - length : place]) if place >= length else (-1,)
        return None if -1 in found or opening in found[1:] else found

    counts = [defaultdict(lambda: defaultdict(int)) for _ in range(longest + 1)]
    for row in training:
        for place in range(1, len(row)):
            for length in range(longest + 1):
                if row[place] >= 0 and (before := context(row, place, length)) is not None:
                    counts[length][before][row[place]] += 1
    found = []
    for most in range(longest + 1):
        losses = []
        for row in held_out:
            for place in range(1, len(row)):
                if row[place] < 0:
                    continue
                p = 1 / vocab_size
                for length in range(most + 1):
                    after = counts[length].get(context(row, place, length))
                    if after is None:
                        break
                    p = (after.get(row[place], 0) + len(after) * p) / (sum(after.values()) + len(after))
                losses.append(-math.log(p))
        found.append(sum(losses) / len(losses))
    return found


@pytest.mark.parametrize("opening", [None, 0])
def test_equal_to_a_slow_count(monkeypatch, opening):
    draws = np.random.default_rng(3)
    training, held_out = draws.integers(0, 4, (40, 12)), draws.integers(0, 5, (10, 12))
    # Padding at the end, a row of padding, and targets without a context.
    training[3, 8:], training[4], training[5, :3], held_out[2, 5:], held_out[6, :2] = -1, -1, -1, -1, -1
    monkeypatch.setattr(ngrams, "_TOKENS_AT_ONCE", 36)
    losses = WittenBell(training, 7, 4, opening).losses(held_out)
    np.testing.assert_allclose(losses, slow_losses(training.tolist(), held_out.tolist(), 7, 4, opening))


def test_probabilities_add_up_to_one():
    draws = np.random.default_rng(0)
    model = WittenBell(draws.integers(0, 5, (20, 9)), vocab_size=6, longest=3)
    rows = np.array([[1, 2, 3, token] for token in range(6)])
    scored = np.zeros(rows.shape, bool)
    scored[:, 3] = True
    each = np.array([model.losses(rows[token : token + 1], scored[:1]) for token in range(6)])
    np.testing.assert_allclose(np.exp(-each).sum(axis=0), 1)


def test_without_a_scored_token():
    with pytest.raises(ValueError, match="no token of the held-out rows is scored"):
        WittenBell(np.zeros((2, 4), int), 3).losses(np.array([[0, -1, -1]]))


def test_contexts_end_with_the_length_of_the_rows():
    model = WittenBell(np.array([[0, 1, 2], [1, 1, 2]]), vocab_size=3, longest=5)
    assert len(model.losses(np.array([[0, 1, 2, 1, 0]]))) == 3
