"""Layers that run as one loop."""

import pytest

from zoo.models.layer_loops import layer_loops


@pytest.mark.parametrize(("kinds", "period", "start", "expected"), [
    ("aaaaa", 1, 0, [(0, 1, 5)]),
    ("aaaaa", 1, 1, [(1, 1, 4)]),
    ("abababa", 2, 0, [(0, 2, 3), (6, 1, 1)]),
    ("aabaabaa", 3, 0, [(0, 3, 2), (6, 1, 2)]),
    ("abababa", 2, 1, [(1, 2, 3)]),
    ("aaabbbbb", 8, 0, [(0, 1, 3), (3, 1, 5)]),
    ("abbaab", 6, 1, [(1, 1, 2), (3, 1, 2), (5, 1, 1)]),
    ("a", 1, 0, [(0, 1, 1)]),
    ("a", 1, 1, []),
])  # fmt: skip
def test_layers_are_divided_into_loops(kinds, period, start, expected):
    assert [tuple(loop) for loop in layer_loops(kinds, period, start)] == expected


def test_the_last_of_neighbours_can_be_a_loop_of_its_own():
    assert [tuple(loop) for loop in layer_loops("aaabba", 6, 0, {"a"})] == [(0, 1, 2), (2, 1, 1), (3, 1, 2), (5, 1, 1)]
