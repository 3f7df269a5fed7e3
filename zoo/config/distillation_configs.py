"""Configs of distillation: the teacher's model on the student's rows, and a student of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_collections

from zoo.config.constraints.teacher_constraints import TEACHER, TEACHER_FIELDS
from zoo.config.fields import BY_PATH
from zoo.config.loading import load, override, split_argument
from zoo.config.resolve import ResolvedConfig, default, from_flat, resolve
from zoo.errors import ConfigError, shown
from zoo.nested import flatten

# DistilBERT's training (Sanh et al. 2019, and the authors' training script, see
# configs/distilbert.py), for fewer steps.
_TUNED = {
    "optimizer.learning_rate": 5e-4,
    "optimizer.epsilon": 1e-6,
    "optimizer.clip_norm": 5.0,
    "schedule.kind": "linear",
    "schedule.warmup_steps": 50,
    "training.steps": 1000,
}
_LAYERS = "training.start_layers"
# Additions of the authors' training script for DistilBERT: weights of the terms, the tokens of the
# divergence, the masks, the decay of the second moment, and the layers of a teacher with twelve.
_RECIPES: dict[str, dict[str, Any]] = {
    "distilbert": {
        "objective.distillation.kl": 5.0,
        "objective.distillation.hard": 2.0,
        "objective.distillation.cosine": 1.0,
        "objective.distillation.temperature": 2.0,
        "objective.distillation.kl_tokens": "all",
        "objective.rare_token_exponent": 0.7,
        "objective.whole_words": False,
        "optimizer.beta2": 0.98,
        "model.num_layers": 6,
        _LAYERS: (0, 2, 4, 7, 9, 11),
    }
}
_RECIPE_DEPTH = 12
# Fields of a recipe that only a masked student reads.
_MASKED_FIELDS = ("objective.distillation.kl_tokens", "objective.rare_token_exponent", "objective.whole_words")
# Fields of evaluation that a student shares with its teacher.
_SCORED = ("training.eval_batches", "training.eval_masks", "training.eval_context")
_STARTING_FIELDS = (TEACHER, *TEACHER_FIELDS, "training.start_from", _LAYERS, "training.trained_layers")


def teacher_config(config: ResolvedConfig) -> ResolvedConfig:
    """Returns a student's config with the model of its teacher, which reads the student's rows.

    Raises:
        ConfigError: the folder is not a run; the teacher has another objective or vocabulary, or
            cannot read such rows; hidden states are compared and have another width.
    """
    distillation, folder = config.objective.distillation, Path(config.objective.distillation.teacher)
    teacher, student = flatten(_read(folder, TEACHER)), flatten(config)
    problems = []
    if teacher["objective.kind"] != student["objective.kind"]:
        problems.append(
            f"was trained with objective.kind={teacher['objective.kind']}, and this run's is "
            f"{student['objective.kind']}; teacher and student need the same objective"
        )
    if teacher["model.vocab_size"] != student["model.vocab_size"]:
        problems.append(
            f"scores {teacher['model.vocab_size']} token ids, and model.vocab_size is {student['model.vocab_size']}; "
            f"take its tokenizer (data.tokenizer.kind=file, data.tokenizer.path={folder}) and its model.vocab_size"
        )
    if distillation.cosine and teacher["model.dim"] != student["model.dim"]:
        problems.append(
            f"is {teacher['model.dim']} wide, and model.dim is {student['model.dim']}: there is no angle between their "
            "hidden states; set objective.distillation.cosine=0"
        )
    if not problems:
        flat = {path: value for path, value in student.items() if not path.startswith("model.")}
        flat |= {path: value for path, value in teacher.items() if path.startswith("model.")}
        try:
            return resolve(from_flat(flat | {path: BY_PATH[path].default for path in _STARTING_FIELDS}))
        except ConfigError as error:
            problems = [f"cannot read this run's rows: {problem}" for problem in error.problems]
    raise ConfigError([f"{TEACHER}={folder} {problem}" for problem in problems])


def without_teacher(config: ResolvedConfig) -> ml_collections.ConfigDict:
    """Returns a student's config without its teacher, whose run may be gone."""
    return override(config, {path: BY_PATH[path].default for path in (TEACHER, *TEACHER_FIELDS)})


