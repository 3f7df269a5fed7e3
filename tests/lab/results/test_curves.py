import itertools
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from zoo.lab.formatting import interval, number, plus_minus
from zoo.lab.report import figures
from zoo.lab.report.result_tables import lengths_table
from zoo.lab.results import curves
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.sweep_results import load_sweep


def test_band_is_mean_and_range_over_seeds(writer):
    sweep = load_sweep(writer.sweep())
    found = curves.seed_band(sweep, sweep.arms[0], "eval/loss")
    finals = [run.final("eval/loss") for run in sweep.runs_of(sweep.arms[0].name)]
    assert found.n == 3
    assert (found.step[0], found.step[-1]) == (0, 200)
    assert found.mean[-1] == pytest.approx(np.mean(finals))
    assert (found.low[-1], found.high[-1]) == (min(finals), max(finals))
    assert found.seconds[-1] == pytest.approx(200 * 0.11)


def test_band_ends_where_a_diverged_run_ends_and_leaves_out_failed_ones(writer):
    sweep = load_sweep(writer.sweep(broken=True))
    diverged = curves.seed_band(sweep, sweep.arm("norm=post,warm-up=0"), "eval/loss")
    failed = curves.seed_band(sweep, sweep.arm("norm=post,warm-up=100"), "eval/loss")
    assert (diverged.n, diverged.step[-1]) == (3, 120)
    assert (failed.n, failed.step[-1]) == (2, 200)


def test_band_of_unfinished_runs_covers_steps_that_all_have_reached(writer):
    folders = [writer.run(f"r{seed}", seed=seed, state="running", stop=stop) for seed, stop in enumerate((40, 80))]
    sweep = load_comparison(folders)
    assert curves.seed_band(sweep, sweep.arms[0], "eval/loss").step.tolist() == [0, 20, 40]
    assert curves.seed_band(sweep, sweep.arms[0], "nothing") is None


def test_a_failed_run_does_not_end_the_band_of_running_ones(writer):
    folders = [writer.run("r0", state="failed", stop=20), writer.run("r1", seed=1, state="running", stop=60)]
    sweep = load_comparison(folders)
    assert curves.seed_band(sweep, sweep.arms[0], "eval/loss").step.tolist() == [0, 20, 40, 60]


def test_colour_follows_the_first_factor_and_dash_the_second(writer):
    assert list(curves.arm_styles(load_sweep(writer.sweep())).values()) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.parametrize("levels", [(12, 1), (2, 9), (3, 3)], ids=str)
def test_no_two_arms_look_alike(levels):
    """Colours and dashes are reused if there are many levels, but no combination is."""
    arms = [
        SimpleNamespace(name=f"{first} {second}", factors={"first": str(first), "second": str(second)})
        for first, second in itertools.product(*map(range, levels))
    ]
    found = curves.arm_styles(SimpleNamespace(arms=arms)).values()
    assert len(set(found)) == len(arms)
    assert all(colour < len(curves.COLOURS) and dash < len(curves.DASHES) for colour, dash in found)


def top(folder):
    """Returns the upper end of the vertical axis of a sweep's curves."""
    sweep = load_sweep(folder)
    return figures._curves(sweep, {arm.name: ("black", "solid") for arm in sweep.arms}).get_ylim()[1]


def test_the_axis_cuts_off_diverging_losses_but_not_rising_accuracies(writer):
    folder = writer.sweep(broken=True)
    # One run ends at five times its loss; all begin at 6.
    assert 6 < top(folder) < 7
    for path in folder.glob("*/metrics.jsonl"):
        path.write_text(path.read_text().replace('"eval/loss": ', '"eval/accuracy": '))
    experiment = json.loads((folder / "experiment.json").read_text())
    (folder / "experiment.json").write_text(json.dumps(experiment | {"metric": "eval/accuracy", "contrasts": []}))
    assert top(folder) > 12


