"""A sweep is continued only with the text and the tokenizer that its runs were trained on; caveats
are printed at its end.
"""

import json
from types import SimpleNamespace

import pytest

from tests.support.small_runs import OBJECTIVES, small
from zoo import config as configs
from zoo import data

RUN = "norm=pre+warm-up=0-seed0"


@pytest.mark.parametrize("part", ["text", "tokenizer"])
def test_changed_data_is_refused(command_line, tmp_path, part):
    assert command_line("run", "norms.py", "--seeds", "1")[0] == 0
    folder = tmp_path / "runs" / "norms"
    trained_on = data.load(configs.resolve(configs.load(str(folder / RUN)))).summary()
    meta = folder / RUN / "meta.json"
    meta.write_text(json.dumps({"data": trained_on}))
    assert command_line("run", "norms.py", "--seeds", "1")[0] == 0

    entry = trained_on if part == "text" else trained_on["tokenizer"]
    entry["fingerprint"] = "0123456789abcdef"
    meta.write_text(json.dumps({"data": trained_on}))
    dry = () if part == "tokenizer" else ("--dry-run",)
    code, _, err = command_line("run", "norms.py", "--seeds", "2", *dry)
    assert code == 2
    (line,) = err.splitlines()
    assert f"{RUN} in runs/norms: the {part}" in line
    assert "has changed since the run was trained (fingerprint 0123456789ab, now " in line
    assert command_line("run", "norms.py", "--seeds", "1", "--fresh")[0] == 0


def test_tasks_on_one_text_have_separate_fingerprints(command_line, tmp_path, monkeypatch):
    (tmp_path / "tasks.py").write_text(TWO_TASKS)
    records = (json.dumps({"text": f"number {n}", "label": n % 2}) for n in range(60))
    (tmp_path / "task.jsonl").write_text("\n".join(records))
    monkeypatch.setattr(data, "load", lambda config: SimpleNamespace(summary=lambda: summary_of(config)))
    code, _, err = command_line("run", "tasks.py", "--seeds", "1")
    assert (code, err) == (0, "")
    for run in (tmp_path / "runs" / "tasks").glob("*/status.json"):
        config = configs.resolve(configs.load(str(run.parent)))
        run.with_name("meta.json").write_text(json.dumps({"data": summary_of(config)}))
    code, _, err = command_line("run", "tasks.py", "--seeds", "2")
    assert (code, err) == (0, "")


def summary_of(config):
    """Stands in for the summary of the data of a task."""
    return {"fingerprint": f"text of {config.objective.kind}", "tokenizer": {"fingerprint": "bytes"}}


TWO_TASKS = """
from zoo import config
from zoo.lab.experiment import Experiment, levels


def get_experiment():
    return Experiment(
        name="tasks",
        question="Which task?",
        base=config.override(
            config.default(),
            {
                "model.architecture": "encoder",
                "data.source": "jsonl:task.jsonl",
                "data.label_column": "label",
                "training.steps": 4,
            },
        ),
        factors={"task": levels("objective.kind", "classification", "regression")},
        allow=("parameters", "flops", "targets"),
    )
"""


def test_caveats_are_printed(command_line, tmp_path):
    assert command_line("run", "norms.py", "--seeds", "1")[0] == 0
    for number, meta in enumerate((tmp_path / "runs" / "norms").glob("*/status.json")):
        meta.with_name("meta.json").write_text(json.dumps({"commit": str(number)}))
    caveat = "caveat: the runs used different commits"
    assert caveat in command_line("report", "runs/norms")[1]
    assert caveat in command_line("run", "norms.py", "--seeds", "1")[1]


def test_a_run_without_a_checkpoint_may_start_on_changed_data(command_line, tmp_path):
    behaviours = {RUN: ["fail", "finish"]}
    assert command_line("run", "norms.py", "--seeds", "1", behaviours=behaviours)[0] == 1
    (tmp_path / "runs" / "norms" / RUN / "meta.json").write_text('{"data": {"fingerprint": "of another text"}}')
    assert command_line("run", "norms.py", "--seeds", "1", behaviours=behaviours)[0] == 0


TASK = {
    "model__architecture": "encoder",
    "objective__kind": "classification",
    "data__label_column": "label",
    "training__eval_batches": 0,
}


@pytest.mark.parametrize("kind", ["text", "mixture", "pairs", "task"])
def test_the_fingerprint_of_the_source_is_that_of_the_loaded_data(tmp_path, kind):
    changes = {}
    if kind == "mixture":
        source = small().data.source
        changes = {"data__source": "mixture", "data__mixture": (f"0.5*{source}", "0.5*synthetic:copy")}
    if kind == "pairs":
        changes = OBJECTIVES["translation"]
    if kind == "task":
        records = (json.dumps({"text": f"number {n}", "label": "odd" if n % 2 else "even"}) for n in range(60))
        (tmp_path / "task.jsonl").write_text("\n".join(records))
        changes = TASK | {"data__source": f"jsonl:{tmp_path}/task.jsonl"}
    config = configs.resolve(small(**changes))
    assert data.source_fingerprint(config) == data.load(config).summary()["fingerprint"]
