"""Simulated sweeps with known effects: how often the verdict is wrong, and how often the interval
contains the true effect.
"""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from zoo.lab.declarations import Contrast, Side
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.noise import Noise
from zoo.lab.statistics.paired import ALPHA, paired_difference
from zoo.lab.statistics.sequential import design_until_decided, detectable_effect
from zoo.lab.statistics.simulation import HOLDS, REFUTED, UNDECIDED, SimulatedNoise, sequential_outcomes

pytestmark = pytest.mark.promise(reason="thousands of sweeps are simulated")
SIMULATIONS = 2000
# The pairs alone decide: what known noise and tuning add is in docs/comparisons.md.
PAIRS_DECIDE = Noise(1e-9, 1000, "")
VERDICTS = {HOLDS: "supported", REFUTED: "not supported", UNDECIDED: "undecided"}


def slack(simulations: int) -> float:
    """Returns four standard errors of a share of 5 %."""
    return 4 * math.sqrt(0.05 * 0.95 / simulations)


SLACK = slack(SIMULATIONS)


def simulate_losses(random: np.random.Generator, effects: list[float], seeds: int) -> np.ndarray:
    """Returns losses [arms, seeds]. A seed shifts all arms together, by far more than the noise of a
    run.
    """
    return 3 + random.normal(0, 0.5, seeds) + np.array(effects)[:, None] + random.normal(0, 0.1, (len(effects), seeds))


def sweep_of(
    losses: np.ndarray, contrasts: list[tuple[int, int, str, float]], looks: dict | None = None
) -> SweepResults:
    names = [f"arm{number}" for number in range(len(losses))]
    runs = [
        RunRecord(
            Path(f"{name}-{seed}"), name, seed, status={"state": "done"}, rows=[{"step": 1.0, "eval/loss": float(loss)}]
        )
        for name, row in zip(names, losses)
        for seed, loss in enumerate(row)
    ]
    stated = [
        Contrast(f"{number}", Side(names[a], "eval/loss"), Side(names[b], "eval/loss"), rule, margin, "")
        for number, (a, b, rule, margin) in enumerate(contrasts)
    ]
    return SweepResults(
        Path("."),
        "s",
        "eval/loss",
        [Arm(name, name, {}) for name in names],
        runs,
        list(range(losses.shape[1])),
        stated,
        looks=looks or {},
        noise={"eval/loss": PAIRS_DECIDE},
    )


def levels_of(first: int, max_seeds: int) -> dict[int, float]:
    """Returns {number of seeds: level} of the looks; with `max_seeds` above `first`, seeds are added
    until the verdict is decided.
    """
    return dict(design_until_decided(first, max_seeds).levels) if max_seeds > first else {first: ALPHA}


def count_outcomes(true: float, rule: str, margin: float, first: int, max_seeds: int) -> Counter:
    """Counts the outcomes of one contrast, whose true difference is `true`, on simulated sweeps."""
    random = np.random.default_rng(0)
    losses = np.array([simulate_losses(random, [true, 0], max_seeds) for _ in range(SIMULATIONS)])
    found = sequential_outcomes(
        losses[:, 0] - losses[:, 1],
        rule,
        margin,
        levels_of(first, max_seeds),
        noise=SimulatedNoise(np.array(PAIRS_DECIDE.sd), PAIRS_DECIDE.df),
    )
    return Counter(VERDICTS[outcome] for outcome in found)


@pytest.mark.parametrize("rule", ["superiority", "non_inferiority", "equivalence"])
def test_outcomes_of_a_simulation_with_looks_are_those_of_the_verdict(rule):
    random, seen = np.random.default_rng(1), set()
    levels = levels_of(3, 10)
    for true in random.normal(0, 0.15, 60):
        losses = simulate_losses(random, [true, 0], 10)
        (outcome,) = sequential_outcomes(
            (losses[0] - losses[1])[None],
            rule,
            0.1,
            levels,
            noise=SimulatedNoise(np.array(PAIRS_DECIDE.sd), PAIRS_DECIDE.df),
        )
        assert judge(sweep_of(losses, [(0, 1, rule, 0.1)], levels)).overall == VERDICTS[outcome]
        seen.add(outcome)
    assert seen == set(VERDICTS)


