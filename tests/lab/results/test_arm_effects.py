"""Effects of arms in other units: the curve is found in the runs, and all tables show the numbers."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from tests.lab.conftest import contrast
from zoo.cli.sweeps.result_summary import print_results
from zoo.lab.declarations import Contrast, Side
from zoo.lab.report.result_tables import arms_table, contrast_table, differences_table, units_note
from zoo.lab.results.arm_effects import (
    baseline_curve,
    baseline_effects,
    contrast_effect,
    hardest_gap,
    tokens_per_parameter,
)
from zoo.lab.results.contrast_verdict import judge_contrast
from zoo.lab.results.effect_units import BUDGETS, DECAYING, HORIZON_FREE, PowerLaw
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_record import sweep_record
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.verdict import judge

LOSS, SEEDS, STEPS, TOKENS = "eval/loss", (0, 1, 2), 500, 1024
LAW = PowerLaw(0.0, 2.0, 0.2)


def run(arm, seed, times=1.0, steps=STEPS, kind="cosine", state="done", **fields):
    """A run that learns as fast as the law with `times` its tokens; seeds differ by 0.01."""
    rows = [{"step": 0.0, "tokens": 0.0, LOSS: 6.0}]
    for step in np.linspace(0, steps, 11)[1:]:
        rows.append({"step": step, "tokens": step * TOKENS, LOSS: LAW.loss(times * step / STEPS) + 0.01 * seed})
    config = {"seed": seed, "schedule": {"kind": kind}, "training": {"steps": steps}, "model": {"dim": 8, **fields}}
    status = {"state": state, "step": steps}
    meta = {"parameters": {"total": 100_000}}
    return RunRecord(Path(f"{arm}-{seed}"), arm, seed, config, meta, status, rows)


def sweep(*runs, **more):
    arms = [Arm(name, name, {"arm": name}) for name in dict.fromkeys(run.arm for run in runs)]
    return SweepResults(Path("."), "sweep", LOSS, arms, list(runs), list(SEEDS), **more)


@pytest.fixture
def compared():
    """A baseline, an arm worth 1.5 times the tokens, and one that wastes 40 % of them."""
    times = {"base": 1.0, "fast": 1.5, "slow": 0.6}
    # Differences that are the same in every seed would have no interval.
    return sweep(*(run(arm, seed, found + 1e-7 * seed, width=arm) for arm, found in times.items() for seed in SEEDS))


def test_the_factor_is_that_of_the_tokens(compared):
    found = baseline_effects(compared)
    assert list(found) == ["fast", "slow"]
    assert [effect.tokens.value for effect in found.values()] == pytest.approx([1.5, 0.6], rel=0.01)
    assert [effect.tokens.reached for effect in found.values()] == ["extrapolated", "on the curve"]
    assert found["fast"].tokens.basis == DECAYING
    assert found["fast"].tokens.low < 1.5 < found["fast"].tokens.high


def test_steps_to_the_loss_of_the_baseline(compared):
    found = baseline_effects(compared)
    # Between two evaluations the loss is interpolated linearly.
    assert found["fast"].steps.mean == pytest.approx(STEPS / 1.5, rel=0.02)
    assert (found["fast"].steps.text, found["slow"].steps.text) == ("334 of 500", "not reached")
    partly = sweep(*(run("base", seed) for seed in SEEDS), *(run("a", seed, 1 + 0.1 * (seed - 1)) for seed in SEEDS))
    steps = baseline_effects(partly)["a"].steps
    assert (steps.mean, steps.text) == (None, "not reached in 1 of 3")


def test_a_contrast_is_measured_on_the_curve_of_its_own_side_b(compared):
    stated = Contrast("c", Side("fast", LOSS), Side("slow", LOSS), "superiority", 0.0, "")
    found = contrast_effect(compared, stated, judge_contrast(compared, stated).difference)
    assert found.tokens.value == pytest.approx(1.5 / 0.6, rel=0.01)
    other = Contrast("c", Side("fast", "eval/loss@64"), Side("slow", LOSS), "superiority", 0.0, "")
    assert contrast_effect(compared, other, judge_contrast(compared, other).difference) is None


def test_budgets_of_the_baseline_are_preferred_to_its_own_runs():
    longer = [run("twice", seed, steps=2 * STEPS) for seed in SEEDS]
    half = [run("half", seed, steps=STEPS // 2) for seed in SEEDS]
    arm = [run("arm", seed, 1.5, width=4) for seed in SEEDS]
    # An arm that differs in more than its steps, and one that did not end, are no budgets.
    wider = [run("wider", seed, steps=4 * STEPS, width=9) for seed in SEEDS]
    failed = [run("failed", seed, steps=8 * STEPS, state="failed") for seed in SEEDS]
    found = sweep(*(run("base", seed) for seed in SEEDS), *longer, *half, *arm, *wider, *failed)
    curve = baseline_curve(found, "base", LOSS)
    assert (curve.basis, curve.budget) == (BUDGETS, STEPS * TOKENS)
    assert curve.tokens.tolist() == [256_000, 512_000, 1_024_000]
    effects = baseline_effects(found)
    assert (effects["arm"].tokens.value, effects["arm"].tokens.reached) == (
        pytest.approx(1.5, rel=0.01),
        "on the curve",
    )
    # A longer run of the baseline is worth its own tokens.
    assert effects["twice"].tokens.value == pytest.approx(1, rel=0.01)
    # A factor is relative to the tokens of its arm.
    assert effects["wider"].tokens.value == pytest.approx(1, rel=0.01)


def test_a_baseline_that_is_tuned_at_each_budget_has_a_curve():
    runs = [*(run("base", seed) for seed in SEEDS), *(run("twice", seed, steps=2 * STEPS) for seed in SEEDS)]
    for one in runs:
        one.config["optimizer"] = {"learning_rate": 0.01 if one.arm == "base" else 0.007}
    assert baseline_curve(sweep(*runs), "base", LOSS).basis == DECAYING
    tuning = {"field": "optimizer.learning_rate"}
    assert baseline_curve(sweep(*runs, tuning=tuning), "base", LOSS).basis == BUDGETS


@pytest.mark.parametrize(("kind", "basis"), [("cosine", DECAYING), ("constant", HORIZON_FREE), ("wsd", DECAYING)])
def test_a_run_at_a_rate_without_a_horizon_is_its_own_shorter_runs(kind, basis):
    assert baseline_curve(sweep(*(run("base", seed, kind=kind) for seed in SEEDS)), "base", LOSS).basis == basis


def test_runs_without_a_curve_have_no_factor(compared):
    for metric in ("eval/accuracy", "train/loss", "eval/loss@64"):
        assert baseline_curve(compared, "base", metric) is None
    few = [run("base", seed) for seed in SEEDS]
    for one in few:
        del one.rows[2:-2]
    assert baseline_curve(sweep(*few), "base", LOSS) is None
    unequal = [run("base", seed, steps=STEPS * (1 + seed)) for seed in SEEDS]
    assert baseline_curve(sweep(*unequal), "base", LOSS) is None
    assert tokens_per_parameter(sweep(*unequal), "base") is None
    unfinished = sweep(*(run(arm, seed, state="running") for arm in "ab" for seed in SEEDS))
    assert baseline_effects(unfinished)["b"].tokens is None


def test_shares_of_the_gap_to_every_floor(compared, monkeypatch):
    floors = {"unigram": 3.2, "trigram": 1.6}
    monkeypatch.setattr(SweepResults, "floor_scores", lambda self, arm, metric: floors)
    gaps = baseline_effects(compared)["fast"].gaps
    gain = LAW.loss(1) - LAW.loss(1.5)
    assert {name: gap.value for name, gap in gaps.items()} == pytest.approx(
        {"unigram": 100 * gain / (3.2 - 2.01), "trigram": 100 * gain / (2.01 - 1.6)}
    )
    assert hardest_gap(gaps, LOSS)[0] == "trigram"
    assert hardest_gap(gaps, "eval/accuracy")[0] == "unigram"
    assert "% of the gap to trigram" in differences_table(compared)
    assert set(sweep_record(compared, judge(compared))["differences"][0]["per_cent_of_the_gap"]) == set(floors)
    floors["trigram"] = 2.5
    floors.pop("unigram")
    assert "% of the lead over trigram" in differences_table(compared)


def test_tables_and_record_have_all_units(compared):
    assert tokens_per_parameter(compared, "base") == 5.12
    record = sweep_record(compared, judge(compared))
    json.dumps(record, allow_nan=False)
    assert record["arms"][0]["tokens_per_parameter"] == 5.12
    assert (record["arms"][0]["finished"], record["arms"][0]["diverged"]) == (3, [])
    assert record["differences"][0]["times_the_tokens"]["value"] == pytest.approx(1.5, rel=0.01)
    assert record["differences"][0]["steps_to_its_loss"]["reached"] == 3
    arms, differences = arms_table(compared), differences_table(compared)
    assert ">tokens / parameter<" in arms
    assert ">5.1<" in arms
    for shown in (">times the tokens<", ">1.50 (1.3", "extrapolated", ">steps to its loss<", "334 of 500"):
        assert shown in differences, shown
    assert "allows for an error of 30 %" in units_note(compared)
    printed = io.StringIO()
    print_results(Console(file=printed, width=120), compared)
    assert "tokens/parameter" in printed.getvalue()
    assert "334 of 500" in printed.getvalue()
    assert "unstable" not in printed.getvalue()


def test_tables_of_contrasts_have_the_factor(writer):
    stated = [contrast("c", "norm=pre,warm-up=100", "norm=pre,warm-up=0")]
    found = load_sweep(writer.sweep(contrasts=stated))
    assert ">times the tokens<" in contrast_table(found, judge(found))
    assert sweep_record(found, judge(found))["contrasts"][0]["times_the_tokens"]["value"] > 1
    accuracy = [contrast("c", "norm=pre,warm-up=100", "norm=pre,warm-up=0", metric="eval/accuracy")]
    found = load_sweep(writer.sweep(contrasts=accuracy, folder="other"))
    assert "times the tokens" not in contrast_table(found, judge(found))


def test_seeds_that_went_wrong_are_in_every_table():
    rng = np.random.default_rng(0)
    runs = {(arm, seed): run(arm, seed) for arm in ("base", "wild", "third", "fourth", "last") for seed in SEEDS}
    for one in runs.values():
        one.rows[-1][LOSS] += 0.01 * rng.normal()
    runs["wild", 1].rows[-1][LOSS] += 1
    runs["last", 2].status["state"] = "diverged"
    runs["last", 3] = run("last", 3)
    found = sweep(*runs.values())
    record = sweep_record(found, judge(found))["arms"]
    assert [(arm["diverged"], arm["far_off"]) for arm in record] == [([], []), ([], [1]), ([], []), ([], []), ([2], [])]
    printed = io.StringIO()
    print_results(Console(file=printed, width=140), found)
    for text in (arms_table(found), printed.getvalue()):
        assert "1 of 3 (seed 1 far off)" in text
        assert "1 of 4 (seed 2 diverged)" in text
