"""Figures that come with zoo as plug-ins: the shift of layer inputs, nearest tokens."""

import numpy as np
import pytest

from tests.draw.test_draw import draw_files, untrained_run
from tests.measures.shipped import drawing
from zoo.cli.main import main
from zoo.errors import ConfigError


def test_mean_shift_is_in_standard_deviations():
    shift = drawing("shift")
    before = np.array([[0.0, 10.0], [2.0, 14.0]])
    np.testing.assert_allclose(shift.mean_shift(before, before + np.array([3.0, 4.0])), (3 / 1 + 4 / 2) / 2)
    assert shift.mean_shift(before, before) == 0


def test_input_shift_reads_every_checkpoint(tmp_path):
    folder, shift = untrained_run(tmp_path), drawing("shift")
    found = shift.read_shift(folder, "some words to read")
    # There are the initial values and one checkpoint.
    assert found.steps.tolist() == [0, 2]
    assert found.percentiles.shape == (2, 2, 3)
    assert (np.diff(found.percentiles, axis=2) > 0).all()
    assert found.shifts.shape == (1, 2)
    assert (found.shifts > 0).all()
    assert draw_files(tmp_path, "shift", folder, "--format", "png") == ["shift.png"]


def test_nearest_rows_have_the_largest_cosine():
    vectors = np.array([[1.0, 0.0], [2.0, 0.2], [0.0, 1.0], [3.0, 0.0], [-1.0, 0.0]])
    found = drawing("neighbours").nearest(vectors, 0, 2, np.array([0, 1, 2, 4]))
    assert [row for row, _ in found] == [1, 2]
    np.testing.assert_allclose(found[0][1], 2 / np.hypot(2, 0.2))


def test_neighbours_of_a_run(tmp_path, capsys):
    folder, neighbours = untrained_run(tmp_path), drawing("neighbours")
    found = neighbours.read_neighbours(folder, "abca", count=3)
    assert found.tokens == ["a", "b", "c"]
    assert [len(row) for row in found.nearest] == [3, 3, 3]
    assert all(name != token for token, row in zip(found.tokens, found.nearest, strict=True) for name, _ in row)
    assert draw_files(tmp_path, "neighbours", folder, "--count", "2", "--format", "png") == ["neighbours.png"]
    with pytest.raises(ConfigError, match="has no token that can be shown"):
        neighbours.read_neighbours(folder, "  ")
    assert main(["draw", "neighbours", str(folder), "--count", "0"]) == 2
    assert "--count 0 must be at least 1" in capsys.readouterr().err
