"""The values of a tuning that an axis labels."""

import pytest

from zoo.lab.results.tuning_grid import GridPoint, TuningGrid


def grid(**arms) -> TuningGrid:
    points = {name: [GridPoint(value, {0: 1.0}) for value in values] for name, values in arms.items()}
    return TuningGrid("optimizer.learning_rate", "eval/loss", [0], points, {})


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        # The last two are a tenth of a factor apart, where six and a quarter are the whole axis.
        ([0.005, 0.00833, 0.0125, 0.0188, 0.0281, 0.03125], [0.005, 0.00833, 0.0125, 0.0188, 0.0281]),
        ([0.0, 0.1, 0.2, 1.0], [0.0, 0.2, 1.0]),
        ([0.01], [0.01]),
    ],
)
def test_labels_of_values_do_not_overlap(values, ticks):
    assert grid(a=values).ticks == ticks


def test_values_of_all_arms_are_labelled_once():
    assert grid(a=[0.001, 0.01], b=[0.01, 0.1]).ticks == [0.001, 0.01, 0.1]
