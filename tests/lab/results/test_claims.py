"""Verdicts on claims: each has its own looks, corrections, levels and conditions."""

import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from zoo.lab.declarations import Contrast, Side
from zoo.lab.formatting import confidence_level
from zoo.lab.metrics import equal_by_chance
from zoo.lab.planning.power import power_lines
from zoo.lab.report.result_tables import contrast_table
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.differences import arm_differences
from zoo.lab.results.noise import known_noise, tuning_noise
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm, parse_noise
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.noise import Noise
from zoo.lab.statistics.paired import paired_difference
from zoo.lab.statistics.sequential import design_until_decided
from zoo.lab.statistics.simulation import HOLDS, REFUTED, SimulatedNoise, outcomes
from zoo.lab.statistics.tuning_curve import TuningCurve, total_regret

QUIET = {"eval/loss": Noise(1e-9, 1000, "earlier sweeps")}
CODES = {"holds": HOLDS, "refuted": REFUTED, "undecided": 0}


def sweep_of(losses: dict[str, list[float]], contrasts: list[tuple], noise=QUIET, **changes) -> SweepResults:
    """Returns a sweep of arms with these losses by seed; a contrast is (claim, a, b, rule, margin)."""
    runs = [
        RunRecord(
            Path(f"{arm}-{seed}"), arm, seed, status={"state": "done"}, rows=[{"step": 1.0, "eval/loss": float(loss)}]
        )
        for arm, values in losses.items()
        for seed, loss in enumerate(values)
    ]
    stated = [
        Contrast(str(number), Side(a, "eval/loss"), Side(b, "eval/loss"), rule, margin, "", claim)
        for number, (claim, a, b, rule, margin) in enumerate(contrasts)
    ]
    arms = [Arm(name, name, {}) for name in losses]
    seeds = list(range(len(next(iter(losses.values())))))
    return SweepResults(Path("."), "s", "eval/loss", arms, runs, seeds, stated, noise=noise, **changes)


def shifted(base: list[float], by: float, noise: float = 0.01) -> list[float]:
    """Returns losses `by` above those of another arm, give or take some noise."""
    return [value + by + noise * (-1) ** seed for seed, value in enumerate(base)]


BASE = [2.0, 2.1, 1.9]


def test_claims_of_one_experiment_have_verdicts_of_their_own():
    losses = {"base": BASE, "low": shifted(BASE, -0.3), "same": shifted(BASE, 0.0)}
    verdict = judge(
        sweep_of(losses, [("X1", "low", "base", "superiority", 0.1), ("X2", "same", "base", "superiority", 0.0)])
    )
    assert verdict.claims == {"X1": "supported", "X2": "undecided"}
    assert verdict.overall == "undecided"
    assert verdict.paragraph.startswith("X1 supported; X2 undecided (arms not tuned): ")


def test_refutations_are_corrected_within_a_claim_only():
    # One refutation with p of about 0.03, beside three contrasts that are not refuted.
    losses = {
        "base": [2.0] * 4,
        "worse": [2.03, 2.10, 2.06, 2.04],
        **{f"same{i}": shifted([2.0] * 4, 0) for i in "abc"},
    }
    refuted = ("X1", "worse", "base", "superiority", 0.0)
    others = [("X2", f"same{i}", "base", "superiority", 0.0) for i in "abc"]
    assert judge(sweep_of(losses, [refuted, *others])).claims["X1"] == "not supported"
    together = [("X1", *other[1:]) for other in others]
    verdict = judge(sweep_of(losses, [refuted, *together]))
    assert verdict.claims == {"X1": "undecided"}
    assert "not after Holm's correction for 4 contrasts" in verdict.paragraph
    # A contrast whose runs are missing is not among those that p is corrected for.
    losses["short"] = [2.0] * 3
    verdict = judge(sweep_of(losses, [refuted, *together, ("X1", "short", "base", "superiority", 0.0)]))
    assert "not after Holm's correction for 4 contrasts" in verdict.paragraph


