"""The recorded noise of a size is that of one text, objective and budget."""

import math
import re
import statistics

import numpy as np
import pytest

from publication import noise_record
from tests.lab import fake_run
from tests.support.archives import write_archive
from zoo.files import read_json, write_json
from zoo.lab.planning import known_noise
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.power import fitted_line, power_lines
from zoo.lab.planning.trained_on import trained_on
from zoo.lab.report.archive.detectable import detectable_difference
from zoo.lab.report.archive.experiment_page import read_contrasts, read_table
from zoo.lab.results.schema import parse_noise
from zoo.lab.statistics.noise import Noise
from zoo.lab.statistics.simulation import found_difference

TEXT = f"text:{fake_run.__file__}"
BUDGET = 16 * fake_run.STEPS


@pytest.fixture
def plan_of(monkeypatch):
    """Plans the experiment of two norms; the record has its size, text, objective and tokens."""
    from zoo.lab.planning import arm_resolution

    key = {"size": "tiny", "sources": [TEXT], "objectives": ["causal"], "tokens": BUDGET}
    entries = [key | {"metric": metric, "sd": 0.01, "df": 6, "sweeps": 1} for metric in ("eval/loss", "eval/accuracy")]
    monkeypatch.setattr(arm_resolution, "count_cost", fake_run.cost)
    monkeypatch.setattr(known_noise, "recorded_noise", lambda: entries)

    def plan(changes, **fields):
        from zoo import config

        return make_plan(fake_run.experiment(base=config.override(fake_run.experiment().base, changes), **fields))

    return plan


def test_the_record_is_used_for_what_it_was_measured_on(plan_of):
    found = plan_of({}).noise
    assert list(found) == ["eval/loss"]
    assert (found["eval/loss"]["sd"], found["eval/loss"]["df"]) == (0.01, 6)
    assert found["eval/loss"]["source"] == "the median of 1 archived sweep of the size tiny on this text"


def test_the_nearest_budget_counts(plan_of, monkeypatch):
    (entry, *_) = known_noise.recorded_noise()
    near = [entry | {"tokens": BUDGET * share, "sd": sd} for share, sd in ((0.95, 0.02), (1.01, 0.03), (1.05, 0.04))]
    monkeypatch.setattr(known_noise, "recorded_noise", lambda: near)
    assert plan_of({}).noise["eval/loss"]["sd"] == 0.03


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"data.source": "stdlib"}, {}),
        ({"data.source": "synthetic:recall,length=4"}, {}),
        ({"objective.kind": "prefix"}, {}),
        ({"training.steps": 2 * fake_run.STEPS}, {}),
        ({}, {"size": "medium"}),
        ({}, {"factors": {"norm": {"pre": {}, "post": {"model.norm.placement": "post", "data.source": "stdlib"}},
                          "warm-up": {"0": {}, "10": {"schedule.warmup_steps": 10}}}, "allow": ("text",)}),
    ],
)  # fmt: skip
def test_it_is_not_used_for_another_text_objective_budget_or_size(plan_of, changes, fields):
    assert plan_of(changes, **fields).noise == {}


def test_texts_and_objectives_of_runs():
    mixed = {"data": {"source": "mixture", "mixture": ("stdlib=2", "text:a.txt=1")}, "objective": {"kind": "masked"}}
    plain = {"data": {"source": "stdlib", "mixture": ()}, "objective": {"kind": "causal"}}
    assert trained_on([plain, plain]) == {"sources": ["stdlib"], "objectives": ["causal"]}
    assert trained_on([mixed, plain]) == {
        "sources": ["stdlib", "stdlib=2", "text:a.txt=1"],
        "objectives": ["causal", "masked"],
    }
    assert trained_on([{}]) == {"sources": [], "objectives": []}


def test_sweeps_of_two_texts_are_two_entries_of_the_record(tmp_path, monkeypatch):
    monkeypatch.setattr(noise_record, "PATH", tmp_path / "noise.json")
    (tmp_path / "results").mkdir()
    texts = {"first": ["stdlib"], "second": ["stdlib"], "other": ["synthetic:recall"], "unknown": []}
    for name, sources in texts.items():
        write_archive(tmp_path / name)
        (tmp_path / name / "one").rename(tmp_path / "results" / name)
        record = read_json(tmp_path / "results" / name / "result.json")
        write_json(tmp_path / "results" / name / "result.json", record | {"sources": sources})
    entries = read_json(noise_record.write(tmp_path / "results"))
    assert [(entry["sources"], entry["df"], entry["sweeps"]) for entry in entries] == [
        (["stdlib"], 8, 2),
        (["synthetic:recall"], 4, 1),
    ]


