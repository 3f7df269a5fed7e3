"""The curve through tuning runs: its minimum, the regret of the choice, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from zoo.lab.results.noise import noise_of_curves
from zoo.lab.statistics.noise import Noise, Regret
from zoo.lab.statistics.paired import paired_difference
from zoo.lab.statistics.tuning_curve import curve_record, fit_tuning_curve, misfit_p, parse_curve

RATES = (0.002, 0.003, 0.0045, 0.00675)
SEEDS = (1000, 1001, 1002)


def losses(best=0.0035, curvature=0.1, noise=0.0, random=None, rates=RATES):
    random = random or np.random.default_rng(0)
    shift = {seed: random.normal(0, 0.05) for seed in SEEDS}
    return {
        rate: {
            seed: 2 + curvature * math.log(rate / best) ** 2 + shift[seed] + noise * random.normal() for seed in SEEDS
        }
        for rate in rates
    }


def test_the_minimum_of_an_exact_parabola_is_found():
    curve = fit_tuning_curve(losses())
    assert curve.problem == ""
    assert curve.minimum == pytest.approx(0.0035, rel=1e-6)
    assert curve.curvature == pytest.approx(0.1, rel=1e-6)
    assert curve.mean_regret == pytest.approx(0, abs=1e-12)
    assert curve.df == 4 * 3 - 3 - 2


def test_values_near_one_are_fitted_by_their_distance_to_one():
    found = {
        value: {seed: 2 + 0.1 * math.log((1 - value) / 0.015) ** 2 for seed in SEEDS}
        for value in (0.95, 0.97, 0.98, 0.99)
    }
    assert fit_tuning_curve(found, distance_to_one=True).minimum == pytest.approx(0.985, rel=1e-6)


@pytest.mark.parametrize(
    ("found", "problem", "extend"),
    [
        (losses(best=0.0008), "below", "lower"),
        (losses(best=0.02), "above", "higher"),
        (losses(curvature=0.0, noise=0.01), "do not bend", "both"),
        (losses(curvature=-0.1), "do not bend", "both"),
        (losses() | {0.00675: dict.fromkeys(SEEDS, math.inf)}, "only 3 values", "lower"),
        ({rate: dict.fromkeys(SEEDS, math.inf) for rate in RATES}, "only 0 values", "lower"),
    ],
    ids=["minimum below", "minimum above", "flat", "bends down", "diverges at the top", "diverges everywhere"],
)
def test_a_curve_without_a_minimum_asks_for_more_values(found, problem, extend):
    curve = fit_tuning_curve(found)
    assert problem in curve.problem
    assert curve.extend == extend


@pytest.mark.parametrize("curvature", [0.05, 0.2])
def test_the_regret_is_as_large_as_the_curve_says(curvature):
    random, true, said = np.random.default_rng(1), [], []
    for _ in range(400):
        best = 0.003 * math.exp(random.uniform(0, 0.4))
        curve = fit_tuning_curve(losses(best, curvature, 0.014, random))
        if not curve.problem:
            true.append(curvature * math.log(curve.minimum / best) ** 2)
            said.append(curve.mean_regret)
    assert len(true) > 150
    assert np.mean(said) == pytest.approx(np.mean(true), rel=0.35)


def test_intervals_include_the_regrets_of_tuning_and_the_noise_of_other_runs():
    a, b = {0: 2.0, 1: 2.1, 2: 2.2}, {0: 2.31, 1: 2.4, 2: 2.52}
    alone = paired_difference(a, b)
    # By hand: sd^2 / n + q, with Satterthwaite's degrees of freedom.
    regrets = [Regret(0.0004, 7), Regret(0.0001, 7)]
    variance = alone.sd**2 / 3
    total = variance + 0.0005
    df = total**2 / (variance**2 / 2 + 0.0004**2 / 7 + 0.0001**2 / 7)
    half = stats.t.ppf(0.975, df) * math.sqrt(total)
    tuned = paired_difference(a, b, regrets=regrets)
    assert (tuned.low, tuned.high) == (pytest.approx(alone.mean - half), pytest.approx(alone.mean + half))
    noisy = paired_difference(a, b, noise=Noise(0.3, 20, ""))
    half = stats.t.ppf(0.975, 20) * 0.3 / math.sqrt(3)
    assert (noisy.low, noisy.high) == (pytest.approx(alone.mean - half), pytest.approx(alone.mean + half))
    assert noisy.p == pytest.approx(2 * stats.t.sf(abs(alone.mean) / (0.3 / math.sqrt(3)), 20))
    # Other runs never make an interval narrower than its own pairs do.
    quiet = paired_difference(a, b, noise=Noise(1e-6, 100, ""))
    assert (quiet.low, quiet.high, quiet.p) == (alone.low, alone.high, alone.p)


@pytest.mark.parametrize("mean_square", [1e-9, 1e-7, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("noise", [None, Noise(0.012, 4, "other runs")])
def test_regrets_never_narrow_an_interval(mean_square, noise):
    """Small ones would by Satterthwaite's degrees of freedom, which rise faster than the error."""
    a = dict(enumerate((0.011, -0.004, 0.002, 0.009, -0.001)))
    b = dict.fromkeys(a, 0.0)
    plain, tuned = (paired_difference(a, b, noise=noise, regrets=found) for found in ([], [Regret(mean_square, 7)] * 2))
    assert tuned.high - tuned.low >= plain.high - plain.low
    assert tuned.p >= plain.p
    assert tuned.tail(-0.02, above=True) >= plain.tail(-0.02, above=True)