def test_a_claim_keeps_the_verdict_of_the_look_that_decided_it():
    levels = design_until_decided(3, 6).levels
    # After three seeds a lies clearly below b; the seeds that X2 needed would contradict it.
    a = [1.000, 1.001, 0.999, 3.0, 2.9, 3.1]
    losses = {"a": a, "b": [2.0] * 6, "same": shifted([2.0] * 6, 0)}
    contrasts = [("X1", "a", "b", "superiority", 0.0), ("X2", "same", "b", "superiority", 0.0)]
    verdict = judge(sweep_of(losses, contrasts, looks=levels))
    assert verdict.claims == {"X1": "supported", "X2": "undecided"}
    assert verdict.outcomes[0].difference.n == 3
    assert "decided at 3 seeds; the further ones were run for other claims" in verdict.paragraph
    # Without planned looks all seeds count.
    assert judge(sweep_of(losses, contrasts)).claims["X1"] == "undecided"


def test_equivalence_holds_at_a_one_sided_level_and_is_refuted_at_a_two_sided_one():
    # The 90 % interval is within 0.1, the 95 % interval is not.
    values = [3.0, 3.09, 3.045, 3.06]
    assert judge(sweep_of({"a": values, "b": [3.0] * 4}, [("X", "a", "b", "equivalence", 0.1)])).overall == "supported"
    assert judge(sweep_of({"a": values, "b": [3.0] * 4}, [("X", "a", "b", "superiority", 0.0)])).overall == "undecided"
    # A refutation that only the 90 % interval shows does not count.
    worse = [3.0, 3.24, 3.15, 3.2]
    verdict = judge(sweep_of({"a": worse, "b": [3.0] * 4}, [("X", "a", "b", "non_inferiority", 0.02)]))
    assert verdict.overall == "undecided"
    assert "a refutation needs p < 0.05" in verdict.paragraph


def test_pairs_alone_decide_only_at_a_much_smaller_level():
    losses = {"a": shifted(BASE, -0.3, 0.02), "b": BASE}
    contrasts = [("X", "a", "b", "superiority", 0.0)]
    assert judge(sweep_of(losses, contrasts)).overall == "supported"
    verdict = judge(sweep_of(losses, contrasts, noise={}))
    assert verdict.overall == "undecided"
    assert "99.8 % interval" in verdict.paragraph
    assert "name earlier sweeps with --noise-from" in verdict.paragraph
    # Other arms of the sweep tell the noise too.
    others = {"c": shifted(BASE, 0.5, 0.02), "d": shifted(BASE, 0.7, -0.02)}
    assert judge(sweep_of(losses | others, contrasts, noise={})).overall == "supported"


def test_noise_of_other_runs_widens_the_interval_of_pairs_that_look_alike():
    losses = {"a": shifted(BASE, -0.3, 0.001), "b": BASE}
    contrasts = [("X", "a", "b", "superiority", 0.0)]
    noisy = {"eval/loss": Noise(0.5, 20, "earlier sweeps")}
    assert judge(sweep_of(losses, contrasts)).overall == "supported"
    assert judge(sweep_of(losses, contrasts, noise=noisy)).overall == "undecided"


def curve(**changes) -> TuningCurve:
    return TuningCurve(
        **{
            **dict(
                minimum=0.003, loss=2.0, curvature=0.1, mean_regret=1e-4, sd=1e-3, df=7, values=(1e-3, 2e-3, 3e-3, 4e-3)
            ),
            **changes,
        }
    )


def tuning_of(**curves: TuningCurve) -> dict:
    entries = {arm: asdict(one) for arm, one in curves.items()}
    return {"field": "optimizer.learning_rate", "chosen": dict.fromkeys(curves, 0.003), "curves": entries}


def test_an_uncertain_optimum_widens_the_interval():
    losses = {"a": shifted(BASE, -0.05, 0.001), "b": BASE}
    contrasts = [("X", "a", "b", "superiority", 0.0)]
    sure = judge(sweep_of(losses, contrasts, tuning=tuning_of(a=curve(), b=curve())))
    unsure = judge(sweep_of(losses, contrasts, tuning=tuning_of(a=curve(mean_regret=0.03), b=curve())))
    assert (sure.overall, unsure.overall) == ("supported", "undecided")
    assert "learning_rate fitted in each arm" in sure.paragraph


