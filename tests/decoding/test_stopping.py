"""The stopping automaton against looking for the texts in what was said so far."""

import numpy as np
import pytest
from hypothesis import given, strategies

from zoo.decoding.stopping import START, STOPPED, stop_table
from zoo.errors import ConfigError

LETTERS = strategies.text("ab\u00e4", min_size=1, max_size=4)


def stops_after(table, tokens):
    """Number of tokens read when the automaton stops; None if it does not."""
    state = START
    for number, token in enumerate(tokens, 1):
        state = table[token, state]
        if state == STOPPED:
            return number
    return None


@given(strategies.lists(LETTERS, min_size=1, max_size=6), strategies.lists(LETTERS, max_size=3), strategies.sets(strategies.integers(0, 5)),
       strategies.lists(strategies.integers(0, 5), max_size=12))
def test_texts_and_tokens_stop_where_they_are_found(words, texts, ids, tokens):
    pieces = [word.encode() for word in words]
    ids, tokens = {number % len(pieces) for number in ids}, [number % len(pieces) for number in tokens]
    table = stop_table(len(pieces), ids, texts, pieces)
    said, expected = b"", None
    for number, token in enumerate(tokens, 1):
        said += pieces[token]
        if token in ids or any(text.encode() in said for text in texts):
            expected = number
            break
    assert stops_after(table, tokens) == expected


def test_what_stopped_stays_stopped():
    table = stop_table(3, [1], ["xy"], [b"x", b"y", b""])
    np.testing.assert_array_equal(table[:, STOPPED], STOPPED)


def test_nothing_stops_unless_asked():
    np.testing.assert_array_equal(stop_table(5), [[START, STOPPED]] * 5)


def test_tokens_beyond_the_pieces_say_nothing():
    """A model may have more ids than its tokenizer."""
    table = stop_table(4, [], ["aa"], [b"a", b"b"])
    assert stops_after(table, [0, 3, 2, 0]) == 4
    assert stops_after(table, [0, 1, 0]) is None


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8])
def test_few_sizes(length):
    states = stop_table(2, [], ["ab" * length], [b"a", b"b"]).shape[1]
    assert states & (states - 1) == 0
    assert 2 * length < states < 8 * length


def test_an_empty_text():
    with pytest.raises(ConfigError, match="an empty text"):
        stop_table(2, [], ["a", ""], [b"a", b"b"])
