"""Prerequisite runs: their place in a plan, what is refused before anything is trained, and the
training of the plan.
"""

import dataclasses
import json
from pathlib import Path

import pytest

from tests.support.sample_data import table
from zoo import config
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.lab.experiment import Prerequisite, levels
from zoo.lab.launch.run_status import read_sweep_status
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.prerequisites import resolve_references
from zoo.lab.results.sweep_results import load_sweep
from zoo.training.trainer import run

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
START = {"start": {"trained": {"training.start_from": "prerequisite:body"}, "fresh": {"training.start_from": ""}}}
# A decoder and the arms that continue from it, over bytes, so that no data has to be read.
BODY = {
    "model.dim": 16,
    "model.num_layers": 1,
    "training.steps": fake.STEPS,
    "data.sequence_length": 8,
    "data.batch_size": 2,
}


@pytest.fixture(autouse=True)
def fake_cost(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)


def body(**changes):
    return config.override(config.default(), BODY | {path.replace("__", "."): value for path, value in changes.items()})


def staged(**changes):
    return fake.experiment(
        **{
            "base": body(optimizer__learning_rate=0.5),
            "factors": START,
            "contrasts": (),
            "claim": None,
            "prerequisites": {"body": Prerequisite(body())},
            # The prerequisite's tokens are part of the budget of the arms that start from it.
            "allow": ("tokens",),
            **changes,
        }
    )


def identities(experiment):
    return {run.name: run.identity for run in make_plan(experiment).in_order}


def test_arms_follow_their_prerequisites_and_refer_to_their_identities():
    plan = make_plan(staged())
    assert [run.name for run in plan.in_order] == [
        "body seed 0",
        "start=trained seed 0",
        "start=fresh seed 0",
        "body seed 1",
        "start=trained seed 1",
        "start=fresh seed 1",
    ]
    assert [run.name for run in plan.runs] == [
        f"start={way} seed {seed}" for seed in (0, 1) for way in ("trained", "fresh")
    ]
    for seed, first in enumerate(plan.prerequisites):
        assert first.config.seed == seed
        assert first.folder == f"body-seed{seed}-{first.identity}"
        trained, fresh = (run for run in plan.runs if run.seed == seed)
        assert trained.needs == (first,)
        assert trained.config.training.start_from == f"prerequisite:{first.folder}"
        assert trained.identity == config.identity(trained.config)
        assert fresh.needs == ()
        assert (
            resolve_references(trained.config, lambda folder: f"runs/x/{folder}").training.start_from
            == f"runs/x/{first.folder}"
        )


def test_a_changed_prerequisite_changes_the_identity_of_its_arms():
    before, after = (
        identities(staged()),
        identities(staged(prerequisites={"body": Prerequisite(body(optimizer__learning_rate=0.1))})),
    )
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"{name} seed {seed}" for name in ("body", "start=trained") for seed in (0, 1)}
    assert before == identities(staged(prerequisites={"body": Prerequisite(body(training__log_every=7))}))


def test_a_prerequisite_with_once_is_one_run_for_all_seeds():
    plan = make_plan(staged(prerequisites={"body": Prerequisite(body(), once=True)}, seeds=(3, 4)))
    assert [run.name for run in plan.in_order] == [
        "body seed 3",
        "start=trained seed 3",
        "start=fresh seed 3",
        "start=trained seed 4",
        "start=fresh seed 4",
    ]
    assert plan.prerequisites[0].folder == f"body-{plan.prerequisites[0].identity}"
    assert all(run.needs == (plan.prerequisites[0],) for run in plan.runs if run.arm.name == "start=trained")
    assert len({run.identity for run in plan.runs}) == 4


def test_a_prerequisite_run_may_start_from_an_earlier_one():
    stages = {"first": Prerequisite(body()), "body": Prerequisite(body(training__start_from="prerequisite:first"))}
    plan = make_plan(staged(prerequisites=stages))
    assert [run.arm.name for run in plan.in_order[:3]] == ["first", "body", "start=trained"]
    assert plan.in_order[1].needs == (plan.in_order[0],)
    before = identities(staged(prerequisites=stages))
    after = identities(staged(prerequisites=stages | {"first": Prerequisite(body(optimizer__learning_rate=0.1))}))
    assert before["start=trained seed 0"] != after["start=trained seed 0"]
    backwards = fake.plan_problems(staged(prerequisites=dict(reversed(stages.items()))))
    assert backwards[0].startswith(
        'prerequisite run "body": training.start_from=prerequisite:first: no prerequisite run has this name'
    )


