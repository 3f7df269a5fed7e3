"""Sweeps as data frames."""

import pytest

import zoo
from zoo.errors import ConfigError
from zoo.lab.results.factor_effects import estimate_effects
from zoo.lab.results.sweep_results import load_sweep


def test_differences_of_a_sweep_from_any_baseline(writer):
    folder = writer.sweep()
    frame = zoo.differences(folder)
    assert frame["arm"].tolist() == ["norm=pre+warm-up=100", "norm=post+warm-up=0", "norm=post+warm-up=100"]
    assert frame[["norm", "warm-up"]].to_numpy().tolist() == [["pre", "100"], ["post", "0"], ["post", "100"]]
    row = frame.iloc[1]
    assert row["difference"] == pytest.approx(1.0, abs=0.02)
    assert row["low"] < row["difference"] < row["high"]
    assert (row["pairs"], row["testable"], row["why_not_testable"], row["metric"]) == (3, True, "", "eval/loss")
    assert row["times_the_tokens_low"] < row["times_the_tokens"] < 1
    assert row["p"] < row["p_holm"] < 0.01
    # Arm minus baseline: the other way round the sign turns.
    again = zoo.differences(zoo.compare(folder), baseline="norm=post+warm-up=0")
    assert again["baseline"].unique().tolist() == ["norm=post+warm-up=0"]
    assert again.iloc[0]["difference"] == pytest.approx(-row["difference"])
    with pytest.raises(ConfigError, match="--baseline sideways: no arm has this name"):
        zoo.differences(folder, baseline="sideways")


def test_a_difference_says_why_it_is_not_testable(writer):
    folder = writer.sweep(warnings=["arms are scored on different rows by eval/loss: 1 (pre) | 2 (post)"])
    assert set(zoo.differences(folder)["why_not_testable"]) == {"the arms are scored on different rows"}
    # Nor has a factor a main effect, where arms are not ranked.
    assert estimate_effects(load_sweep(folder)) == []
    reasons = zoo.differences(writer.sweep(folder="broken", broken=True))["why_not_testable"].tolist()
    assert reasons == [
        'not finished: "pre-100-2" (missing)',
        "norm=post+warm-up=0 diverged in 1 seed",
        'not finished: "post-100-2" (failed)',
    ]


def test_a_frame_has_a_column_for_each_factor(writer):
    frame = zoo.compare(writer.sweep())
    assert list(frame.columns[:5]) == ["arm", "norm", "warm-up", "seed", "state"]
    assert frame.groupby(["norm", "warm-up"])["eval/loss"].count().tolist() == [3] * 4


def test_the_verdict_on_a_sweep(writer):
    folder = writer.sweep()
    found = zoo.verdict(folder)
    assert (found.overall, found.claims) == ("supported", {"N1": "supported"})
    assert [outcome.outcome for outcome in found.outcomes] == ["holds", "holds"]
    assert load_sweep(folder).contrasts == [outcome.contrast for outcome in found.outcomes]