def test_misfit_is_that_of_nested_linear_models():
    """Against sums of squares of both models from projections, with a run missing."""
    found = losses(noise=0.01, random=np.random.default_rng(3), rates=(*RATES, 0.0101, 0.0152))
    del found[0.002][1002]
    rows = [(math.log(rate), rate, seed, loss) for rate, by_seed in found.items() for seed, loss in by_seed.items()]
    y = np.array([row[3] for row in rows])

    def squares(columns):
        q, _ = np.linalg.qr(np.array(columns, float).T)
        return y @ y - (q.T @ y) @ (q.T @ y), len(y) - len(columns)

    seeds = [[row[2] == seed for row in rows] for seed in SEEDS]
    curve, curve_df = squares([*seeds, [row[0] for row in rows], [row[0] ** 2 for row in rows]])
    means, means_df = squares([*seeds, *([row[1] == rate for row in rows] for rate in list(found)[1:])])
    expected = stats.f.sf((curve - means) / (curve_df - means_df) / (means / means_df), curve_df - means_df, means_df)
    assert (curve_df - means_df, means_df) == (3, 17 - 3 - 5)
    assert misfit_p(found) == pytest.approx(expected, rel=1e-6)


def test_misfit_of_parabolas_is_uniform_and_that_of_a_cliff_is_small():
    random = np.random.default_rng(0)
    p = [misfit_p(losses(noise=0.01, random=random)) for _ in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 0.01
    cliff = losses(noise=0.005, random=random, curvature=0.02)
    for seed in SEEDS:
        cliff[0.00675][seed] += 0.1
    assert misfit_p(cliff) < 1e-4
    assert fit_tuning_curve(cliff).problem == ""


def test_misfit_needs_noise_and_more_values_than_a_parabola_has_parameters():
    assert math.isnan(misfit_p(losses()))
    assert math.isnan(misfit_p(losses(noise=0.01, rates=RATES[:3])))


def acted_on(effects, random, noise=0.01):
    """Returns losses of an arm whose seeds have these effects; one more value has a single run."""
    runs = [(rate, seed) for rate in RATES for seed in SEEDS] + [(0.0101, SEEDS[0])]
    found: dict[float, dict[int, float]] = {}
    for rate, seed in runs:
        loss = 2 + 0.1 * math.log(rate / 0.0035) ** 2 + effects[seed] + noise * random.normal()
        found.setdefault(rate, {})[seed] = loss
    return found


@pytest.mark.parametrize("own", [0.0, 0.02])
def test_noise_of_tuned_arms_has_what_a_seed_does_to_one_of_them(own):
    """Its mean square is the variance of a pair, that of two runs and two such effects."""
    random, squares = np.random.default_rng(1), []
    for _ in range(500):
        common = {seed: random.normal(0, 0.5) for seed in SEEDS}
        arms = [{seed: effect + own * random.normal() for seed, effect in common.items()} for _ in range(2)]
        a, b = (fit_tuning_curve(acted_on(effects, random)) for effects in arms)
        squares.append(noise_of_curves([(1.0, a), (-1.0, b)]).sd ** 2)
    assert np.mean(squares) == pytest.approx(2 * (0.01**2 + own**2), rel=0.12)


def test_effects_of_seeds_that_differ_have_the_degrees_of_freedom_of_the_seeds():
    random = np.random.default_rng(0)
    a, b = (
        fit_tuning_curve(acted_on(dict(zip(SEEDS, effects, strict=True)), random, noise=1e-4))
        for effects in ((0.0, 0.1, 0.0), (0.0, 0.0, 0.2))
    )
    known = noise_of_curves([(1.0, a), (-1.0, b)])
    assert known.sd == pytest.approx(np.std([0.0, 0.1, -0.2], ddof=1), rel=1e-2)
    assert known.df == pytest.approx(2, rel=1e-3)


def test_a_curve_from_before_effects_were_kept_has_the_noise_of_runs_alone():
    random = np.random.default_rng(0)
    curve = fit_tuning_curve(acted_on(dict.fromkeys(SEEDS, 0.0), random))
    record = json.loads(json.dumps(curve_record(curve)))
    assert parse_curve(record) == curve
    older = parse_curve({name: value for name, value in record.items() if not name.startswith("effects")})
    assert older.effects == {}
    assert parse_curve(record | {"effects": None}) is None
    assert noise_of_curves([(1.0, older), (-1.0, curve)]).sd == pytest.approx(2**0.5 * curve.sd)


def test_noise_of_a_sum_counts_arms_by_their_weights():
    """The variance of a - b/2 - c/2 is 1 + 1/4 + 1/4 times that of an arm, of effects and of runs."""
    random, squares = np.random.default_rng(2), []
    for _ in range(400):
        arms = [acted_on({seed: 0.02 * random.normal() for seed in SEEDS}, random) for _ in range(3)]
        squares.append(noise_of_curves(list(zip((1.0, -0.5, -0.5), map(fit_tuning_curve, arms)))).sd ** 2)
    assert np.mean(squares) == pytest.approx(1.5 * (0.01**2 + 0.02**2), rel=0.12)


def test_only_common_seeds_tell_by_how_much_effects_differ():
    random = np.random.default_rng(0)
    curves = [
        fit_tuning_curve(acted_on(dict(zip(SEEDS, effects, strict=True)), random, noise=1e-4))
        for effects in ((0.0, 0.1, 0.0), (0.0, 0.0, 0.2))
    ]
    first = replace(curves[0], effects={seed: curves[0].effects[seed] for seed in SEEDS[:2]})
    known = noise_of_curves([(1.0, first), (-1.0, curves[1])])
    assert (known.sd, known.df) == (pytest.approx(0.1 / 2**0.5, rel=1e-2), pytest.approx(1, rel=1e-3))
    alone = replace(first, effects={SEEDS[0]: 0.0})
    assert noise_of_curves([(1.0, alone), (-1.0, curves[1])]).sd < 1e-3


def test_a_curve_that_does_not_bend_still_tells_what_seeds_do():
    flat = {rate: {seed: 2 + 0.1 * (seed - 1000) + 1e-3 * (rate > 0.003) for seed in SEEDS} for rate in RATES}
    curve = fit_tuning_curve(flat)
    assert curve.problem
    assert np.diff(list(curve.effects.values())) == pytest.approx(0.1)
    assert curve.effects_error == pytest.approx(1 / len(RATES))