def test_pending_runs_include_the_prerequisites_that_they_need():
    plan = make_plan(staged())

    def pending_after(*finished):
        return [run.name for run in plan.pending(lambda run: run.name in finished)]

    assert pending_after() == [run.name for run in plan.in_order]
    assert pending_after("body seed 0") == [run.name for run in plan.in_order[1:]]
    # The prerequisite of a seed is not needed if the arm that starts from it is finished.
    assert pending_after("start=trained seed 0", "start=fresh seed 1") == [
        "start=fresh seed 0",
        "body seed 1",
        "start=trained seed 1",
    ]
    assert pending_after(*(run.name for run in plan.runs)) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"factors": {"start": {"a": {"training.start_from": "prerequisite:bdy"}, "b": {}}}},
            'arm start=a: training.start_from=prerequisite:bdy: no prerequisite run has this name (did you mean "body"?)',
        ),
        (
            {"factors": {"start": {"a": {"training.start_from": "prepared:body"}, "b": {}}}},
            "arm start=a: training.start_from=prepared:body: write prerequisite:body",
        ),
        ({"factors": {"dim": levels("model.dim", 16, 32)}}, 'prerequisite run "body": no arm starts from it'),
        (
            {
                "prerequisites": {"body": Prerequisite(body()), "twin": Prerequisite(body())},
                "factors": {"start": levels("training.start_from", "prerequisite:body", "prerequisite:twin")},
            },
            'prerequisite runs "body" and "twin" are the same run',
        ),
        ({"base": body(model__dim=32)}, "arm start=trained: training.start_from=prerequisite:body has another body: "),
        (
            {"base": body(data__tokenizer__kind="byt5", model__vocab_size=257)},
            "training.start_from=prerequisite:body has a tokenizer of its own",
        ),
    ],
)
def test_bad_prerequisites_are_refused(changes, text):
    assert any(text in problem for problem in fake.plan_problems(staged(**changes))), fake.plan_problems(
        staged(**changes)
    )


def test_problems_of_prerequisites_and_of_arms_are_reported_together():
    found = fake.plan_problems(
        staged(prerequisites={"body": Prerequisite(body(model__dim=15))}, base=body(training__steps=0))
    )
    assert len(found) == 2
    assert found[0].startswith('prerequisite run "body": model.dim=15 is not divisible')
    assert found[1].startswith("every arm: training.steps=0")


@pytest.mark.parametrize(
    ("prerequisites", "text"),
    [
        ({"a/b": Prerequisite({})}, "prerequisite run 'a/b': the name is used as a folder name"),
        ({"body": {}}, "prerequisite run 'body': expected Prerequisite(config), got dict"),
    ],
)
def test_bad_names_and_types_of_prerequisites_are_refused(prerequisites, text):
    with pytest.raises(ConfigError, match="prerequisite run") as error:
        staged(prerequisites=prerequisites)
    assert any(text in problem for problem in error.value.problems)


