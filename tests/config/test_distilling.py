"""Configs of distilled students: what they take from their teacher's run, which of its layers they
start from, and which teachers are refused.
"""

from pathlib import Path

import pytest

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.files import write_json

ROOT = Path(__file__).parents[2]
BERT = {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "model.dim": 32,
    "model.num_layers": 6,
    "model.vocab_size": 300,
    "model.embedding.segments": 2,
    "model.head.pooler": True,
    "model.head.next_sentence": True,
    "objective.next_sentence": True,
    "data.row_format": "segment_pairs",
    "data.sequence_length": 32,
    "data.tokenizer.kind": "wordpiece",
    "data.tokenizer.vocab_size": 290,
    "objective.mask_copies": 10,
    "training.eval_batches": 7,
    "training.steps": 9,
}


def teacher(folder, changes=None):
    """Writes the config of a teacher, without the rest of its run, and returns the folder."""
    config = configs.resolve(configs.override(configs.default(), BERT | (changes or {})), 300)
    folder.mkdir(exist_ok=True)
    write_json(folder / "config.json", configs.to_plain(config))
    return folder


def distill_config(argument):
    return configs.load(f"{ROOT / 'configs' / 'distill.py'}:{argument}")


@pytest.mark.parametrize("argument", ["from={},model.num_layers=2", "from={}"])
def test_a_teacher_whose_folder_name_has_commas(argument, tmp_path):
    folder = teacher(tmp_path / "ids=258,rate=0.002-seed0")
    student = distill_config(argument.format(folder))
    assert student.training.start_from == str(folder)
    assert student.model.num_layers == (2 if "," in argument else 3)
    # Where both exist, the longer name is meant.
    teacher(tmp_path / "ids=258")
    assert distill_config(argument.format(folder)).training.start_from == str(folder)


def test_a_student_is_its_teacher_with_half_the_layers(tmp_path):
    folder = teacher(tmp_path)
    student, teacher_config = (
        configs.resolve(one, 300) for one in (distill_config(f"from={folder}"), configs.load(str(folder)))
    )
    assert set(configs.difference(student.model, teacher_config.model)) == {
        "num_layers",
        "head.pooler",
        "head.next_sentence",
    }
    assert student.model.num_layers == 3
    assert tuple(student.training.start_layers) == (0, 2, 4)
    assert (
        student.training.start_from
        == student.objective.distillation.teacher
        == student.data.tokenizer.path
        == str(folder)
    )
    assert (student.data.row_format, student.objective.next_sentence, student.objective.mask_copies) == (
        "full_sentences",
        False,
        0,
    )
    assert (student.data.sequence_length, student.training.eval_batches, student.training.steps) == (32, 7, 1000)
    assert configs.teacher_config(student).model == teacher_config.model


@pytest.mark.parametrize(
    ("teacher_layers", "student_layers", "layers"),
    [
        (12, 6, (0, 2, 4, 6, 8, 10)),
        (12, 4, (0, 3, 6, 9)),
        (6, 6, (0, 1, 2, 3, 4, 5)),
        (5, 2, (0, 2)),
        (3, 1, (0,)),
        (7, 3, (0, 2, 4)),
    ],
)
def test_layers_are_spaced_evenly(teacher_layers, student_layers, layers):
    assert configs.spaced_layers(teacher_layers, student_layers) == layers


def test_depth_start_layers_and_other_fields_can_be_overridden(tmp_path):
    folder = teacher(tmp_path)
    assert tuple(distill_config(f"from={folder},model.num_layers=2").training.start_layers) == (0, 3)
    fresh = distill_config(f"from={folder},training.start_from=,model.dim=16,objective.distillation.cosine=0")
    assert tuple(fresh.training.start_layers) == ()
    assert configs.resolve(fresh, 300).model.dim == 16
    chosen = configs.override(distill_config(f"from={folder}"), {"training.start_layers": "3,4,5"})
    assert tuple(configs.resolve(chosen, 300).training.start_layers) == (3, 4, 5)


def test_a_student_of_shared_layers_has_the_same_layers_fewer_times(tmp_path):
    student = configs.resolve(distill_config(f"from={teacher(tmp_path, {'model.layers.distinct': 1})}"), 300)
    assert (student.model.num_layers, student.model.layers.distinct) == (3, 1)
    assert tuple(student.training.start_layers) == ()


