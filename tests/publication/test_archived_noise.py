"""What archived tuning runs tell of noise, and the numbers that plans and pages take from them."""

import csv
import itertools
import statistics
from pathlib import Path

import pytest

from zoo.files import read_json
from zoo.lab.declarations import BETWEEN_LEVELS
from zoo.lab.planning.known_noise import recorded_noise
from zoo.lab.planning.power import OF_TUNING_RUNS
from zoo.lab.report.archive.experiment_page import tuned_by
from zoo.lab.report.archive.result_record import FITTED
from zoo.lab.results.noise import noise_of_curves
from zoo.lab.results.tuning_grid import tuning_curves

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def curves_of_contrasts():
    """The last curves of both sides of each contrast by the metric of its sweep, by archive."""
    found = {}
    for path in sorted(DOCS.glob("results/*/result.json")):
        if tuned_by(result := read_json(path)) == FITTED:
            with open(path.with_name("contrasts.csv"), newline="") as file:
                found[path.parent.name] = [
                    [tuning_curves(result["tuning"], row[side].replace(BETWEEN_LEVELS, ","))[-1] for side in "ab"]
                    for row in csv.DictReader(file)
                    if row["metric a"] == row["metric b"] == result["metric"] and row["a"] != row["b"]
                ]
    return found


def test_fitted_curves_keep_the_effects_of_their_seeds(curves_of_contrasts):
    """Without them the noise of the tuning runs lacks what a seed does to one arm alone."""
    incomplete = {
        name
        for name, pairs in curves_of_contrasts.items()
        for curve in itertools.chain(*pairs)
        if len(curve.effects) < 2 or not 0 < curve.effects_error < 1
    }
    assert len(curves_of_contrasts) > 30
    assert not incomplete


def test_plans_of_tuned_sweeps_take_the_median_of_the_archive(curves_of_contrasts):
    pairs = itertools.chain(*curves_of_contrasts.values())
    df = [noise_of_curves([(1.0, a), (-1.0, b)]).df for a, b in pairs]
    assert len(df) > 40
    assert abs(statistics.median(df) - OF_TUNING_RUNS) < 1


def test_the_degrees_of_freedom_of_recorded_noise_are_those_that_the_page_states():
    most = max(entry["df"] for entry in recorded_noise())
    text = " ".join((DOCS / "comparisons.md").read_text().split())
    assert f"the noise differs as variances with {most:.1f} degrees of freedom do" in text
