"""Seeds that diverge or end far off: found where one arm goes wrong, and seldom where none does."""

import math
from pathlib import Path

import numpy as np
import pytest

from zoo.lab.declarations import Contrast, Side
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.instability import MINIMUM_RUNS, instability, robust_distances
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults

LOSS = "eval/loss"


def sweep(finals, states=None, **more):
    """A sweep whose runs end at {arm: {seed: loss}}."""
    runs = [
        RunRecord(
            Path(f"{arm}-{seed}"),
            arm,
            seed,
            status={"state": (states or {}).get((arm, seed), "done")},
            rows=[{"step": 10.0, "tokens": 100.0, LOSS: loss}],
        )
        for arm, found in finals.items()
        for seed, loss in found.items()
    ]
    arms = [Arm(arm, f"the {arm}", {}) for arm in finals]
    return SweepResults(Path("."), "sweep", LOSS, arms, runs, sorted({run.seed for run in runs}), **more)


def noisy(rng, arms, seeds, sd=0.01, seed_sd=0.0):
    """{arm: {seed: loss}}: levels of the arms far apart, an effect of the seed on all arms, noise."""
    shift = rng.normal(size=seeds) * seed_sd
    levels = 2 + rng.random(arms)
    noise = rng.normal(size=(arms, seeds)) * sd
    return {f"arm {a}": {s: levels[a] + shift[s] + noise[a, s] for s in range(seeds)} for a in range(arms)}


def test_a_seed_far_off_is_found_and_no_other():
    values = noisy(np.random.default_rng(1), 4, 6, seed_sd=0.2)
    assert [found.far_off for found in instability(sweep(values)).values()] == [()] * 4
    values["arm 2"][3] += 0.3
    found = instability(sweep(values))
    assert {arm: one.far_off for arm, one in found.items() if one.far_off} == {"arm 2": (3,)}
    assert instability(sweep(values), LOSS)["arm 2"].far_off == (3,)
    assert found["arm 2"].text == "1 of 6 (seed 3 far off)"
    assert found["arm 1"].text == "0 of 6"
    # The rule does not depend on the side.
    values["arm 2"][3] -= 0.6
    assert instability(sweep(values), LOSS)["arm 2"].far_off == (3,)


def test_a_seed_that_shifts_all_arms_is_not_far_off():
    values = noisy(np.random.default_rng(2), 4, 6)
    for found in values.values():
        found[5] += 1.0
    assert not any(found.far_off for found in instability(sweep(values)).values())


def test_of_two_arms_only_the_one_that_goes_wrong_is_named():
    values = noisy(np.random.default_rng(3), 2, 8)
    values["arm 0"][2] += 0.3
    assert [found.far_off for found in instability(sweep(values)).values()] == [(2,), ()]


def test_divergence_counts_apart_and_moves_no_scale():
    values = noisy(np.random.default_rng(4), 3, 6)
    values["arm 0"][1] = math.nan
    values["arm 1"][2] = 50.0
    limited = Contrast("c", Side("arm 1", LOSS), Side("arm 2", LOSS), "superiority", 0.0, "", diverged_above=5.55)
    found = instability(sweep(values, {("arm 0", 4): "diverged", ("arm 2", 0): "failed"}, contrasts=[limited]))
    assert [(one.finished, one.diverged, one.far_off) for one in found.values()] == [
        (6, (1, 4), ()),
        (6, (2,), ()),
        (5, (), ()),
    ]
    assert found["arm 0"].text == "2 of 6 (seed 1 diverged, seed 4 diverged)"
    # Without the limit the same run is finite, and far off.
    assert instability(sweep(values))["arm 1"].far_off == (2,)


@pytest.mark.parametrize(("arms", "seeds"), [(1, MINIMUM_RUNS - 1), (3, 3), (6, 2), (3, 1)])
def test_few_runs_are_not_judged(arms, seeds):
    values = noisy(np.random.default_rng(5), arms, seeds)
    values["arm 0"][0] += 100
    found = instability(sweep(values))
    assert [one.far_off for one in found.values()] == [None] * arms
    assert found["arm 0"].text == f"0 of {seeds}"
    assert not instability(sweep(values), LOSS)["arm 0"].far_off


def test_runs_without_variation_are_not_judged():
    values = {f"arm {a}": dict.fromkeys(range(6), 2.0) for a in range(3)}
    assert instability(sweep(values))["arm 0"].far_off is None
    assert instability(sweep({"arm": {}}))["arm"].text == "–"


def test_the_caveat_names_the_share_and_the_arm():
    values = noisy(np.random.default_rng(6), 3, 6)
    assert not any("standard deviations" in line for line in sweep_caveats(sweep(values)))
    values["arm 1"][0] += 0.4
    lines = [line for line in sweep_caveats(sweep(values)) if "standard deviations" in line]
    assert len(lines) == 1
    assert lines[0].startswith("the arm 1: 1 of 6 (seed 0 far off), more than 6 standard deviations")


@pytest.mark.parametrize(("arms", "seeds", "chance", "found"), [(2, 6, 4, 90), (3, 4, 4, 65), (4, 6, 2, 85)])
def test_rates_under_normal_noise_and_at_12_standard_deviations(arms, seeds, chance, found):
    rng = np.random.default_rng(7)
    sweeps, wrong, right = 300, 0, 0
    for _ in range(sweeps):
        values = noisy(rng, arms, seeds)
        wrong += any(abs(one) > 6 for of in robust_distances(values).values() for one in of.values())
        values["arm 0"][0] += 0.12
        right += abs(robust_distances(values)["arm 0"][0]) > 6
    assert 100 * wrong / sweeps <= chance
    assert 100 * right / sweeps >= found


def test_distances_are_in_standard_deviations_of_the_noise():
    distances = robust_distances(noisy(np.random.default_rng(8), 20, 20, sd=0.01, seed_sd=0.3))
    assert np.std([one for of in distances.values() for one in of.values()]) == pytest.approx(1, abs=0.1)