def test_what_fitted_sweeps_find_is_in_the_record(tmp_path, monkeypatch, plan_of):
    """Sweeps with other seeds, or without a fit, do not count."""
    monkeypatch.setattr(noise_record, "PATH", tmp_path / "noise.json")
    (tmp_path / "results").mkdir()
    for name, changes in {
        "fitted": {"tuned": "fitted", "seeds": [0, 1, 2, 3, 4]},
        "grid": {"tuned": "grid", "seeds": [0, 1, 2, 3, 4]},
        "few": {"tuned": "fitted"},
    }.items():
        write_archive(tmp_path / name)
        (tmp_path / name / "one").rename(tmp_path / "results" / name)
        record = read_json(tmp_path / "results" / name / "result.json")
        write_json(tmp_path / "results" / name / "result.json", record | changes)
    (entry,) = read_json(noise_record.write(tmp_path / "results"))
    assert entry["sweeps"] == 3
    folder = tmp_path / "results/fitted"
    runs, result = read_table(folder / "runs.csv"), read_json(folder / "result.json")
    found = [detectable_difference(row, runs, result) for row in read_contrasts(folder)]
    median = statistics.median(difference for difference in found if difference is not None)
    assert entry["fitted"] == {"difference": pytest.approx(median, rel=0.05), "sweeps": 1}


def test_a_plan_names_what_fitted_sweeps_find_if_it_fits_something(plan_of, monkeypatch):
    from zoo.lab.experiment import Tune

    (entry, *_) = known_noise.recorded_noise()
    fitted = {"difference": 0.02, "sweeps": 4}
    monkeypatch.setattr(known_noise, "recorded_noise", lambda: [entry | {"fitted": fitted}])
    assert plan_of({}).found_with_fit is None
    plan = plan_of({}, tune=Tune("optimizer.learning_rate", (1e-3, 1e-2)))
    assert plan.found_with_fit == fitted
    line = fitted_line(fitted, "eval/loss")
    assert "5 seeds" in line
    assert "find 0.02 nats (the median of 4 sweeps)" in line


def test_the_noise_of_sweeps_that_differ_tells_little_of_another():
    """Of sweeps whose variances spread like those with 3 degrees of freedom, the record has 3."""
    random = np.random.default_rng(0)
    true = 1 / random.gamma(1.5, 1 / 1.5, (4, 400))
    sampled = true * random.chisquare(8, true.shape) / 8
    groups = [[(scale * variance**0.5, 8) for variance in group] for scale, group in zip((1, 2, 5, 9), sampled)]
    assert noise_record.spread_df(groups) == pytest.approx(3, rel=0.15)
    alike = [[(scale * sd, 8) for sd in (1.0, 1.1, 0.9)] for scale in (1, 2)]
    assert noise_record.spread_df(alike) == math.inf
    assert noise_record.spread_df([[(0.01, 8)], [(0.5, 2)]]) == math.inf


def test_a_plan_finds_less_where_the_noise_is_hardly_known():
    found = [found_difference({5: 0.05}, 0.01, df) for df in (1000, 3, 0)]
    assert found == sorted(found)
    assert found[1] > 1.1 * found[0]
    lines = [
        next(power_lines([], 5, {}, {"eval/loss": Noise(0.01, df, "earlier sweeps")}, "eval/loss")) for df in (1000, 3)
    ]
    assert [f"difference of {one:.2g} nats" in line for one, line in zip(found, lines)] == [True, True]


def test_a_record_with_the_degrees_of_freedom_of_a_spread_reaches_the_plan(plan_of, monkeypatch):
    (entry, *_) = known_noise.recorded_noise()
    monkeypatch.setattr(known_noise, "recorded_noise", lambda: [entry | {"df": 2.9}])
    noise = parse_noise(plan_of({}).noise)
    assert noise["eval/loss"].df == 2.9
    (line, *_) = power_lines([], 5, {}, noise, "eval/loss")
    assert f"a difference of {found_difference({5: 0.05}, 0.01, 2.9):.2g} nats is found" in line


def test_a_tuned_sweep_is_planned_with_the_noise_that_its_tuning_runs_will_tell():
    def planned(noise, tuned):
        (line, *_) = power_lines([], 5, {}, noise, "eval/loss", tuned)
        return float(re.search(r"difference of ([\d.]+)", line)[1])

    recorded = {"eval/loss": Noise(0.1, 2.9, "earlier sweeps")}
    assert planned(recorded, tuned=True) == pytest.approx(found_difference({5: 0.05}, 0.1, 9), rel=0.05)
    assert planned(recorded, tuned=True) < planned(recorded, tuned=False)
    # Without a record the number is in standard deviations.
    assert planned({}, tuned=True) == pytest.approx(found_difference({5: 0.05}, 1, 9), rel=0.05)
    assert planned({}, tuned=False) > 2 * planned({}, tuned=True)