@pytest.mark.parametrize(
    "changes",
    [
        {"noise": {"eval/loss": Noise(0.5, 20, "earlier sweeps")}},
        {"tuning": tuning_of(a=curve(mean_regret=0.03), b=curve())},
    ],
    ids=["noise", "tuning"],
)
def test_differences_from_a_baseline_have_the_intervals_of_contrasts(changes):
    losses = {"a": shifted(BASE, -0.05, 0.001), "b": BASE}
    sweep = sweep_of(losses, [("X", "a", "b", "superiority", 0.0)], baseline="b", **changes)
    stated = judge(sweep).outcomes[0].difference
    difference = baseline_differences(sweep)["a"]
    assert (difference.low, difference.high) == (stated.low, stated.high)


@pytest.mark.parametrize(
    ("tuning", "why"),
    [
        (tuning_of(a=curve(problem="the losses do not bend over these values"), b=curve()), "do not bend"),
        (
            {"field": "f", "chosen": {"a": 1, "b": 2}, "values": [1, 2, 3], "seeds": [1000]},
            "f is the best of 3 values with 1 seed, without a curve",
        ),
        ({"field": "f", "chosen": {"a": 1, "b": 2}, "tuned_at": "s-micro"}, "f was tuned in another sweep (s-micro)"),
    ],
    ids=["no minimum", "a grid", "another size"],
)
def test_arms_that_were_to_be_tuned_and_are_not_decide_nothing(tuning, why):
    losses = {"a": shifted(BASE, -1), "b": BASE}
    verdict = judge(sweep_of(losses, [("X", "a", "b", "superiority", 0.0)], tuning=tuning))
    assert verdict.claims == {"X": "not tuned"}
    assert why in verdict.paragraph


def test_an_arm_that_diverges_at_every_rate_is_judged():
    diverging = curve(values=(), problem="only 0 values have finite losses, and 4 are needed", minimum=math.nan)
    losses = {"a": BASE, "b": [math.nan] * 3}
    sweep = sweep_of(losses, [("X", "a", "b", "superiority", 0.0)], tuning=tuning_of(a=curve(), b=diverging))
    assert judge(sweep).overall == "supported"


def test_a_seed_that_ends_far_off_is_named_beside_the_verdict():
    random = np.random.default_rng(0)
    losses = {name: list(2 + 0.01 * random.standard_normal(4)) for name in ("b", "c", "d", "e")}
    losses["a"] = [value - 5 for value in losses["b"]]
    losses["a"][1] += 1.0
    verdict = judge(sweep_of(losses, [("X", "a", "b", "superiority", 0.0)]))
    assert verdict.overall == "supported"
    assert "seed 1 of a ends far off" in verdict.paragraph


@pytest.mark.parametrize(("apart", "expected"), [(0, "supported"), (1, "supported"), (2, "not supported")])
@pytest.mark.parametrize("side", [-1, 1])
def test_equal_arms_are_counted_on_either_side(apart, expected, side):
    losses, contrasts = {}, []
    for pair in range(5):
        losses[f"a{pair}"] = [2.0, 2.1, 1.9]
        losses[f"b{pair}"] = shifted(losses[f"a{pair}"], side * 0.3 * (pair < apart), 0.05)
        contrasts.append(("S2", f"a{pair}", f"b{pair}", "equal", 0.0))
    verdict = judge(sweep_of(losses, contrasts))
    assert verdict.claims == {"S2": expected}
    assert [outcome.outcome for outcome in verdict.outcomes].count("refuted") == apart


