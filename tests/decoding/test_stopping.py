"""The stopping automaton against a plain search in the output."""

import numpy as np
import pytest
from hypothesis import given, strategies

from zoo.data.tokenizers.tokenizer import written_bytes
from zoo.decoding.stop_strings import START, STOPPED, stop_table
from zoo.errors import ConfigError

LETTERS = strategies.text("ab\u00e4", min_size=1, max_size=4)
TWO = strategies.text("ab", min_size=1, max_size=4)


def stops_after(table, tokens):
    """Returns how many tokens the automaton reads before it stops, or None if it does not stop."""
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
def test_stop_strings_and_stop_tokens(words, texts, ids, tokens):
    assert_stops_like_a_search(words, texts, ids, tokens)


@given(
    strategies.just(["a", "b", "ab", "ba"]),
    strategies.lists(TWO, min_size=1, max_size=2),
    strategies.just(set()),
    strategies.lists(strategies.integers(0, 3), min_size=8, max_size=20),
)
def test_overlapping_stop_strings(words, texts, ids, tokens):
    assert_stops_like_a_search(words, texts, ids, tokens)


@pytest.mark.parametrize(
    ("text", "output", "after"),
    [("aab", "aaab", 4), ("abab", "abaabab", 7), ("aba", "ababa", 3), ("abac", "ababac", 6)],
)
def test_stop_strings_that_overlap_themselves(text, output, after):
    assert (
        stops_after(stop_table(3, [], [text], [b"a", b"b", b"c"]), ["abc".index(letter) for letter in output]) == after
    )


def assert_stops_like_a_search(words, texts, ids, tokens):
    pieces = [word.encode() for word in words]
    ids, tokens = {number % len(pieces) for number in ids}, [number % len(pieces) for number in tokens]
    table = stop_table(len(pieces), ids, texts, pieces)
    output, expected = b"", None
    for number, token in enumerate(tokens, 1):
        output += pieces[token]
        if token in ids or any(text.encode() in output for text in texts):
            expected = number
            break
    assert stops_after(table, tokens) == expected


def test_the_stopped_state_is_absorbing():
    table = stop_table(3, [1], ["xy"], [b"x", b"y", b""])
    np.testing.assert_array_equal(table[:, STOPPED], STOPPED)


def test_an_empty_stop_table_never_stops():
    np.testing.assert_array_equal(stop_table(5), [[START, STOPPED]] * 5)


def test_ids_beyond_the_tokenizer_have_no_text():
    """A model may have more ids than its tokenizer."""
    table = stop_table(4, [], ["aa"], [b"a", b"b"])
    assert stops_after(table, [0, 3, 2, 0]) == 4
    assert stops_after(table, [0, 1, 0]) is None


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8])
def test_the_number_of_states_is_a_power_of_two(length):
    states = stop_table(2, [], ["ab" * length], [b"a", b"b"]).shape[1]
    assert states & (states - 1) == 0
    assert 2 * length < states < 8 * length


def test_an_empty_stop_string_is_rejected():
    with pytest.raises(ConfigError, match="an empty stop string"):
        stop_table(2, [], ["a", ""], [b"a", b"b"])


def test_tokens_of_sentencepiece_write_what_they_name():
    pieces = [b"<0x0A>", "▁a".encode(), "▁▁".encode(), b"<0x0>", b"x>"]
    assert [written_bytes(piece) for piece in pieces] == [b"\n", b" a", b"  ", b"<0x0>", b"x>"]
    table = stop_table(len(pieces), strings=[">"], pieces=[written_bytes(piece) for piece in pieces])
    # Not the newline, whose name has this character.
    assert [state == STOPPED for state in table[:, START].tolist()] == [False, False, False, True, True]