def test_reports_count_prerequisite_runs_separately(tmp_path):
    plan = make_plan(staged())
    (tmp_path / "experiment.json").write_text(json.dumps(plan.record()))
    for one in plan.in_order:
        (tmp_path / one.folder).mkdir()
        stored = config.to_plain(resolve_references(one.config, lambda folder: str(tmp_path / folder)))
        (tmp_path / one.folder / "config.json").write_text(json.dumps(stored))
    sweep = load_sweep(tmp_path)
    assert [(run.arm, run.seed) for run in sweep.prerequisites] == [("body", 0), ("body", 1)]
    assert [arm.name for arm in sweep.arms] == ["start=trained", "start=fresh"]
    assert len(sweep.runs) == 4
    # Runs of one arm start from different folders, which must not count as a difference.
    assert {run.config["training"]["start_from"] for run in sweep.runs_of("start=trained")} == {"prerequisite:body"}
    record = plan.record()
    # Older sweeps store the entries under their former name.
    older = {"prepared" if key == "prerequisites" else key: value for key, value in record.items()}
    (tmp_path / "experiment.json").write_text(json.dumps(older))
    assert load_sweep(tmp_path) == sweep
    assert [run.folder for run in read_sweep_status(tmp_path).runs][:2] == [run.folder for run in plan.prerequisites]
    record["prerequisites"][0]["folder"] = "../elsewhere"
    (tmp_path / "experiment.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="needs a folder inside the sweep"):
        load_sweep(tmp_path)


# Tasks whose body and tokenizer come from a prerequisite run that is not trained yet

ENCODER = {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "model.position.kind": "learned",
    "training.steps": 2,
    "data.tokenizer.kind": "characters",
    "training.eval_batches": 1,
    "data.sequence_length": 32,
}


def task_experiment(**changes):
    trained = config.override(body(), ENCODER | {"data.source": "text:" + table("train").partition(":")[2]})
    base = config.with_body_of(
        trained,
        "prerequisite:body",
        {
            "objective.kind": "classification",
            "data.source": table("train"),
            "data.held_out": table("dev"),
            "training.steps": 2,
            "schedule.warmup_steps": 0,
            "data.batch_size": 4,
        },
    )
    frozen = {
        "fresh": {"training.start_from": "", "training.trained_layers": "auto"},
        "frozen": {"training.start_from": "prerequisite:body", "training.trained_layers": 0},
    }
    return dataclasses.replace(
        staged(),
        **{
            "base": base,
            "factors": {"start": frozen},
            "prerequisites": {"body": Prerequisite(trained)},
            "metric": "eval/accuracy",
            "seeds": (0,),
            **changes,
        },
    )


def test_arms_are_resolved_from_the_config_of_their_prerequisite():
    plan = make_plan(task_experiment())
    prerequisite = plan.prerequisites[0].config.model
    for arm in plan.arms:
        assert arm.config.model.vocab_size == prerequisite.vocab_size > 30
        assert (
            arm.config.model.position.max_length
            == prerequisite.position.max_length
            == arm.config.data.sequence_length
            == 32
        )
        assert arm.config.model.head.classes == 3
    # The arm with fresh parameters also needs the prerequisite run, for its vocabulary.
    assert [len(run.needs) for run in plan.runs] == [1, 1]


def test_metrics_are_those_of_the_task():
    found = fake.plan_problems(task_experiment(metric="eval/perplexity"))
    assert found[0] == (
        'arm "start=fresh": no metric eval/perplexity under objective.kind=classification, which writes eval/loss, '
        "eval/accuracy, eval/macro_f1, eval/matthews"
    )
    assert "no metric eval/f1" in fake.plan_problems(task_experiment(metric="eval/f1"))[0]


@pytest.mark.promise(reason="whole runs are trained")
def test_a_plan_with_prerequisites_trains(tmp_path):
    plan = make_plan(task_experiment())
    for one in plan.in_order:
        messages = []
        run(
            resolve_references(one.config, lambda folder: str(tmp_path / folder)),
            tmp_path / one.folder,
            messages.append,
        )
        starts = [line for line in messages if line.startswith("starting from the parameters")]
        assert len(starts) == (one.arm.name == "start=frozen")
    before, after = (
        {name: read_json(tmp_path / one.folder / "status.json")["parameters_sha256"] for name in ("params",)}
        for one in (plan.prerequisites[0], plan.runs[1])
    )
    assert before != after
    origin = read_json(tmp_path / plan.runs[1].folder / "meta.json")["started_from"]
    assert origin["folder"] == str(tmp_path / plan.prerequisites[0].folder)


def test_tokens_and_texts_of_a_prerequisite_count():
    experiment = staged()
    plan = make_plan(experiment)
    body = plan.prerequisites[0].arm
    first = next(arm for arm in plan.arms if arm.config.training.start_from)
    assert first.inherited_tokens == body.tokens > 0
    assert first.tokens == body.tokens + first.steps * first.tokens_per_step