def test_noise_of_tuning_has_the_degrees_of_freedom_of_the_noisier_arm():
    """Of variances of 4e-4 and nearly 0, each with 7, the sum has 7 and not 14."""
    found = tuning_noise(
        sweep_of({"a": BASE, "b": BASE}, [], tuning=tuning_of(a=curve(sd=0.02), b=curve(sd=5e-4))), {"a": 1, "b": -1}
    )
    assert (found.sd, found.df) == (pytest.approx(0.02, rel=1e-3), pytest.approx(7, rel=2e-3))
    alike = tuning_noise(
        sweep_of({"a": BASE, "b": BASE}, [], tuning=tuning_of(a=curve(), b=curve())), {"a": 2, "b": -1}
    )
    assert (alike.sd, alike.df) == (pytest.approx(1e-3 * 5**0.5), pytest.approx(7 * 25 / 17))
    assert tuning_noise(sweep_of({"a": BASE, "b": BASE}, [], tuning=tuning_of(a=curve())), {"a": 1, "b": -1}) is None


def test_equal_arms_that_are_far_apart_are_no_chance():
    """One of five intervals may exclude 0, but not by this p."""
    losses = {name: [2.0, 2.1, 1.9] for name in "bcdefghij"} | {"a": shifted([2.0, 2.1, 1.9], 0.3, 0.001)}
    contrasts = [("S2", *pair, "equal", 0.0) for pair in ("ab", "cd", "ef", "gh", "ij")]
    verdict = judge(sweep_of(losses, contrasts))
    assert [outcome.outcome for outcome in verdict.outcomes] == ["refuted", *["holds"] * 4]
    assert verdict.overall == "not supported"


def test_equal_arms_are_counted_only_when_all_have_run():
    losses = {name: [2.0, 2.1, 1.9] for name in "bc"} | {"a": shifted([2.0, 2.1, 1.9], 0.3, 0.05), "d": [2.0, 2.1]}
    verdict = judge(sweep_of(losses, [("S2", "a", "b", "equal", 0.0), ("S2", "c", "d", "equal", 0.0)]))
    assert [outcome.outcome for outcome in verdict.outcomes] == ["refuted", "undecided"]
    assert verdict.overall == "undecided"


def test_simulated_decisions_are_those_of_the_verdict():
    random = np.random.default_rng(3)
    seen = set()
    for _ in range(120):
        seeds, rule = int(random.integers(2, 8)), str(random.choice(["superiority", "non_inferiority", "equivalence"]))
        margin = float(random.choice([0.5, 1.0]))
        d = random.standard_normal(seeds) + random.normal(0, 2)
        known = random.random() < 0.7
        noise = {"eval/loss": Noise(abs(random.normal(1, 0.3)), 12, "")} if known else {}
        sweep = sweep_of({"a": list(5 + d), "b": [5.0] * seeds}, [("X", "a", "b", rule, margin)], noise=noise)
        told = SimulatedNoise(np.array([noise["eval/loss"].sd]), 12) if known else None
        (simulated,) = outcomes(d[None], rule, margin, noise=told)
        (outcome,) = judge(replace(sweep)).outcomes
        assert CODES[outcome.outcome] == simulated
        seen.add(outcome.outcome)
    assert seen == set(CODES)


def test_one_diverged_seed_does_not_spare_a_refutation_its_correction():
    base = [2.0] * 5
    refuted = [value + by for value, by in zip(base, (0.011, 0.02, 0.002, 0.018, 0.004), strict=True)]
    losses = {"b": base, "a": refuted, **{f"same{i}": shifted(base, 0) for i in range(7)}}
    contrasts = [("X", arm, "b", "superiority", 0.0) for arm in losses if arm != "b"]
    assert judge(sweep_of(losses, contrasts)).overall == "undecided"
    with_diverged = {arm: [*values, 2.0] for arm, values in losses.items()} | {"a": [*refuted, math.nan]}
    verdict = judge(sweep_of(with_diverged, contrasts))
    assert verdict.overall == "undecided"
    assert "not after Holm's correction for 8 contrasts" in verdict.paragraph
    # A 90 % interval beyond the margin is not enough either.
    worse = [value + 0.0279 + by for value, by in zip(base, (-0.01, -0.005, 0, 0.005, 0.01), strict=True)]
    contrasts = [("X", "a", "b", "non_inferiority", 0.02)]
    verdict = judge(sweep_of({"a": [*worse, math.nan], "b": [*base, 2.0]}, contrasts))
    assert verdict.overall == "undecided"
    assert "a refutation needs p < 0.05" in verdict.paragraph


