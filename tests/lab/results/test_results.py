import json
import math
from pathlib import Path

import pytest

from zoo.errors import ConfigError
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.run_records import RunRecord, differing_keys, load_run
from zoo.lab.results.sweep_results import load_sweep


def test_lines_merge_by_step_and_the_last_one_wins(tmp_path):
    lines = [
        {"step": 10, "tokens": 100, "seconds": 1.0, "train/loss": 3.0},
        {"step": 10, "tokens": 100, "seconds": 1.0, "eval/loss": 3.5},
        {"step": 20, "tokens": 200, "seconds": 2.0, "train/loss": 2.0},
        {"step": 20, "tokens": 200, "seconds": 2.5, "train/loss": 2.1},
        {"step": 15, "tokens": 150, "seconds": 1.5, "train/loss": None, "nonfinite": ["train/loss"]},
    ]
    (tmp_path / "status.json").write_text('{"state": "done", "step": 20, "steps": 20}')
    (tmp_path / "metrics.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines) + '{"step": 25, "train/lo'
    )
    run = load_run(tmp_path)
    series = run.series("train/loss")
    assert series.step.tolist() == [10, 15, 20]
    assert series.seconds.tolist() == [1.0, 1.5, 2.5]
    assert series.value[[0, 2]].tolist() == [3.0, 2.1]
    assert math.isnan(series.value[1])
    assert run.series("eval/loss").step.tolist() == [10]
    assert (run.final("train/loss"), run.best("train/loss"), run.final("eval/loss")) == (2.1, 2.1, 3.5)
    assert run.final("eval/lass") is None
    assert run.unreadable_lines == 0


def test_damage_before_the_last_line_is_counted(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "running"}')
    huge = b'{"step": 4, "a": 1' + b"0" * 400 + b"}"
    lines = [b'{"step": 1, "a": 1.0}', b'{"step": 2, "a"{"step": 3}', b"\xff\xfe", b"[1]", b'{"step": "x"}', huge, b""]
    (tmp_path / "metrics.jsonl").write_bytes(b"\n".join(lines))
    run = load_run(tmp_path)
    assert run.unreadable_lines == 4
    assert run.series("a").step.tolist() == [1, 4]
    assert run.best("a") == 1.0


def test_a_value_that_is_not_finite_at_the_end_is_the_final_value(tmp_path):
    (tmp_path / "status.json").write_text('{"state": "done"}')
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "eval/loss": 2.0}\n{"step": 2, "eval/loss": null}\n')
    run = load_run(tmp_path)
    assert math.isnan(run.final("eval/loss"))
    assert run.best("eval/loss") == 2.0


@pytest.mark.parametrize("state", ["running", "failed", "diverged", "preempted"])
def test_only_done_runs_have_a_final_value(writer, state):
    run = load_run(writer.run("x", state=state))
    assert run.final("eval/loss") is None
    assert run.best("eval/loss") is not None


def test_a_sweep_contains_runs_that_never_started(writer):
    sweep = load_sweep(writer.sweep(broken=True))
    states = {run.folder.name: run.state for run in sweep.runs}
    assert len(states) == 12
    assert {name: state for name, state in states.items() if state != "done"} == {
        "post-0-1": "diverged",
        "post-100-2": "failed",
        "pre-100-2": "missing",
    }
    assert sweep.run("norm=pre,warm-up=0", 1).final("eval/loss") == pytest.approx(2.521)
    assert sweep.arms[0].label == "norm=pre+warm-up=0"


def test_labels_name_only_what_differs(writer):
    arms = [{"name": f"arm {norm}", "factors": {"norm": norm, "size": "tiny"}} for norm in ("pre", "post")]
    sweep = load_sweep(writer.sweep(arms=arms, runs=[], contrasts=[]))
    assert [arm.label for arm in sweep.arms] == ["norm=pre", "norm=post"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda root: root / "nothing", "there is no such folder"),
        (lambda root: root, "not a sweep folder, it has no experiment.json"),
    ],
)
def test_folders_that_are_not_sweeps_are_refused(tmp_path, make, message):
    with pytest.raises(ConfigError, match=message) as caught:
        load_sweep(make(tmp_path))
    assert len(caught.value.problems) == 1


def test_errors_suggest_the_other_command_for_runs_and_sweeps(writer):
    run, sweep = writer.run("x"), writer.sweep()
    with pytest.raises(ConfigError, match="use zoo compare"):
        load_sweep(run)
    with pytest.raises(ConfigError, match="use zoo report"):
        load_run(sweep)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '{"name": "x"}'])
def test_damaged_experiment_files(tmp_path, text):
    (tmp_path / "experiment.json").write_text(text)
    with pytest.raises(ConfigError, match=r"experiment\.json"):
        load_sweep(tmp_path)