def spaced_layers(there: int, wanted: int) -> tuple[int, ...]:
    """Returns the layers of a model of `there` layers that `wanted` layers start from.

    Layer i starts from floor(i * there / wanted); with half as many layers these are 0, 2, 4, ...
    """
    return tuple(i * there // wanted for i in range(wanted))


def distilled(argument: str) -> ml_collections.ConfigDict:
    """Returns the config of a student of a run: half of its layers, its embeddings and its head.

    The model, the objective, the data and the tokenizer are the run's own. Next-sentence prediction
    is left out, and pairs of texts become rows of full sentences.

    Args:
        argument: "from=RUN,field=value,...", with any number of fields, or "distilbert,from=RUN,..."
            for DistilBERT's weights of the terms, tokens of the divergence, masks, and layers of a
            teacher of twelve. Other layers are spaced evenly for `model.num_layers`.

    Raises:
        ConfigError: another argument; the folder is not a run; the run predicts no tokens, or has not
            the layers that a recipe names.
    """
    first, _, rest = argument.partition(",")
    recipe = _RECIPES.get(first, {})
    start, *options = split_argument(rest if recipe else argument)
    if not start.startswith("from=") or start == "from=":
        raise ConfigError(
            f"{shown(argument)} names no teacher: write from=RUN, e.g. from=runs/bert, or "
            f"{' or '.join(_RECIPES)},from=RUN"
        )
    if wrong := [option for option in options if "=" not in option]:
        raise ConfigError([f"option {shown(option)} is not field=value" for option in wrong])
    folder, changes = Path(start.removeprefix("from=")), dict(option.split("=", 1) for option in options)
    teacher = flatten(_read(folder, "from"))
    if teacher["objective.kind"] not in BY_PATH[TEACHER].when[1]:
        raise ConfigError(
            f"from={folder}: a teacher is trained with objective.kind={' or '.join(BY_PATH[TEACHER].when[1])}, and "
            f"this one with {teacher['objective.kind']}"
        )
    own = _shared_with_teacher(teacher, folder)
    recipe = _recipe(first, teacher, changes) if recipe else {}
    config = override(from_flat({**flatten(default()), **own, **_TUNED, **recipe}), changes)
    # Where layers share their weights there is nothing to choose from.
    shared = teacher["model.layers.distinct"] or config.model.layers.distinct
    if _LAYERS in {**recipe, **changes} or not config.training.start_from or shared:
        return config
    depth = config.model.num_layers
    layers = spaced_layers(teacher["model.num_layers"], depth) if isinstance(depth, int) else ()
    return override(config, {_LAYERS: layers})


def _recipe(name: str, teacher: Mapping[str, Any], changes: Mapping[str, str]) -> dict[str, Any]:
    """Returns the fields of a recipe for a teacher's config; without its layers if `changes` choose
    the student's.
    """
    fields, depth = _RECIPES[name], teacher["model.num_layers"]
    if teacher["objective.kind"] != "masked":
        fields = {path: value for path, value in fields.items() if path not in _MASKED_FIELDS}
    if changes.keys() & {_LAYERS, "model.num_layers", "training.start_from"}:
        return {path: value for path, value in fields.items() if path not in (_LAYERS, "model.num_layers")}
    if depth != _RECIPE_DEPTH:
        raise ConfigError(
            f"{name}: a student starts from layers {', '.join(map(str, fields[_LAYERS]))} of {_RECIPE_DEPTH}, and the "
            f"teacher has {depth}; choose model.num_layers=N, whose layers are spaced evenly, or {_LAYERS}"
        )
    return fields


def _shared_with_teacher(teacher: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Returns the fields that a student takes from its teacher's config, and those that name it."""
    own: dict[str, Any] = {
        path: value for path, value in teacher.items() if path.startswith(("model.", "objective.", "data."))
    }
    own |= {path: teacher[path] for path in _SCORED}
    own |= {
        path: BY_PATH[path].default
        for path in BY_PATH
        if path.startswith(("data.tokenizer.", "objective.distillation."))
    }
    own |= {
        "data.tokenizer.kind": "file",
        "data.tokenizer.path": str(folder),
        TEACHER: str(folder),
        "training.start_from": str(folder),
        "objective.distillation.cosine": 1.0,
        "objective.mask_copies": 0,
        "objective.next_sentence": False,
        "model.head.pooler": False,
        "model.head.next_sentence": False,
        "model.num_layers": max(1, teacher["model.num_layers"] // 2),
    }
    if teacher["data.row_format"].endswith("pairs"):
        own["data.row_format"] = "full_sentences"
    return own


def _read(folder: Path, field: str) -> ml_collections.ConfigDict:
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{field}={folder} is not a run: there is no {folder / 'config.json'}")
    return load(str(folder))