def test_differences_that_are_equal_by_chance_decide_nothing():
    contrasts = [("X", "a", "b", "superiority", 0.0)]
    losses = {"a": [1.75, 1.75], "b": [2.0, 2.0]}
    noisy = {"eval/loss": Noise(0.5, 20, "earlier sweeps")}
    verdict = judge(sweep_of(losses, contrasts, noise=noisy))
    nearly = judge(sweep_of({"a": [1.75, 1.75 + 1e-6], "b": [2.0, 2.0]}, contrasts, noise=noisy))
    assert verdict.overall == nearly.overall == "undecided"
    (outcome,), (other,) = verdict.outcomes, nearly.outcomes
    assert (outcome.difference.low, outcome.difference.high) == pytest.approx(
        (other.difference.low, other.difference.high), abs=1e-5
    )
    assert outcome.difference.p == pytest.approx(other.difference.p, abs=1e-5)
    # Without noise nothing tells how much they vary; differences of 0 are those of equal arms.
    verdict = judge(sweep_of(losses, contrasts, noise={}))
    assert verdict.overall == "undecided"
    assert "chance may have made them equal" in verdict.paragraph
    assert "ends 0.2500 lower than b (in each of 2 pairs, so no interval)" in verdict.paragraph.replace(" nats", "")
    difference = verdict.outcomes[0].difference
    assert all(map(math.isnan, (difference.p, difference.low, difference.high)))
    (found,) = arm_differences(sweep_of(losses, [], noise={}, baseline="b"))
    assert (found.testable, found.why_not_testable[:46]) == ("no", "the difference is exactly the same in every se")
    equal = {"a": [2.0, 2.1], "b": [2.0, 2.1]}
    for noise in ({}, noisy):
        assert judge(sweep_of(equal, [("X", "a", "b", "equivalence", 0.1)], noise=noise)).overall == "supported"
    # Shares and counts of different runs may be equal.
    shares = {0: 0.8, 1: 0.81}
    found = paired_difference(shares, shares, noise=Noise(0.05, 20, ""), by_chance=equal_by_chance("eval/accuracy"))
    assert found.high == -found.low > 0.05
    assert math.isnan(paired_difference(shares, shares, by_chance=True).low)
    of_tokens = ("eval/loss@512", "eval/perplexity", "eval/bits_per_byte", "measured/pretraining_loss")
    assert not any(map(equal_by_chance, of_tokens))
    # Quiet runs and an uncertain optimum are known.
    assert judge(sweep_of(losses, contrasts)).overall == "supported"
    unsure = {"tuning": tuning_of(a=curve(mean_regret=0.3), b=curve())}
    assert judge(sweep_of(losses, contrasts, **unsure)).overall == "undecided"


def test_equal_arms_are_counted_at_the_levels_of_their_intervals():
    """Without known noise intervals exclude 0 in 0.2 % of cases: chance explains none of three."""
    base = [2.0, 2.1, 1.9, 2.05, 1.95, 2.02]
    noisy = [2.6, 1.2, 2.9, 1.1, 2.4, 1.5]
    losses = {"a": shifted(base, 0.5, 0.001), "b": base, "c": noisy}
    contrasts = [("X", first, second, "equal", 0.0) for first, second in ("ab", "ac", "bc")]
    verdict = judge(sweep_of(losses, contrasts, noise={}))
    assert [outcome.outcome for outcome in verdict.outcomes] == ["refuted", "holds", "holds"]
    assert verdict.overall == "not supported"


def test_regrets_of_several_numbers_of_an_arm_add_up():
    """E[(R1 + R2)^2] of independent regrets, each c v times the square of a normal number."""
    first, second = 0.02, 0.03
    random = np.random.default_rng(0)
    squares = random.standard_normal((2, 400_000)) ** 2
    found = total_regret([curve(mean_regret=first), curve(mean_regret=second, df=9)])
    assert found.mean_square == pytest.approx(((first * squares[0] + second * squares[1]) ** 2).mean(), rel=0.02)
    assert found.df == 7 / 4
    alone = total_regret([curve(mean_regret=first)], [2])
    assert alone.mean_square == pytest.approx(4 * 3 * first**2)


