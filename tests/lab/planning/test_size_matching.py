"""The search for the value of a field that gives a size."""

import pytest

from zoo.errors import ConfigError
from zoo.lab.planning.size_matching import find_matching_value


@pytest.mark.parametrize("start", [255, 256, 257, 20])
def test_a_size_that_grows_in_steps_is_matched(start):
    # Gated layers take two thirds of a width, so that some neighbours are equally large.
    def size(width):
        return 400 + 30 * round(2 * width / 3)

    value = find_matching_value(start, size(128), size)
    assert abs(size(value) / size(128) - 1) <= 0.01


def test_a_size_that_does_not_change_is_refused():
    with pytest.raises(ConfigError, match=r"does not come within 1%"):
        find_matching_value(10, 100.0, lambda width: 50.0)
