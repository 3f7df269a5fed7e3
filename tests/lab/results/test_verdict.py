import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from zoo.lab.declarations import Contrast, Side
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.contrast_verdict import judge_contrast
from zoo.lab.results.decision_rules import decide, rule_text
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.noise import Noise

INF = math.inf


def run_of(arm: str, seed: int, value: float | str | None, metric: str = "eval/loss") -> RunRecord:
    """A done run that ends at `value` (None: without the metric), or a run in the state `value`."""
    state = value if isinstance(value, str) else "done"
    rows = [] if value is None or isinstance(value, str) else [{"step": 1.0, metric: value}]
    rows = rows or [{"step": 1.0, "eval/loss" if state == "diverged" else "train/loss": 1.0}]
    return RunRecord(Path(f"{arm}-{seed}"), arm, seed, status={"state": state}, rows=rows)


# Earlier sweeps say that there is hardly any noise, so the pairs alone decide.
QUIET = Noise(1e-9, 1000, "earlier sweeps")


def sweep_of(a: list, b: list, rule: str = "superiority", margin: float = 0.0) -> SweepResults:
    runs = [run_of(arm, seed, value) for arm, values in (("A", a), ("B", b)) for seed, value in enumerate(values)]
    contrast = Contrast("c", Side("A", "eval/loss"), Side("B", "eval/loss"), rule, margin, "")
    arms = [Arm(name, name, {}) for name in "AB"]
    seeds = list(range(max(len(a), len(b))))
    return SweepResults(Path("."), "s", "eval/loss", arms, runs, seeds, [contrast], noise={"eval/loss": QUIET})


@pytest.mark.parametrize(
    ("rule", "margin", "low", "high", "expected"),
    [
        ("superiority", 0, -2, -1, "holds"),
        ("superiority", 0, -2, 0.1, "undecided"),
        ("superiority", 0, 0.1, 1, "refuted"),
        ("superiority", 0, 0, 0, "undecided"),
        ("superiority", 1, -2, -1.1, "holds"),
        ("superiority", 1, -0.9, -0.1, "refuted"),
        ("superiority", 1, -2, -0.5, "undecided"),
        ("non_inferiority", 1, -3, 0.9, "holds"),
        ("non_inferiority", 1, 0, 1.1, "undecided"),
        ("non_inferiority", 1, 1.1, 2, "refuted"),
        ("equivalence", 1, -0.9, 0.9, "holds"),
        ("equivalence", 1, -1.1, 0.5, "undecided"),
        ("equivalence", 1, 1.1, 2, "refuted"),
        ("equivalence", 1, -3, -1.1, "refuted"),
        ("equivalence", 1, -1, 1, "undecided"),
        ("equivalence", 0, 0, 0, "undecided"),
        ("superiority", 0, INF, INF, "refuted"),
        ("superiority", 0, -INF, -INF, "holds"),
        ("equivalence", 1, -INF, -INF, "refuted"),
        ("superiority", 0, math.nan, math.nan, "undecided"),
        ("equivalence", 1, math.nan, math.nan, "undecided"),
    ],
)
def test_rules(rule, margin, low, high, expected):
    assert decide(rule, margin, low, high) == expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.3], "holds"),
        ([2.0, 2.1, 2.3], [1.0, 1.1, 1.2], "refuted"),
        ([1.0, 2.0, 3.0], [2.0, 1.0, 3.1], "undecided"),
        ([1.0, 1.1, 1.2], [1.0, 1.1, 1.2], "undecided"),
        ([1.0], [2.0], "undecided"),
        # A diverged run is an infinite loss.
        ([1.0, 1.1, 1.2], ["diverged"] * 3, "holds"),
        (["diverged"] * 3, [1.0, 1.1, 1.2], "refuted"),
        # Two equal arms, of which each run diverges in half of all cases, contradict nothing so often.
        ([1.0, 1.1], ["diverged", "diverged"], "undecided"),
        ([1.0, 1.1, 1.2], ["diverged", 2.1, 2.3], "holds"),
        ([1.0, 1.1, "diverged"], [2.0, 2.1, 2.3], "undecided"),
        ([1.0, 1.1, 1.2], ["diverged", "diverged", 2.0], "undecided"),
        ([1.0, "diverged"], ["diverged", 1.0], "undecided"),
        (["diverged", "diverged"], ["diverged", "diverged"], "undecided"),
        # So is a done run whose final value is not finite.
        ([1.0, 1.1, 1.2], [math.nan] * 3, "holds"),
        # A metric that was never written decides nothing.
        ([1.0, 1.1], [None, None], "undecided"),
        ([1.0, 1.1, 1.2], [2.0, 2.1, None], "undecided"),
        # Failed and unfinished runs must not be left out.
        ([1.0, 1.1, 1.2], [2.0, 2.1, "failed"], "undecided"),
        ([1.0, 1.1, "running"], [2.0, 2.1, 2.2], "undecided"),
        ([1.0, 1.1], [2.0, 2.1, 2.2], "undecided"),
        (["preempted"] * 2, ["missing"] * 2, "undecided"),
    ],
)
def test_superiority_on_runs(a, b, expected):
    assert judge_contrast(sweep_of(a, b), sweep_of(a, b).contrasts[0]).outcome == expected