def test_all_problems_of_an_experiment_are_reported_at_once(writer):
    bad = [
        {
            "name": "x",
            "a": {"arm": "norm=pre,warmup=0", "metric": "eval/loss"},
            "b": {"arm": "norm=pre,warm-up=0"},
            "rule": "superior",
            "margin": -1,
            "expected": "",
        }
    ]
    runs = [{"folder": "../../etc", "arm": "norm=pre,warm-up=0", "seed": 0}]
    with pytest.raises(ConfigError) as caught:
        load_sweep(writer.sweep(contrasts=bad, runs=runs))
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    assert '(did you mean "norm=pre,warm-up=0"?)' in text
    assert '(did you mean "superiority"?)' in text
    assert "margin is -1" in text
    assert "inside the sweep" in text


def test_two_runs_of_one_arm_and_seed_are_refused(writer):
    runs = [{"folder": name, "arm": "norm=pre,warm-up=0", "seed": 0} for name in ("a", "b")]
    with pytest.raises(ConfigError, match="more than one run with seed 0"):
        load_sweep(writer.sweep(runs=runs))


def test_an_unknown_state_is_reported(writer):
    folder = writer.run("x")
    (folder / "status.json").write_text('{"state": "finished"}')
    with pytest.raises(ConfigError, match='state is "finished"'):
        load_run(folder)


def runs_of(*configs):
    return [RunRecord(Path(), "", 0, config) for config in configs]


def test_differing_keys():
    a = {"seed": 0, "model": {"dim": 1, "layers": {}}, "list": [1, 2], "flag": 1}
    b = {"seed": 1, "model": {"dim": 1, "layers": {}}, "list": [2, 1], "flag": True, "extra": None}
    # A key that is absent counts as null: both mean that nothing was chosen.
    assert differing_keys(runs_of(a, b)) == ["flag", "list"]


def test_a_field_missing_in_an_older_run_has_its_default():
    default, changed = {"model": {"layers": {"distinct": 0}}}, {"model": {"layers": {"distinct": 2}}}
    assert differing_keys(runs_of({}, default)) == []
    assert differing_keys(runs_of({}, default, changed)) == ["model.layers.distinct"]


def test_a_renamed_field_at_its_default_is_dropped(writer):
    folder = writer.run("a", config={"optimizer": {"muon_warmup": 0, "kind": "adamw"}})
    assert load_run(folder).config["optimizer"] == {"kind": "adamw"}


def test_comparison_groups_by_what_differs(writer):
    folders = [
        writer.run(
            f"{kind}{seed}", seed=seed, final=2.0, config={"model": {"norm": {"kind": kind}}, "head": {"kind": "x"}}
        )
        for kind in ("layernorm", "rmsnorm")
        for seed in (0, 1)
    ]
    sweep = load_comparison(folders)
    assert [(arm.label, len(sweep.runs_of(arm.name))) for arm in sweep.arms] == [
        ("kind=layernorm", 2),
        ("kind=rmsnorm", 2),
    ]
    assert sweep.seeds == [0, 1]
    assert sweep.metric == "eval/loss"


def test_a_repeated_run_is_a_separate_arm(writer):
    sweep = load_comparison([writer.run("first"), writer.run("again")])
    assert [arm.label for arm in sweep.arms] == ["first", "again"]


def test_comparisons_ignore_cadences_and_derived_fields(writer):
    def config(dim, every):
        return {"model": {"dim": dim, "attention": {"head_dim": dim // 4}}, "training": {"log_every": every}}

    folders = [writer.run(f"r{dim}", config=config(dim, every)) for dim, every in ((64, 10), (128, 20))]
    assert [arm.factors for arm in load_comparison(folders).arms] == [{"dim": "64"}, {"dim": "128"}]
    # A derived field counts if the runs differ in nothing else.
    wide = {"model": {"dim": 64, "attention": {"head_dim": 32}}}
    assert len(load_comparison([folders[0], writer.run("wide", config=wide)]).arms) == 2


def test_a_comparison_of_runs_that_differ_in_a_part_of_the_model(writer):
    def config(heads):
        return {"model": {"dim": 64, "decoder": {"attention": {"num_heads": heads, "head_dim": 64 // heads}}}}

    folders = [writer.run(f"r{heads}", config=config(heads)) for heads in (2, 4)]
    assert [arm.factors for arm in load_comparison(folders).arms] == [{"num_heads": "2"}, {"num_heads": "4"}]


def test_comparison_names_all_bad_folders(writer):
    good = writer.run("good")
    with pytest.raises(ConfigError) as caught:
        load_comparison([good, good, writer.root / "none", writer.root])
    assert [problem.split(": ")[1] for problem in caught.value.problems] == [
        "named twice",
        "there is no such folder",
        "not a run folder, it has no status.json",
    ]
