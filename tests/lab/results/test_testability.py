"""Rules that say nothing about their claim: floors, ceilings, controls and hardware."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from zoo.lab.declarations import Claim, Contrast, Premises, Side, premises_in
from zoo.lab.floors.record import RunFloors
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.differences import arm_differences, reasons
from zoo.lab.results.run_records import RunRecord
from zoo.lab.results.schema import Arm
from zoo.lab.results.sweep_results import SweepResults, load_sweep
from zoo.lab.results.testability import why_floor_is_open, why_not_testable
from zoo.lab.results.verdict import judge, overall_verdict

FLOORS = {"unigram": 3.3, "bigram": 2.5, "5-gram": 1.6}


def sweep_of(metric="eval/loss", rule="superiority", margin=0.0, floors=None, claim=None, device=None, **values):
    """Returns a sweep of arms A, B, ... that end at the given values, with a rule about A and B.

    `floors` are {name: score} by the metric, the same for all arms; None for an older sweep.
    """
    runs = [
        RunRecord(
            Path(f"{arm}-{seed}"),
            arm,
            seed,
            meta={"device": device or {"platform": "cpu", "kind": "cpu"}},
            status={"state": "diverged" if value == "diverged" else "done"},
            rows=[] if value == "diverged" else [{"step": 1.0, metric: value}],
        )
        for arm, each in values.items()
        for seed, value in enumerate(each)
    ]
    contrast = Contrast("c", Side("A", metric), Side("B", metric), rule, margin, "")
    arms = [Arm(name, name, {"start": name}) for name in values]
    scores = {name: {metric: score} for name, score in (floors or {}).items()}
    return SweepResults(
        Path("."),
        "s",
        metric,
        arms,
        runs,
        list(range(len(values["A"]))),
        [contrast],
        claim=claim and claim.record(),
        floors=None if floors is None else {name: RunFloors(scores) for name in values},
    )


def claim(**premises):
    return Claim("X1", "a statement", "a source", **premises)


def outcome_of(sweep):
    (found,) = judge(sweep).outcomes
    return found


# So little noise that three pairs decide.
A, B = [1.7000, 1.7002, 1.7004], [1.8000, 1.8003, 1.8001]


@pytest.mark.parametrize(
    ("floors", "premises", "outcome"),
    [
        (FLOORS, {}, "not testable"),
        ({"unigram": 3.3, "bigram": 2.5}, {}, "holds"),
        (FLOORS, {"floor": "bigram", "floor_reason": "why"}, "holds"),
        ({"unigram": 3.3, "bigram": 1.6}, {"floor": "bigram", "floor_reason": "why"}, "not testable"),
        ({"unigram": 3.3, "bigram": 1.6}, {"floor": "unigram", "floor_reason": "why"}, "holds"),
        (FLOORS, {"floor": "none", "floor_reason": "why"}, "holds"),
        # One arm that beats the floor is enough.
        ({"5-gram": 1.75}, {}, "holds"),
        # An older sweep, and an objective without floors.
        (None, {}, "holds"),
        ({}, {}, "holds"),
    ],
)
def test_floors(floors, premises, outcome):
    sweep = sweep_of(floors=floors, claim=claim(**premises), A=A, B=B)
    assert outcome_of(sweep).outcome == outcome


def test_the_reason_names_the_floor_and_the_arms():
    found = judge(sweep_of(floors=FLOORS, A=A, B=B))
    reason = "no arm beats the 5-gram of 1.600 nats, counted on the same training data (A: 1.700; B: 1.800)"
    assert found.outcomes[0].notes == [reason]
    assert math.isnan(found.outcomes[0].refutation_p)
    assert found.overall == "not testable"
    assert found.paragraph.startswith("Not testable")
    assert found.paragraph.endswith(f"; {reason}: superiority is not testable.")


@pytest.mark.parametrize(("floor", "outcome"), [(1.7008, "holds"), (1.7005, "undecided"), (1.7, "not testable")])
def test_a_mean_beats_a_floor_by_more_than_its_error(floor, outcome):
    """Three seeds with a standard deviation of 0.0002: 2.92 standard errors are 0.00034."""
    found = outcome_of(sweep_of(floors={"5-gram": floor}, A=A, B=B))
    assert found.outcome == outcome
    if floor == 1.7005:
        (reason,) = found.notes
        assert "beats the 5-gram of 1.700 nats by more than the error of a mean over seeds, counted on" in reason
        assert reason.endswith("(A: 1.700 ± 0.00034; B: 1.800)")


@pytest.mark.parametrize(
    ("floor", "testable", "known"), [(0.79, True, True), (0.80, True, False), (0.83, False, False)]
)
def test_a_higher_score_beats_a_floor_by_more_than_its_error(floor, testable, known):
    floors, ends = {"majority class": floor}, [0.80, 0.81, 0.82]
    sweep = sweep_of("eval/accuracy", "non_inferiority", 0.05, floors, A=ends, B=ends[::-1])
    assert (why_not_testable(sweep, sweep.contrasts[0]) is None) == testable
    assert (why_floor_is_open(sweep, sweep.contrasts[0]) is None) == known


def test_more_seeds_are_run_where_a_floor_is_open():
    """A claim that is not testable ends a sweep that adds seeds until it is decided."""
    verdict = judge(sweep_of(floors={"5-gram": 1.7005}, claim=claim(), A=A, B=B))
    assert verdict.claims == {"X1": "undecided"}


def test_one_seed_does_not_tell_the_error_of_its_score():
    sweep = sweep_of(floors={"5-gram": 1.7005}, A=[1.7], B=[1.8])
    assert why_not_testable(sweep, sweep.contrasts[0]) is None


@pytest.mark.parametrize(("share", "outcome"), [(0.38, "not testable"), (0.41, "not testable"), (0.42, "holds")])
def test_answers_beat_their_floor_by_more_than_its_sampling_error(share, outcome):
    """1.96 standard errors of 1,024 answers that are right in 0.3835 of cases are 0.0298."""
    floors = {"constant answer": 0.1, "context-only answer": 0.3835}
    ends = [share, share + 2e-4, share + 4e-4]
    sweep = sweep_of("measured/probe_recall", "non_inferiority", 0.05, floors, A=ends, B=ends[::-1])
    found = outcome_of(sweep)
    assert found.outcome == outcome
    if outcome == "not testable":
        reason = "no arm beats the context-only answer of 0.3835 by more than the sampling error of 0.03"
        assert found.notes[0].startswith(f"{reason} (A: 0.")


def test_each_arm_has_its_own_floor():
    sweep = sweep_of(floors=FLOORS, A=A, B=B)
    easier = {"A": sweep.floors["A"], "B": RunFloors({"5-gram": {"eval/loss": 1.9}})}
    assert outcome_of(replace(sweep, floors=easier)).outcome == "holds"


def test_only_runs_that_ended_decide_testability():
    sweep = sweep_of(floors=FLOORS, A=A, B=B)
    sweep.runs[0] = replace(sweep.runs[0], status={"state": "running"}, rows=[])
    assert outcome_of(sweep).outcome == "undecided"
    # A diverged run is worse than any floor.
    assert outcome_of(sweep_of(floors=FLOORS, A=A, B=["diverged"] * 3)).outcome == "not testable"
    assert outcome_of(sweep_of(floors={"5-gram": 1.8}, A=A, B=["diverged"] * 3)).outcome == "holds"


def test_steps_to_a_loss_need_a_model_that_beats_the_floor():
    sweep = sweep_of("steps_to/A", floors={}, A=[100.0, 100.1, 100.2], B=[200.0, 200.2, 200.1])
    for row in (run.rows[0] for run in sweep.runs):
        row["eval/loss"] = 1.8
    floors = dict.fromkeys("AB", RunFloors({"5-gram": {"eval/loss": 1.6}}))
    assert outcome_of(replace(sweep, floors=floors)).outcome == "not testable"
    floors = dict.fromkeys("AB", RunFloors({"5-gram": {"eval/loss": 1.9}}))
    assert outcome_of(replace(sweep, floors=floors)).outcome == "holds"


@pytest.mark.parametrize(
    ("a", "b", "rule", "margin", "testable"),
    [
        # Tags at 0.995 and 0.996.
        ([0.995, 0.996], [0.996, 0.9961], "superiority", 0.0, False),
        ([0.995, 0.996], [0.996, 0.9961], "equivalence", 0.05, False),
        # The rule demands 0.05 above 0.99.
        ([1.0, 1.0], [0.97, 0.975], "superiority", 0.05, False),
        ([0.95, 0.96], [0.97, 0.975], "superiority", 0.05, False),
        # One arm at the ceiling is better by at least what is seen.
        ([1.0, 0.9999], [0.38, 0.39], "superiority", 0.05, True),
        ([0.947, 0.95], [0.990, 0.991], "non_inferiority", 0.05, True),
        ([0.90, 0.91], [0.93, 0.94], "superiority", 0.05, True),
    ],
)
def test_ceilings_of_scores(a, b, rule, margin, testable):
    sweep = sweep_of("eval/accuracy", rule, margin, floors={}, A=a, B=b)
    assert (outcome_of(sweep).outcome != "not testable") == testable


def test_ceilings_of_losses():
    below = sweep_of(rule="superiority", margin=0.2, A=[0.05, 0.06], B=[0.15, 0.16])
    assert str(why_not_testable(below, below.contrasts[0])) == (
        "the rule demands a difference of more than 0.2 nats, and B at 0.1550 is within 0.1550 nats of the best "
        "possible loss"
    )
    bits = sweep_of("eval/bits_per_byte", margin=0.2, A=[2.41, 2.42], B=[2.55, 2.56])
    assert why_not_testable(bits, bits.contrasts[0]) is None
    known = dict.fromkeys("AB", RunFloors(best={"eval/bits_per_byte": 2.4}))
    assert "within 0.1550 bits of the best possible bits_per_byte" in str(
        why_not_testable(replace(bits, floors=known), bits.contrasts[0])
    )


def test_arms_with_one_reason_share_a_line_without_their_values():
    sweep = sweep_of(floors=FLOORS, A=[1.7, 1.8], B=[1.9, 2.0], C=["diverged", 1.8], D=[2.1, 2.2])
    unfinished = replace(sweep, runs=[run for run in sweep.runs if (run.arm, run.seed) != ("D", 1)])
    beaten = "no arm beats the 5-gram of 1.600 nats, counted on the same training data"
    found = arm_differences(sweep_of(floors=FLOORS, A=[1.7, 1.8], B=[1.9, 2.0], C=[2.5, 2.6]))
    assert [one.why_not_testable for one in found] == [f"{beaten} ({v}; A: 1.750)" for v in ("B: 1.950", "C: 2.550")]
    assert reasons(found) == [f"Not testable: B, C: {beaten}."]
    # What stands in brackets otherwise is part of the reason.
    assert reasons(arm_differences(unfinished)) == [
        f"Not testable: B: {beaten}.",
        "Not testable: C: C diverged in 1 seed.",
        "Not testable: D: not finished: D, seed 1 (not planned).",
    ]


def test_a_control_that_beats_every_arm():
    values = {"A": [0.66, 0.6603], "B": [0.53, 0.5302], "none": [0.72, 0.73]}
    with_control = claim(control={"start": "none"})
    sweep = sweep_of("eval/accuracy", floors={}, claim=with_control, **values)
    found = outcome_of(sweep)
    assert found.outcome == "not testable"
    assert found.notes == ["the control none ends at 0.7250, better than every arm compared (A: 0.6602; B: 0.5301)"]
    for other in (
        sweep_of("eval/accuracy", floors={}, claim=claim(), **values),
        sweep_of("eval/accuracy", floors={}, claim=with_control, **values | {"none": [0.60, 0.6001]}),
        # The comparison with the control is a question that presupposes nothing.
        sweep_of("eval/accuracy", floors={}, claim=claim(control={"start": "B"}), **values),
    ):
        assert outcome_of(other).outcome == "holds"


@pytest.mark.parametrize(
    ("hardware", "device", "testable"),
    [
        ("", {"platform": "cpu", "kind": "cpu"}, True),
        ("GPU", {"platform": "cpu", "kind": "cpu"}, False),
        ("GPU", {"platform": "gpu", "kind": "NVIDIA H100 80GB HBM3"}, True),
        ("TPU", {"platform": "gpu", "kind": "NVIDIA H100 80GB HBM3"}, False),
        ("accelerator", {"platform": "tpu", "kind": "TPU v5 lite"}, True),
        ("accelerator", {"kind": "cpu"}, False),
    ],
)
def test_hardware(hardware, device, testable):
    sweep = sweep_of(floors={}, claim=claim(hardware=hardware), device=device, A=A, B=B)
    found = outcome_of(sweep)
    assert (found.outcome == "holds") == testable
    assert testable or f"the claim is about a {hardware}, and the runs were trained on" in found.notes[0]


def test_claims_of_one_experiment_have_their_own_premises():
    several = Claim(
        "X1, X2", "", "", premises_of={"X2": Premises("unigram", "a rule of updating")}, control={"start": "none"}
    )
    record = json.loads(json.dumps(several.record()))
    assert premises_in(record, "X1") == Premises(control={"start": "none"})
    assert premises_in(record, "X2") == Premises("unigram", "a rule of updating")
    sweep = sweep_of(floors=FLOORS, A=A, B=B)
    both = [replace(sweep.contrasts[0], name=name, claim=name) for name in ("X1", "X2")]
    outcomes = judge(replace(sweep, contrasts=both, claim=record)).outcomes
    assert [one.outcome for one in outcomes] == ["not testable", "holds"]


def test_a_claim_without_premises_is_recorded_as_before():
    assert claim().record() == {"id": "X1", "statement": "a statement", "source": "a source"}
    assert premises_in(claim().record(), "X1") == Premises()
    assert premises_in({"floor": "trigram", "control": 3, "hardware": None}) == Premises()


def test_the_first_of_the_outcomes_decides():
    outcomes = ["refuted", "not testable", "not tuned", "undecided", "holds"]
    verdicts = ["not supported", "not testable", "not tuned", "undecided", "supported"]
    for place, verdict in enumerate(verdicts):
        assert overall_verdict(set(outcomes[place:])) == verdict


def test_a_check_of_equal_arms_needs_no_floor():
    assert outcome_of(sweep_of(rule="equal", floors=FLOORS, A=A, B=A)).outcome == "holds"


def without_contrasts(sweep):
    return replace(sweep, contrasts=[])


def test_sweeps_without_rules_have_the_same_notes():
    lines = sweep_caveats(without_contrasts(sweep_of(floors=FLOORS, A=A, B=B)))
    assert lines == [
        "not testable: no arm's eval/loss beats the 5-gram of 1.600 nats, counted on the same training data"
    ]
    assert sweep_caveats(without_contrasts(sweep_of(floors={"5-gram": 1.75}, A=A, B=B))) == []
    answers = sweep_of("measured/probe_recall", floors={"constant answer": 0.1}, A=[0.11, 0.12], B=[0.11, 0.11])
    assert sweep_caveats(without_contrasts(answers)) == [
        "not testable: no arm's measured/probe_recall beats the constant answer of 0.1000 by more than the sampling "
        "error of 0.018"
    ]
    tops = sweep_of("eval/accuracy", floors={}, A=[0.99, 0.991], B=[0.985, 0.99])
    assert sweep_caveats(without_contrasts(tops)) == [
        "not testable: all arms are within 0.02 of the highest eval/accuracy"
    ]
    assert "no floors were computed" in sweep_caveats(sweep_of(A=A, B=B))[0]
    assert sweep_caveats(without_contrasts(sweep_of(A=A, B=B))) == []


def test_arms_that_give_the_majority_class_are_named():
    constant = {"floors": {"majority class": 0.6, "bag of words": 0.9}, "A": [0.6, 0.6], "B": [0.6, 0.6]}
    sweep = without_contrasts(sweep_of("eval/accuracy", **constant))
    assert "all arms give the majority class" in sweep_caveats(sweep)[0]
    one = without_contrasts(sweep_of("eval/accuracy", **constant | {"B": [0.6, 0.61]}))
    assert "majority" not in " ".join(sweep_caveats(one))


def test_arms_that_are_equal_to_the_last_digit_are_named():
    same = without_contrasts(sweep_of(floors={}, A=[1.5, 1.25], B=[1.5, 1.25]))
    assert sweep_caveats(same) == ["all arms end with the same eval/loss in every seed, to the last digit"]
    assert judge(same).paragraph == (
        "No claim is tested here, and all arms end with the same eval/loss in every seed, 1.375 in the mean: none is "
        "better than another."
    )
    # Equal means of unequal runs are shared by both arms.
    swapped = without_contrasts(sweep_of(floors={}, A=[1.5, 1.25], B=[1.25, 1.5], C=[2.0, 2.0]))
    assert sweep_caveats(swapped) == []
    assert "is 1.375, reached by A and B" in judge(swapped).paragraph


def test_floors_are_read_with_a_sweep(writer):
    folder = writer.sweep(floors={"5-gram": {"eval/loss": 1.6}})
    sweep = load_sweep(folder)
    assert sweep.floor_scores("norm=pre,warm-up=0", "eval/loss") == {"5-gram": 1.6}
    assert judge(sweep).overall == "not testable"
    (folder / "floors.json").unlink()
    older = load_sweep(folder)
    assert older.floors is None
    assert judge(older).overall == "supported"