def test_infinite_losses_and_missing_runs_are_reported():
    text = judge(sweep_of([1.0, 1.1, 1.2], ["diverged", 2.1, "failed"])).paragraph
    assert "B diverged in 1 of 3 seeds (counted as an infinite loss)" in text
    assert 'not finished: "B-2" (failed)' in text
    assert text.startswith("Undecided (arms not tuned): ")


def test_a_single_pair_is_reported_as_too_few():
    outcome = judge(sweep_of([1.0], [2.0])).outcomes[0]
    assert "1 pair, so no interval" in outcome.sentence
    assert outcome.notes == ["1 paired seed; at least 2 are needed"]


def test_a_misspelt_metric_is_not_an_infinite_loss(writer):
    folder = writer.sweep()
    experiment = json.loads((folder / "experiment.json").read_text())
    experiment["contrasts"][0]["b"]["metric"] = "eval/los"
    (folder / "experiment.json").write_text(json.dumps(experiment))
    outcome = judge(load_sweep(folder)).outcomes[0]
    assert outcome.outcome == "undecided"
    assert outcome.notes == ['no run has written eval/los (did you mean "eval/loss"?)']


def test_paragraph_of_a_supported_claim(writer):
    verdict = judge(load_sweep(writer.sweep()))
    assert verdict.overall == "supported"
    assert verdict.paragraph == (
        "Supported (arms not tuned): norm=post+warm-up=100 ends 1.022 nats lower than norm=post+warm-up=0 (95 % interval of the difference −1.047 to −0.997, 3 pairs): "
        "superiority holds. norm=pre+warm-up=0 ends 0.053 nats higher than norm=pre+warm-up=100 (90 % interval of the difference 0.036 to 0.070, "
        "3 pairs): equivalence within 0.1 nats holds."
    )


def test_one_refuted_contrast_makes_the_claim_unsupported(writer):
    folder = writer.sweep(broken=True)
    experiment = json.loads((folder / "experiment.json").read_text())
    side = {"metric": "eval/loss"}
    wrong = {
        "name": "wrong",
        "a": {**side, "arm": "norm=post,warm-up=0"},
        "b": {**side, "arm": "norm=pre,warm-up=0"},
        "rule": "superiority",
        "margin": 0.0,
        "expected": "",
    }
    experiment["contrasts"].append(wrong)
    (folder / "experiment.json").write_text(json.dumps(experiment))
    verdict = judge(load_sweep(folder))
    assert [outcome.outcome for outcome in verdict.outcomes] == ["undecided", "undecided", "refuted"]
    assert verdict.overall == "not supported"


def test_the_same_arm_at_two_lengths(writer):
    folder = writer.sweep(lengths=True)
    experiment = json.loads((folder / "experiment.json").read_text())
    arm = "norm=pre,warm-up=0"
    experiment["contrasts"] = [
        {
            "name": "length",
            "a": {"arm": arm, "metric": "eval/loss"},
            "b": {"arm": arm, "metric": "eval/loss@1024"},
            "rule": "superiority",
            "margin": 0.0,
            "expected": "",
        }
    ]
    (folder / "experiment.json").write_text(json.dumps(experiment))
    outcome = judge(load_sweep(folder)).outcomes[0]
    assert outcome.outcome == "undecided"
    assert "has no eval/loss@1024" in " ".join(outcome.notes)


def test_without_a_claim_the_best_arm_is_named(writer):
    verdict = judge(load_sweep(writer.sweep(contrasts=[])))
    assert verdict.overall == "no claim"
    assert verdict.paragraph.endswith("is 2.468, reached by norm=pre+warm-up=100 (mean of 3 seeds).")


