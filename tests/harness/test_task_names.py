"""Tasks of the harness as measures: names, directions, and when a value is computed again."""

import importlib.util
import sys

import pytest

from tests.harness.local_tasks import write_tasks
from tests.support.small_runs import small
from tests.support.untrained import untrained
from zoo import config
from zoo.cli.main import main
from zoo.files import write_json
from zoo.harness.task_names import TaskMetric
from zoo.lab.experiment import required_measures
from zoo.lab.measures import find_measure, is_measure, missing_measures, why_unavailable
from zoo.lab.metrics import higher_is_better, is_known_metric, is_per_token
from zoo.lab.planning.adhoc import experiment_from_flags
from zoo.nested import flatten


def test_names_of_tasks():
    assert TaskMetric.parse("harness:blimp") == ("blimp", "acc")
    assert TaskMetric.parse("harness:tasks/pairs.yaml:acc_norm") == ("tasks/pairs.yaml", "acc_norm")
    for name in ("blimp", "harness:", "harness:a:b:c", "harness:a@b", "harness:a b", "harness:a,b"):
        assert TaskMetric.parse(name) is None
        assert name == "blimp" or find_measure(name) is None
    assert is_known_metric("measured/harness:blimp")
    assert not is_measure("measured/harness:blimp@initial")
    assert higher_is_better("measured/harness:blimp:acc_norm")
    assert not higher_is_better("measured/harness:lambada_openai:perplexity")
    assert not is_per_token("measured/harness:lambada_openai:perplexity")
    assert "acc_norm of hellaswag" in find_measure("harness:hellaswag:acc_norm").definition


def test_a_metric_of_a_task_is_required_of_the_runs():
    experiment = experiment_from_flags("gpt2:tiny", ["model.norm.kind=layernorm,rmsnorm"], None, [])
    changed = experiment.__class__(
        **{**vars(experiment), "metric": "measured/harness:blimp", "measures": ("harness:x:f1",)}
    )
    assert required_measures(changed) == ["harness:blimp", "harness:x:f1"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"model__architecture": "encoder", "objective__kind": "masked"}, "objective.kind=masked"),
        (
            {"model__architecture": "encoder_decoder", "objective__kind": "span", "objective__sentinels": 8},
            "fills blanks",
        ),
        ({}, "there is no file nowhere.yaml"),
    ],
)
def test_runs_without_a_task_are_refused_before_training(changes, line, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    flat = flatten(config.resolve(small(**changes)))
    assert line in why_unavailable("measured/harness:nowhere.yaml", flat)
    if not changes:
        assert why_unavailable("measured/harness:blimp", flat) == ""
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        assert "pip install lm_eval" in why_unavailable("measured/harness:blimp", flat)


def test_a_task_that_has_changed_is_evaluated_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, run = write_tasks(tmp_path / "tasks"), tmp_path / "run"
    status = {"state": "done", "step": 2, "parameters_sha256": "0"}
    name, values = "harness:tasks/pairs.yaml", {"measured/harness:tasks/pairs.yaml": 0.5}
    run.mkdir()
    write_json(run / "status.json", status)
    from zoo.lab.measures import measure_provenance

    write_json(run / "measured.json", {name: {"values": values, "from": measure_provenance(run, status, name)}})
    assert not missing_measures(run, [name])
    beside = file.with_name("pairs.jsonl")
    beside.write_text(beside.read_text() * 2)
    assert missing_measures(run, [name]) == [name]
    # Where the task's files are not, its value is what was measured.
    file.unlink()
    assert not missing_measures(run, [name])
    write_json(run / "status.json", status | {"parameters_sha256": "1"})
    assert missing_measures(run, [name]) == [name]


def test_without_the_library_one_line_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.setitem(sys.modules, "lm_eval.tasks", None)
    run = untrained(tmp_path / "run", small())
    assert main(["harness", str(run), "--tasks", "blimp"]) == 2
    assert "pip install lm_eval" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    arguments = [
        "run",
        "--config=gpt2:tiny",
        "--vary",
        "model.norm.kind=layernorm,rmsnorm",
        "--seeds",
        "2",
        "--dry-run",
    ]
    assert main([*arguments, "--measure", "harness:blimp"]) == 2
    assert "no metric measured/harness:blimp: the tasks of the harness need" in capsys.readouterr().err
    assert main([*arguments, "--measure", "blimp"]) == 2
    assert "harness:TASK[:METRIC]" in capsys.readouterr().err
