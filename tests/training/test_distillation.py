"""Whole runs of students: the teacher is neither changed nor saved, students resume bit for bit,
and a finished student does not need its teacher.
"""

import itertools
import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.small_runs import OBJECTIVES, curves, lines, small
from tests.support.untrained import untrained
from zoo import config as configs
from zoo.cli import evaluate as command
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.errors import ConfigError
from zoo.files import read_json
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.checkpoints import checkpoint as checkpoint_module
from zoo.training.checkpoints.integrity import file_hashes
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run

pytestmark = pytest.mark.promise(reason="students are trained beside a teacher")
ROOT = Path(__file__).parents[2]
TEACHER = {"model__dim": 16, "model__num_layers": 4, "model__dropout": 0.1, "training__eval_batches": 3}
STUDENT = {
    "model__dim": 16,
    "model__num_layers": 2,
    "model__dropout": 0.1,
    "training__steps": 8,
    "training__start_layers": "0,2",
    "objective__distillation__cosine": 0.5,
    "objective__distillation__kl": 2.0,
}


def quiet(line):
    del line


@pytest.fixture(scope="module")
def teachers(tmp_path_factory):
    found = {}
    for kind in ("masked", "causal"):
        found[kind] = untrained(tmp_path_factory.mktemp(kind) / "teacher", small(**OBJECTIVES[kind], **TEACHER))
    return found


def student(teacher, kind="masked", **fields):
    return small(
        **OBJECTIVES[kind],
        **STUDENT | {"objective__distillation__teacher": str(teacher), "training__start_from": str(teacher)} | fields,
    )


@pytest.fixture(scope="module")
def straight(teachers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("straight") / "run"
    run(student(teachers["masked"]), folder, quiet)
    return folder


def test_every_loss_term_is_reported_in_training_and_evaluation(straight, teachers):
    last = lines(straight)
    for part in ("train", "eval"):
        found = [line for line in last if f"{part}/loss" in line]
        assert all(line[f"{part}/{name}"] > 0 for line in found for name in ("loss", "kl", "cosine_distance"))
    trained = [line["train/kl"] for line in last if "train/kl" in line]
    assert trained[-1] != trained[0]
    origin, teacher = (read_json(straight / "meta.json")[name] for name in ("started_from", "teacher"))
    assert teacher == {
        "folder": str(teachers["masked"]),
        "parameters_sha256": read_json(teachers["masked"] / "status.json")["parameters_sha256"],
    }
    assert origin["parameters_sha256"] != teacher["parameters_sha256"]


def test_teacher_is_neither_changed_nor_saved(teachers, tmp_path):
    before = file_hashes(teachers["masked"])
    config = configs.resolve(student(teachers["masked"]))
    program = make_program(
        config, make_model(config), make_objective(config, ByteTokenizer()), make_mesh(config, jax.devices()[:1])
    )
    constants, state = program.constants(0), program.initial_state(0)
    its = jax.device_get(constants["teacher"])
    batch = program.put_batch(
        {
            "tokens": np.full((8, 16), 5, np.int32),
            "masked_positions": np.tile(np.arange(2, dtype=np.int32), (8, 1)),
            "targets": np.full((8, 2), 7, np.int32),
        }
    )
    for _ in range(3):
        state, _ = program.train_step(state, batch, constants)
    jax.tree.map(np.testing.assert_array_equal, its, jax.device_get(constants["teacher"]))
    jax.tree.map(np.testing.assert_array_equal, its["params"], jax.device_get(load_trained(teachers["masked"]).params))
    assert file_hashes(teachers["masked"]) == before
    # The saved state has the size of the student: its parameters and their two moments.
    own = sum(leaf.size for leaf in jax.tree.leaves(state["params"]))
    assert own < sum(leaf.size for leaf in jax.tree.leaves(its))
    assert sum(leaf.size for leaf in jax.tree.leaves(state["optimizer"])) < 2 * own + 10
    assert "teacher" not in json.dumps(jax.tree.map(lambda leaf: leaf.shape, state))


@pytest.mark.parametrize(
    "kind",
    [
        "masked",
        pytest.param("causal", marks=pytest.mark.slow(reason="differs from the masked student in the objective alone")),
    ],
)
def test_stopped_student_resumes_bit_for_bit(kind, teachers, tmp_path, monkeypatch):
    config, polls, original = student(teachers[kind], kind), itertools.count(1), checkpoint_module.Checkpoints.poll
    run(config, tmp_path / "straight", quiet)

    def poll(self):
        original(self)
        if next(polls) == 5:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module.Checkpoints, "poll", poll)
        with pytest.raises(KeyboardInterrupt):
            run(config, tmp_path / "stopped", quiet)
    printed = []
    run(config, tmp_path / "stopped", printed.append)
    assert any("continuing from step 3 of 8" in line for line in printed)
    assert curves(tmp_path / "stopped") == curves(tmp_path / "straight")
    one, other = (read_json(tmp_path / name / "status.json")["parameters_sha256"] for name in ("stopped", "straight"))
    assert one == other
    assert all(line["train/kl"] > 0 for line in lines(tmp_path / "straight") if "train/loss" in line)