def accuracies(a: list, b: list, rule: str = "superiority", margin: float = 0.0) -> SweepResults:
    """Returns the same sweep judged by an accuracy, of which higher values are better."""
    metric = "eval/next_accuracy"
    runs = [
        run_of(arm, seed, value, metric) for arm, values in (("A", a), ("B", b)) for seed, value in enumerate(values)
    ]
    contrast = Contrast("c", Side("A", metric), Side("B", metric), rule, margin, "")
    arms = [Arm(name, name, {}) for name in "AB"]
    return SweepResults(Path("."), "s", metric, arms, runs, list(range(len(a))), [contrast], noise={metric: QUIET})


@pytest.mark.parametrize(
    ("a", "b", "rule", "margin", "expected"),
    [
        ([0.80, 0.81, 0.82], [0.70, 0.72, 0.71], "superiority", 0.05, "holds"),
        ([0.70, 0.72, 0.71], [0.80, 0.81, 0.82], "superiority", 0.05, "refuted"),
        ([0.80, 0.81, 0.82], [0.79, 0.80, 0.82], "superiority", 0.05, "refuted"),
        ([0.80, 0.81, 0.82], [0.81, 0.82, 0.829], "non_inferiority", 0.05, "holds"),
        ([0.70, 0.72, 0.71], [0.80, 0.81, 0.82], "non_inferiority", 0.05, "refuted"),
        ([0.80, 0.81, 0.82], [0.81, 0.80, 0.82], "equivalence", 0.05, "holds"),
        ([0.80, 0.81, 0.82], ["diverged"] * 3, "superiority", 0.05, "holds"),
        (["diverged"] * 3, [0.80, 0.81, 0.82], "superiority", 0.05, "refuted"),
        ([0.80, 0.81, 0.82], ["diverged", 0.70, 0.71], "superiority", 0.05, "holds"),
        ([0.80, 0.81, "diverged"], [0.70, 0.71, 0.72], "superiority", 0.05, "undecided"),
    ],
)
def test_higher_accuracies_are_better(a, b, rule, margin, expected):
    assert judge(accuracies(a, b, rule, margin)).outcomes[0].outcome == expected


@pytest.mark.parametrize(("limit", "outcome"), [(None, "undecided"), (6.0, "holds"), (1e6, "undecided")])
def test_a_loss_above_the_limit_counts_as_diverged(limit, outcome):
    sweep = sweep_of([2.0, 2.1, 2.2], [90.0, 50_000.0, 200.0])
    sweep.contrasts[0] = replace(sweep.contrasts[0], diverged_above=limit)
    found = judge(sweep).outcomes[0]
    assert found.outcome == outcome
    note = "B ends with loss above 6 in 3 of 3 seeds (counted as an infinite loss)"
    assert (note in found.notes) == (outcome == "holds")


def test_accuracies_are_reported_with_their_sign():
    sweep = accuracies([0.80, 0.81, 0.82], [0.70, 0.72, "diverged"], margin=0.01)
    text = judge(sweep).paragraph
    other = judge(accuracies([0.80, 0.81, 0.82], [0.70, 0.71, 0.722])).paragraph
    assert "A ends 0.0993 higher than B (95 % interval of the difference 0.0965 to 0.1022, 3 pairs)" in other
    assert "B diverged in 1 of 3 seeds (counted as the worst next_accuracy)" in text
    assert [
        rule_text(Contrast("", Side("A", metric), Side("B", metric), rule, 0.1, ""))
        for metric in ("eval/next_accuracy", "eval/loss")
        for rule in ("superiority", "non_inferiority")
    ] == [
        "a above b by more than 0.1",
        "a at most 0.1 below b",
        "a below b by more than 0.1 nats",
        "a at most 0.1 nats above b",
    ]
    no_contrasts = SweepResults(sweep.folder, sweep.name, sweep.metric, sweep.arms, sweep.runs, sweep.seeds)
    assert (
        judge(no_contrasts).paragraph
        == "B ends 0.10 lower than A (95 % interval of the difference −0.16 to −0.03, 2 pairs). "
        "No claim is tested here. The highest final eval/next_accuracy is 0.8100, reached by A (mean of 3 seeds). "
        "B diverged in 1 of 3 seeds, which counts as the worst eval/next_accuracy."
    )
    rows = [{"step": step, "eval/next_accuracy": value} for step, value in enumerate((0.5, 0.9, 0.7))]
    assert RunRecord(Path("r"), "A", 0, rows=rows).best("eval/next_accuracy") == 0.9