@pytest.mark.parametrize("max_seeds", [3, 10], ids=["three seeds", "added until decided"])
def test_equal_arms_are_decided_in_at_most_5_percent_of_sweeps(max_seeds):
    found = count_outcomes(0, "superiority", 0.0, 3, max_seeds)
    assert found["supported"] + found["not supported"] <= (0.05 + SLACK) * SIMULATIONS
    # The bound is not met by never deciding: both directions occur.
    assert min(found["supported"], found["not supported"]) > 0.01 * SIMULATIONS


@pytest.mark.parametrize("max_seeds", [3, 10], ids=["three seeds", "added until decided"])
@pytest.mark.parametrize(
    ("rule", "true"), [("superiority", -0.1), ("non_inferiority", 0.1), ("equivalence", 0.1), ("equivalence", -0.1)]
)
def test_rules_at_the_margin_are_decided_in_at_most_5_percent_of_sweeps(rule, true, max_seeds):
    found = count_outcomes(true, rule, 0.1, 3, max_seeds)
    assert found["supported"] <= (0.05 + SLACK) * SIMULATIONS
    assert found["not supported"] <= (0.05 + SLACK) * SIMULATIONS


@pytest.mark.parametrize("max_seeds", [3, 10], ids=["three seeds", "added until decided"])
def test_many_true_contrasts_are_refuted_in_at_most_5_percent_of_sweeps(max_seeds):
    # Each effect is at its margin, where a true contrast is refuted most often.
    # Eight independent contrasts at 2.5 % each, without a correction, would reach 18 %.
    contrasts = [(arm, 0, "non_inferiority", 0.1) for arm in range(1, 9)]
    looks, random, found = levels_of(3, max_seeds) if max_seeds > 3 else {}, np.random.default_rng(0), Counter()
    for _ in range(300):
        losses = simulate_losses(random, [0, *[0.1] * 8], max_seeds)
        # The verdict is that of the first look that decides.
        found[judge(sweep_of(losses, contrasts, looks)).overall] += 1
    assert found["not supported"] <= (0.05 + slack(300)) * 300


@pytest.mark.parametrize("max_seeds", [5, 10], ids=["five seeds", "added until decided"])
def test_detectable_effects_are_found(max_seeds):
    # Paired differences have an SD of 0.1 * sqrt(2): the effect of the seed cancels.
    found = count_outcomes(-detectable_effect(5) * 0.1 * math.sqrt(2), "superiority", 0.0, 5, max_seeds)
    assert found["supported"] > 0.77 * SIMULATIONS
    assert found["not supported"] == 0


def test_adding_seeds_decides_more_sweeps():
    added, single = (count_outcomes(-0.15, "superiority", 0.0, 3, max_seeds) for max_seeds in (10, 3))
    assert added["supported"] > 1.5 * single["supported"]


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_intervals_have_nominal_coverage(seeds):
    random, hits = np.random.default_rng(seeds), 0
    for number in range(SIMULATIONS):
        losses = simulate_losses(random, [0.2, 0], seeds)
        difference = paired_difference(*(dict(enumerate(row)) for row in losses), ALPHA, PAIRS_DECIDE)
        # A verdict takes much longer, so it is compared in some of the sweeps.
        if number < 20:
            assert judge(sweep_of(losses, [(0, 1, "superiority", 0.0)])).outcomes[0].difference == difference
        hits += difference.low <= 0.2 <= difference.high
    assert hits / SIMULATIONS == pytest.approx(0.95, abs=0.01)


def test_intervals_of_factor_effects_have_nominal_coverage():
    random, hits = np.random.default_rng(0), Counter()
    # The first factor adds 0.3, the second -0.1, and both together 0.2 more.
    cells = {("a", "c"): 0.0, ("a", "d"): -0.1, ("b", "c"): 0.3, ("b", "d"): 0.4}
    truth = {("one",): 0.4, ("two",): 0.0, ("one", "two"): 0.2}
    for _ in range(SIMULATIONS):
        sweep = sweep_of(simulate_losses(random, list(cells.values()), 3), [])
        arms = [Arm(arm.name, arm.name, {"one": one, "two": two}) for arm, (one, two) in zip(sweep.arms, cells)]
        for effect in estimate_effects(SweepResults(Path("."), "s", "eval/loss", arms, sweep.runs, sweep.seeds)):
            hits[effect.what] += effect.difference.low <= truth[effect.what] <= effect.difference.high
    assert set(hits) == set(truth)
    assert all(hits[what] / SIMULATIONS == pytest.approx(0.95, abs=0.01) for what in truth)