def half_done(folder, straight):
    """Returns the folder of a run that was stopped before its end."""
    shutil.copytree(straight, folder)
    (folder / "status.json").unlink()
    shutil.rmtree(folder / "checkpoints" / "8")
    return folder


def test_student_resumes_only_with_its_own_teacher(straight, teachers, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(teachers["masked"], moved)
    # A teacher with equal parameters in another folder is the same teacher.
    folder = half_done(tmp_path / "on", straight)
    run(student(moved, training__start_from=str(teachers["masked"])), folder, quiet)
    assert curves(folder) == curves(straight)
    folder = half_done(tmp_path / "changed", straight)
    shutil.rmtree(moved)
    untrained(moved, small(**OBJECTIVES["masked"], **TEACHER), seed=9)
    with pytest.raises(
        ConfigError, match=r"objective\.distillation\.teacher=.*moved are not those that the run in .* was started with"
    ):
        run(student(moved, training__start_from=str(teachers["masked"])), folder, quiet)
    shutil.rmtree(moved)
    with pytest.raises(
        ConfigError, match=r"objective\.distillation\.teacher=.*moved is not a run: there is no .*config\.json"
    ):
        run(student(moved, training__start_from=str(teachers["masked"])), folder, quiet)
    # Without a teacher it would be a different run.
    with pytest.raises(ConfigError, match=r"holds a run with objective\.distillation\.teacher"):
        run(
            student(
                "",
                objective__distillation__cosine=0.0,
                objective__distillation__kl=1.0,
                training__start_from=str(teachers["masked"]),
            ),
            folder,
            quiet,
        )


def test_finished_student_does_not_need_its_teacher(straight, tmp_path, teachers, capsys, monkeypatch):
    teacher, folder = tmp_path / "teacher", tmp_path / "run"
    shutil.copytree(teachers["masked"], teacher)
    run(student(teacher), folder, quiet)
    expected = lines(folder)[-1]["eval/loss"]
    shutil.rmtree(teacher)
    assert run(student(teacher), folder, quiet)["state"] == "done"
    assert load_trained(folder).config.objective.distillation.teacher == ""
    assert command.main([str(folder), "--batches", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lengths"]["16"]["loss"] == pytest.approx(expected, rel=1e-5)


def test_teacher_with_another_tokenizer_or_a_task_is_refused(teachers, tmp_path):
    with pytest.raises(
        ConfigError, match=r"objective\.distillation\.teacher=.* was trained with another tokenizer; set"
    ):
        run(
            student(
                teachers["masked"],
                training__start_from="",
                training__start_layers="",
                data__tokenizer__kind="characters",
                model__vocab_size=258,
            ),
            tmp_path / "run",
            quiet,
        )
    with pytest.raises(ConfigError, match=r"was trained with objective\.kind=masked, and this run's is causal"):
        run(
            student(teachers["masked"], "causal", training__start_from="", training__start_layers=""),
            tmp_path / "other",
            quiet,
        )


@pytest.mark.parametrize(
    "kind",
    [
        "masked",
        pytest.param("causal", marks=pytest.mark.slow(reason="differs from the masked student in the objective alone")),
    ],
)
def test_shipped_config_distils_to_half_the_layers(kind, teachers, tmp_path):
    config = configs.load(
        f"{ROOT / 'configs' / 'distill.py'}:from={teachers[kind]},training.steps=2,schedule.warmup_steps=0"
    )
    run(config, tmp_path / "run", quiet)
    resolved, its = configs.resolve(config), load_trained(teachers[kind]).config
    assert tuple(resolved.training.start_layers) == (0, 2)
    assert set(configs.difference(resolved.model, its.model)) == {"num_layers"}
    assert {"eval/loss", "eval/kl", "eval/cosine_distance"} <= set(lines(tmp_path / "run")[-1])