def test_intervals_contain_the_difference_where_the_regret_of_one_arm_is_most_of_their_width():
    """A regret comes from the square of a variance, of which seven degrees of freedom tell little."""
    random, missed = np.random.default_rng(0), 0
    for _ in range(2000):
        regret = 0.1 * random.standard_normal() ** 2
        noise = 0.02 * random.standard_normal(5)
        estimate = total_regret([curve(mean_regret=0.1 * random.chisquare(7) / 7)])
        found = paired_difference(dict(enumerate(regret + noise)), dict.fromkeys(range(5), 0.0), regrets=[estimate])
        missed += not found.low <= 0 <= found.high
    assert missed / 2000 < 0.05


def test_a_table_of_contrasts_names_the_level_of_each_interval():
    losses = {"a": shifted(BASE, -0.3), "b": BASE}
    contrasts = [("X", "a", "b", rule, 0.1) for rule in ("superiority", "non_inferiority")]
    for noise, levels in ((QUIET, ("95 %", "90 %")), ({}, ("99.8 %", "99.6 %"))):
        sweep = sweep_of(losses, contrasts, noise=noise)
        page = contrast_table(sweep, judge(sweep))
        assert re.findall(r">(9\d(?:\.\d)? %)<", page) == list(levels)
        assert "% interval" not in page


def test_the_power_of_a_rule_is_not_computed_from_the_noise_of_one_of_two_metrics():
    noise = {"eval/loss": Noise(0.02, 100, "earlier sweeps")}
    sides = [Side("a", "eval/loss"), Side("b", "eval/loss"), Side("b", "eval/loss@512")]
    one, two = (Contrast("c", sides[0], other, "non_inferiority", 0.05, "") for other in sides[1:])
    assert sum("stays undecided" in line for line in power_lines([one, two], 5, {}, noise, "eval/loss")) == 1
    assert not any("stays undecided" in line for line in power_lines([two], 5, {}, noise, "eval/loss"))


def test_no_level_is_rounded_to_certainty():
    assert [confidence_level(alpha) for alpha in (0.05, 0.0212, 0.002, 0.0004, 1e-6)] == [
        "95 %", "97.9 %", "99.8 %", "99.96 %", "99.9999 %",
    ]  # fmt: skip


def test_recorded_noise_has_degrees_of_freedom_that_are_no_whole_number():
    noise = {"eval/loss": {"sd": 0.0458, "df": 2.9, "source": "earlier sweeps"}}
    assert parse_noise(noise) == {"eval/loss": Noise(0.0458, 2.9, "earlier sweeps")}
    for bad in ({"sd": math.nan}, {"sd": 0}, {"df": 0}, {"df": "many"}, {"df": None}):
        assert parse_noise({"eval/loss": noise["eval/loss"] | bad}) == {}


def test_tuning_runs_of_one_seed_are_asked_last():
    """They do not show what a seed does to one arm alone, as earlier sweeps and other arms do."""
    effects = {1000: 0.0, 1001: 0.1}
    seen = tuning_of(a=curve(effects=effects, effects_error=0.25), b=curve(effects=effects, effects_error=0.25))
    losses = {"a": shifted(BASE, -0.3), "b": BASE}
    (contrast,) = sweep_of(losses, [("X", "a", "b", "superiority", 0.0)]).contrasts
    earlier = {"eval/loss": Noise(0.5, 20, "earlier sweeps")}
    others = {"c": shifted(BASE, 0.5, 0.02), "d": shifted(BASE, 0.7, -0.02)}

    def source(noise, tuning, losses=losses):
        return known_noise(sweep_of(losses, [], noise=noise, tuning=tuning), contrast).source

    alone = tuning_of(a=curve(), b=curve())
    assert source(earlier, seen) == "the tuning runs of both arms"
    assert source(earlier, alone) == "earlier sweeps"
    assert source({}, alone, losses | others) == "the 2 other arms of the sweep"
    assert source({}, alone) == "the tuning runs of both arms"
