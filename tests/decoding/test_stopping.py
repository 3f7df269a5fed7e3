"""The stopping automaton against looking for the texts in what was said so far."""

import numpy as np
import pytest
from hypothesis import given, strategies

from zoo.decoding.stop_strings import START, STOPPED, stop_table
from zoo.errors import ConfigError

LETTERS = strategies.text("ab\u00e4", min_size=1, max_size=4)
TWO = strategies.text("ab", min_size=1, max_size=4)


def stops_after(table, tokens):
    """Number of tokens read when the automaton stops; None if it does not."""
    state = START
    for number, token in enumerate(tokens, 1):
        state = table[token, state]
        if state == STOPPED:
            return number
    return None


@given(
    strategies.lists(LETTERS, min_size=1, max_size=6),
    strategies.lists(LETTERS, max_size=3),
    strategies.sets(strategies.integers(0, 5)),
    strategies.lists(strategies.integers(0, 5), max_size=12),
)
def test_texts_and_tokens_stop_where_they_are_found(words, texts, ids, tokens):
    check(words, texts, ids, tokens)


@given(
    strategies.just(["a", "b", "ab", "ba"]),
    strategies.lists(TWO, min_size=1, max_size=2),
    strategies.just(set()),
    strategies.lists(strategies.integers(0, 3), min_size=8, max_size=20),
)
def test_texts_of_two_letters_that_begin_within_themselves(words, texts, ids, tokens):
    check(words, texts, ids, tokens)


@pytest.mark.parametrize(
    ("text", "said", "after"), [("aab", "aaab", 4), ("abab", "abaabab", 7), ("aba", "ababa", 3), ("abac", "ababac", 6)]
)
def test_a_text_that_begins_within_its_beginning(text, said, after):
    assert stops_after(stop_table(3, [], [text], [b"a", b"b", b"c"]), ["abc".index(letter) for letter in said]) == after


def check(words, texts, ids, tokens):
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
    with pytest.raises(ConfigError, match="an empty stop string"):
        stop_table(2, [], ["a", ""], [b"a", b"b"])
