"""What archived tuning runs tell of noise, and the number that plans of tuned sweeps take for it."""

import csv
import statistics
from pathlib import Path

import pytest

from zoo.files import read_json
from zoo.lab.declarations import BETWEEN_LEVELS
from zoo.lab.planning.power import OF_TUNING_RUNS
from zoo.lab.report.archive.experiment_page import tuned_by
from zoo.lab.report.archive.result_record import FITTED
from zoo.lab.results.noise import noise_of_curves
from zoo.lab.results.tuning_grid import tuning_curves

RESULTS = Path(__file__).parents[2] / "docs/results"
FITTED_RESULTS = {
    path.parent.name: (path.parent, result)
    for path in sorted(RESULTS.glob("*/result.json"))
    if tuned_by(result := read_json(path)) == FITTED
}


def curves_of_contrasts(folder, result):
    """Yields the last curves of both sides of each contrast by the metric of the sweep."""
    with open(folder / "contrasts.csv", newline="") as file:
        for row in csv.DictReader(file):
            if row["metric a"] == row["metric b"] == result["metric"] and row["a"] != row["b"]:
                arms = [row[side].replace(BETWEEN_LEVELS, ",") for side in "ab"]
                yield [tuning_curves(result["tuning"], arm)[-1] for arm in arms]


@pytest.mark.parametrize("name", FITTED_RESULTS)
def test_fitted_curves_keep_the_effects_of_their_seeds(name):
    """Without them the noise of the tuning runs lacks what a seed does to one arm alone."""
    folder, result = FITTED_RESULTS[name]
    for curve in (curve for curves in curves_of_contrasts(folder, result) for curve in curves):
        assert len(curve.effects) > 1
        assert 0 < curve.effects_error < 1


def test_plans_of_tuned_sweeps_take_the_median_of_the_archive():
    pairs = [curves for found in FITTED_RESULTS.values() for curves in curves_of_contrasts(*found)]
    df = [noise_of_curves([(1.0, a), (-1.0, b)]).df for a, b in pairs]
    assert len(df) > 40
    assert abs(statistics.median(df) - OF_TUNING_RUNS) < 1