def test_impossible_lengths_are_distinguished_from_unfinished_ones(writer):
    sweep = load_sweep(writer.sweep(lengths=True, broken=True))
    found = curves.loss_by_length(sweep)
    assert (found.trained, found.lengths) == (128, [64, 128, 256, 512, 1024])
    assert {length for arm, length in found.impossible if arm == "norm=pre,warm-up=0"} == {512, 1024}
    assert not [arm for arm, _ in found.impossible if arm.startswith("norm=post")]
    assert found.values["norm=post,warm-up=0"][256].n == 2
    trained = found.values["norm=pre,warm-up=0"][128]
    assert trained.mean == pytest.approx(
        np.mean(list(curves.final_values(sweep, "norm=pre,warm-up=0", "eval/loss").values()))
    )


def test_thinning_keeps_the_mean_and_bounds_the_size():
    x = np.arange(10_007.0)
    thinned, squares = curves.downsample(x, x**2)
    assert len(thinned) <= curves.MAXIMUM_POINTS
    assert thinned[0] == np.mean(x[:17])
    assert squares[-1] == pytest.approx(np.mean(x[-(10_007 % 17) :] ** 2))
    assert curves.downsample(x[:5])[0] is not None
    np.testing.assert_array_equal(curves.downsample(x[:5])[0], x[:5])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "not finite"),
        (0, "0"),
        (1234567, "1,234,567"),
        (2.34567, "2.346"),
        (12345.678, "12,346"),
        (0.0012345, "0.001234"),
        (1.5e-7, "1.5e−07"),
        (1.234567e9 + 0.5, "1.23e+09"),
        (-2.5, "−2.500"),
    ],
)
def test_numbers_are_formatted_by_their_size(value, text):
    assert number(value) == text


def test_digits_follow_the_uncertainty():
    assert interval(0.97, 1.07) == "0.97 to 1.07"
    assert interval(1.0171, 1.0229) == "1.0171 to 1.0229"
    assert interval(1.0171, 1.0371) == "1.017 to 1.037"
    assert interval(float("nan"), 1.0) == "–"
    assert plus_minus(2.34567, 0.0123) == "2.346 ± 0.012"
    assert plus_minus(2.34567, float("nan")) == "2.346"
    # Steps and other large numbers have no decimals.
    assert interval(-879.52, -753.1) == "−880 to −753"
    assert plus_minus(19169.83, 32950.7) == "19,170 ± 32,951"
    # A bound that excludes 0 must not be rounded to 0.
    assert interval(-0.2736, -0.003718) == "−0.274 to −0.004"
    assert interval(-0.2736, 0.003718) == "−0.27 to 0.00"
    # Small values are not printed as zeros.
    assert plus_minus(8.1234e-8, 1.2e-9) == "8.12e−08 ± 1.2e−09"
    assert interval(-1.5e-7, 2.5e-7) == "−1.5e−07 to 2.5e−07"
    assert plus_minus(2.34567, 1e-7) == "2.34567 ± 0.00000"


def test_values_that_are_not_finite_count_as_evaluated(writer):
    folder = writer.sweep(lengths=True)
    for seed in range(3):
        path = folder / f"pre-0-{seed}" / "metrics.jsonl"
        path.write_text(re.sub(r'"eval/loss@256": [\d.]+', '"eval/loss@256": null', path.read_text()))
    sweep = load_sweep(folder)
    found = curves.loss_by_length(sweep)
    assert found.values["norm=pre,warm-up=0"][256] is None
    assert {length for arm, length in found.impossible if arm == "norm=pre,warm-up=0"} == {512, 1024}
    assert lengths_table(sweep).count("not finite") == 1


@pytest.mark.parametrize("length", [[1, 2], "x", -1, {}])
def test_invalid_lengths_are_not_trained_lengths(writer, length):
    folder = writer.sweep(lengths=True)
    for path in folder.glob("*/config.json"):
        config = json.loads(path.read_text())
        path.write_text(json.dumps(config | {"data": {"sequence_length": length}}))
    assert curves.loss_by_length(load_sweep(folder)).trained is None