def test_distilbert_has_the_published_loss_masks_and_layers(tmp_path):
    folder = teacher(tmp_path / "twelve", {"model.num_layers": 12, "objective.whole_words": True})
    student = configs.resolve(distill_config(f"distilbert,from={folder}"), 300)
    terms = student.objective.distillation
    assert (terms.kl, terms.hard, terms.cosine, terms.temperature, terms.kl_tokens) == (5.0, 2.0, 1.0, 2.0, "all")
    assert (student.objective.rare_token_exponent, student.objective.select_fraction) == (0.7, 0.15)
    assert (student.model.num_layers, tuple(student.training.start_layers)) == (6, (0, 2, 4, 7, 9, 11))
    optimizer, schedule = student.optimizer, student.schedule
    assert (optimizer.learning_rate, optimizer.beta2, optimizer.epsilon, optimizer.clip_norm) == (5e-4, 0.98, 1e-6, 5.0)
    assert (schedule.kind, schedule.warmup_steps / student.training.steps) == ("linear", 0.05)
    plain = configs.resolve(distill_config(f"from={folder}"), 300)
    assert {key.rpartition(".")[2] for key in configs.difference(student, plain)} == {
        *("kl", "hard", "kl_tokens", "rare_token_exponent", "whole_words", "beta2", "start_layers")
    }
    six = teacher(tmp_path / "six")
    with pytest.raises(ConfigError, match="from layers 0, 2, 4, 7, 9, 11 of 12, and the teacher has 6; choose model"):
        distill_config(f"distilbert,from={six}")
    chosen = distill_config(f"distilbert,from={six},model.num_layers=2,objective.distillation.hard=1")
    assert (chosen.objective.distillation.kl, chosen.objective.distillation.hard) == (5.0, 1.0)
    assert tuple(chosen.training.start_layers) == (0, 3)
    fresh = configs.resolve(distill_config(f"distilbert,from={folder},training.start_from="), 300)
    assert (fresh.model.num_layers, tuple(fresh.training.start_layers)) == (6, ())


def test_distilbert_of_a_causal_teacher_has_no_masks(tmp_path):
    gpt = {
        "model.architecture": "decoder",
        "objective.kind": "causal",
        "model.num_layers": 12,
        "model.embedding.segments": 0,
        "model.head.pooler": False,
        "model.head.next_sentence": False,
        "objective.next_sentence": False,
        "data.row_format": "packed",
        "objective.mask_copies": 0,
    }
    student = configs.resolve(distill_config(f"distilbert,from={teacher(tmp_path, gpt)}"), 300)
    assert (student.objective.distillation.kl, student.objective.distillation.kl_tokens) == (5.0, "predicted")
    assert student.objective.rare_token_exponent == 0


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("tiny", "'tiny' names no teacher: write from=RUN"),
        ("from=", "names no teacher"),
        ("distilbert", "'distilbert' names no teacher: .* or distilbert,from=RUN"),
        ("from=nowhere", "from=nowhere is not a run: there is no nowhere"),
        ("from=x,dim", "option 'dim' is not field=value"),
    ],
)
def test_arguments_without_a_teacher_run_are_refused_in_one_line(argument, words):
    with pytest.raises(ConfigError, match=words) as refused:
        distill_config(argument)
    assert len(refused.value.problems) == 1


def test_a_span_corruption_run_cannot_be_a_teacher(tmp_path):
    write_json(
        tmp_path / "config.json", configs.to_plain(configs.override(configs.default(), {"objective.kind": "span"}))
    )
    with pytest.raises(ConfigError, match=r"trained with objective\.kind=causal or masked, and this one with span"):
        distill_config(f"from={tmp_path}")


PLAIN = {
    "model.architecture": "encoder",
    "objective.kind": "masked",
    "model.dim": 32,
    "model.vocab_size": 300,
    "data.sequence_length": 32,
}


def student(folder, changes):
    config = configs.override(configs.default(), PLAIN | {"objective.distillation.teacher": str(folder)} | changes)
    return configs.resolve(config, 300)


@pytest.mark.parametrize(
    ("changes", "teacher_changes", "words"),
    [
        ({"model.vocab_size": 301}, {}, ["scores 300 token ids, and model.vocab_size is 301", "data.tokenizer.path="]),
        (
            {"model.dim": 16, "objective.distillation.cosine": 1.0},
            {},
            ["is 32 wide, and model.dim is 16", "objective.distillation.cosine=0"],
        ),
        (
            {"model.architecture": "decoder", "objective.kind": "causal"},
            {},
            ["objective.kind=masked, and this run's is causal"],
        ),
        (
            {"data.sequence_length": 64},
            {},
            ["cannot read this run's rows", "max_length=32 is shorter than data.sequence_length=64"],
        ),
        (
            {"data.isolate_documents": True},
            {"model.attention.window": 3, "model.attention.global_tokens": 1},
            ["data.isolate_documents=true"],
        ),
    ],
)
def test_unsuitable_teachers_are_refused_in_one_line(tmp_path, changes, teacher_changes, words):
    folder = teacher(tmp_path, teacher_changes)
    with pytest.raises(ConfigError) as refused:
        configs.teacher_config(student(folder, changes))
    (line,) = refused.value.problems
    assert line.startswith(f"objective.distillation.teacher={folder} ")
    assert all(word in line for word in words)


def test_teacher_width_may_differ_without_the_cosine_loss(tmp_path):
    assert configs.teacher_config(student(teacher(tmp_path), {"model.dim": 16})).model.dim == 32


def test_without_teacher_removes_all_distillation_fields(tmp_path):
    config = student(tmp_path, {"objective.distillation.kl": 3.0, "objective.distillation.kl_tokens": "all"})
    assert configs.resolve(configs.without_teacher(config)) == configs.resolve(
        configs.override(configs.default(), PLAIN), 300
    )