def test_runs_of_executors_with_different_results_are_not_compared():
    alike, other = ({"executor": name, "device": {"platform": "cpu"}} for name in ("map", "vmap"))
    sweep = sweep_of([1.0, 1.1, 1.2], [2.0, 2.1, 2.3])
    for kind, outcome in ((alike, "holds"), (other, "undecided")):
        runs = [replace(run, meta=kind if run.arm == "A" else {"executor": "single"}) for run in sweep.runs]
        found = judge_contrast(replace(sweep, runs=runs), sweep.contrasts[0])
        assert found.outcome == outcome
        caveats = [line for line in sweep_caveats(replace(sweep, runs=runs)) if "different executors" in line]
        assert bool(caveats) == (outcome == "undecided")
        note = "its runs were computed by different executors (exact, vmap), so their results are not bit-comparable"
        assert (note in found.notes) == (outcome == "undecided")


def test_runs_whose_kernels_versions_chose_differently_are_not_compared():
    earlier, now = {"attention_kernels": [{"kernel": "rows"}]}, {"short_rows_by_einsum": True}
    sweep = sweep_of([1.0, 1.1, 1.2], [2.0, 2.1, 2.3])
    for other, outcome in ((now, "holds"), (earlier, "undecided")):
        runs = [replace(run, meta=now if run.arm == "A" else other) for run in sweep.runs]
        found = judge_contrast(replace(sweep, runs=runs), sweep.contrasts[0])
        assert found.outcome == outcome
        named = [line for line in sweep_caveats(replace(sweep, runs=runs)) if "different kernels of attention" in line]
        assert len(named) == (outcome == "undecided")


@pytest.mark.parametrize(
    ("metric", "other", "advice"),
    [
        ("eval/loss", "eval/loss", "; tune the arms, or name earlier sweeps with --noise-from"),
        ("measured/gap", "measured/gap", "; name earlier sweeps with --noise-from"),
        # Tuning and earlier sweeps tell the noise of one metric, and not of a difference of two.
        ("eval/loss", "eval/ema/loss", ""),
    ],
)
def test_what_would_tell_the_noise_is_said_where_it_does(metric, other, advice):
    values = {"A": (metric, (1.0, 1.2, 1.1)), "B": (other, (1.1, 1.15, 1.3))}
    runs = [run_of(arm, seed, value, name) for arm, (name, found) in values.items() for seed, value in enumerate(found)]
    contrast = Contrast("c", Side("A", metric), Side("B", other), "superiority", 0.0, "")
    arms = [Arm(name, name, {}) for name in "AB"]
    found = judge_contrast(SweepResults(Path("."), "s", "eval/loss", arms, runs, [0, 1, 2], [contrast]), contrast)
    assert found.outcome == "undecided"
    assert found.notes[-1].endswith(f"needs a level 25 times smaller{advice}")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0.0, "diverged", 1.0], [1.5, 1.4, 1.45], "is 1.450, reached by B (mean of 3 seeds). A diverged in 1 of 3"),
        (
            [1.0, 1.1, 1.2],
            [None, None, 1.15],
            "is 1.150, reached by B (1 seed, the only one that all arms with results have).",
        ),
        ([1.0, 1.1, None], [None, None, 1.15], "No seed is done in all of the arms that have results, so they are"),
        (["diverged"] * 3, [1.5, "diverged", 1.4], "The arms are not ranked: A diverged in 3 of 3 seeds; B diverged"),
    ],
    ids=["a seed diverged", "one common seed", "none", "all diverged"],
)
def test_arms_without_a_claim_are_ranked_on_the_seeds_that_all_have(a, b, expected):
    sweep = sweep_of(a, b)
    runs = [run for run in sweep.runs if run.final("eval/loss") is not None or run.state == "diverged"]
    assert expected in judge(replace(sweep, runs=runs, contrasts=[])).paragraph


def test_equal_accuracies_of_different_runs_have_the_noise_of_others():
    sweep = accuracies([0.80, 0.81], [0.80, 0.81], "equivalence", 0.01)
    sweep = replace(sweep, noise={sweep.metric: Noise(0.05, 20, "earlier sweeps")})
    (outcome,), difference = judge(sweep).outcomes, baseline_differences(sweep)["B"]
    assert outcome.outcome == "undecided"
    assert difference.high == -difference.low > 0.05
