"""A sweep has the floors of its arms before its runs are trained; a dry run writes none."""

import json
from pathlib import Path

import pytest

from zoo import config, data
from zoo.lab.experiment import Prerequisite
from zoo.lab.floors.run_floors import run_floors
from zoo.lab.launch.preparation import load_data, write_floors
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.results.sweep_results import load_sweep

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")


@pytest.fixture
def planned(monkeypatch):
    """Returns the plan of the stand-in experiment, with changes."""
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    return lambda **changes: make_plan(fake.experiment(**changes))


def test_a_sweep_gets_the_floors_of_its_arms(command_line, tmp_path):
    assert command_line("run", "norms.py", "--dry-run")[0] == 0
    assert not (tmp_path / "runs").exists()
    assert command_line("run", "norms.py")[0] == 0
    sweep = load_sweep(tmp_path / "runs" / "norms")
    resolved = config.resolve(config.load(str(sweep.runs[0].folder)))
    expected = run_floors(resolved, data.load(resolved))
    assert set(sweep.floors) == {arm.name for arm in sweep.arms}
    assert all(floors == expected for floors in sweep.floors.values())
    assert set(expected.scores) >= {"unigram", "bigram"}
    code, out, _ = command_line("report", "runs/norms")
    assert code == 0
    assert f"floors of eval/loss, nats: unigram {expected.scores['unigram']['eval/loss']:.3f}, bigram" in out


def test_tuning_runs_are_not_judged_and_have_none(command_line, tmp_path):
    assert command_line("run", "norms.py", "--tune", "optimizer.learning_rate=1e-3,1e-2", "--tune-seeds", "1")[0] == 0
    folder = tmp_path / "runs" / "norms"
    assert (folder / "floors.json").exists()
    assert not (folder / "tuning" / "floors.json").exists()


def test_arms_of_one_text_share_a_data_set(planned):
    plan = planned()
    datasets = load_data(plan, None)
    assert set(datasets) == {run.folder for run in plan.runs}
    assert len({id(dataset) for dataset in datasets.values()}) == 1
    assert not load_data(plan, None, read_only=True)


def test_floors_wait_for_the_tokenizer_of_a_prerequisite(planned, tmp_path):
    trained = config.override(fake.experiment().base, {"model.architecture": "encoder", "objective.kind": "masked"})
    plan = planned(
        prerequisites={"body": Prerequisite(trained)},
        base=config.override(
            trained, {"data.tokenizer.kind": "file", "data.tokenizer.path": "prerequisite:body", "training.steps": 5}
        ),
        factors={"start": {"trained": {"training.start_from": "prerequisite:body"}}},
        contrasts=(),
        claim=None,
    )
    assert write_floors(plan, tmp_path, load_data(plan, None), print)
    first = plan.prerequisites[0]
    (tmp_path / first.folder).mkdir()
    (tmp_path / first.folder / "status.json").write_text(json.dumps({"state": "done", "step": 40}))
    # A run that left no tokenizer: its arms fail, and say why.
    assert not write_floors(plan, tmp_path, {}, print)
    record = json.loads((tmp_path / "floors.json").read_text())
    assert record["arms"]["start=trained"]["scores"] == {}
    assert first.folder in record["arms"]["start=trained"]["note"]
