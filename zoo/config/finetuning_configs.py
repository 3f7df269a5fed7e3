"""Configs of tasks: small and from scratch, or with the body of a trained run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_collections

from zoo.config.fields import AUTO, BY_PATH, SEQUENCE_TASKS, TASKS
from zoo.config.loading import load, override, split_argument
from zoo.config.resolve import default, from_flat, resolve
from zoo.errors import ConfigError, shown, user_path
from zoo.files import read_json
from zoo.nested import flatten

# A small encoder that a CPU trains in a minute on built-in data.
TINY = {
    "model.architecture": "encoder",
    "model.dim": 64,
    "model.num_layers": 2,
    "model.attention.num_heads": 4,
    "model.embedding.segments": 2,
    "data.tokenizer.kind": "wordpiece",
    "data.tokenizer.vocab_size": 2000,
    "data.sequence_length": 64,
    "data.batch_size": 16,
    "optimizer.learning_rate": 3e-3,
    "schedule.kind": "linear",
    "schedule.warmup_steps": 20,
    "training.steps": 200,
    "training.eval_every": 50,
    "training.checkpoint_every": 100,
}
# BERT's fine-tuning (Devlin et al. 2019, appendix A.3: batches of 16 or 32, rates of 2e-5 to 5e-5,
# warm-up over a tenth of the steps).
TUNED = {
    "data.sequence_length": 128,
    "data.batch_size": 32,
    "optimizer.learning_rate": 2e-5,
    "optimizer.weight_decay": 0.01,
    "optimizer.epsilon": 1e-6,
    "optimizer.clip_norm": 1.0,
    "schedule.kind": "linear",
    "schedule.warmup_steps": 100,
    "training.steps": 1000,
}
# An ELMo is frozen: a task learns a mixture of its layers and a head over it (Peters et al. 2018,
# section 3.3).
FEATURES = {"training.trained_layers": 0, "optimizer.learning_rate": 1e-3, "optimizer.weight_decay": 0.0}
# Fields of the head of another objective.
_HEADS = ("model.head.classes", "model.head.pooling", "model.head.next_sentence")


def finetuned(
    argument: str, task: Mapping[str, Any], tuned: Mapping[str, Any] | None = None
) -> ml_collections.ConfigDict:
    """Returns the config of a task, for the `get_config` of its config file.

    Args:
        argument: "tiny" or "from=RUN", each followed by any number of ",field=value".
        task: fields of the task.
        tuned: further fields for fine-tuning a run.

    Raises:
        ConfigError: another argument; the folder is not a run; tasks do not support its body.
    """
    start, *options = split_argument(argument)
    if wrong := [option for option in options if "=" not in option]:
        raise ConfigError([f"option {shown(option)} is not field=value" for option in wrong])
    if start == "tiny":
        config = override(default(), {**TINY, **task})
    elif start.startswith("from=") and len(start) > len("from="):
        config = _with_body_of(user_path(start.removeprefix("from=")), {**TUNED, **task, **(tuned or {})})
    else:
        raise ConfigError(f"{shown(start)} is neither tiny nor from=RUN, e.g. from=runs/bert")
    return override(config, dict(option.split("=", 1) for option in options))


def with_body_of(trained: Mapping[str, Any], start: str, changes: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Returns the config of a task that starts from another run: its model without the head, and
    its tokenizer.

    Args:
        trained: the config of that run, which need not exist yet.
        start: the folder of that run; in an experiment `prerequisite:NAME`.
        changes: fields of the task and of training; the defaults are BERT's fine-tuning.

    Raises:
        ConfigError: `trained` is refused, or tasks do not support its body.
    """
    return _with_body_of(Path(start), {**TUNED, **changes}, trained)


def _with_body_of(
    folder: Path, changes: dict[str, Any], trained: Mapping[str, Any] | None = None
) -> ml_collections.ConfigDict:
    """Returns the config of a task with the body and tokenizer of a run; rows are cut to its
    positions.

    An imported ELMo has no tokenizer: it was trained on words.
    """
    if trained is None and not (folder / "config.json").is_file():
        raise ConfigError(f"from={folder} is not a run: there is no {folder / 'config.json'}")
    there = flatten(load(str(folder)) if trained is None else resolve(trained))
    if there["model.architecture"] not in ("encoder", "decoder", "elmo"):
        raise ConfigError(
            f"from={folder}: a task needs an encoder, a decoder or an ELMo, and model.architecture is "
            f"{there['model.architecture']}"
        )
    body = {path: value for path, value in there.items() if path.startswith("model.")}
    body |= {path: BY_PATH[path].default for path in _HEADS}
    if changes["objective.kind"] not in SEQUENCE_TASKS:
        body["model.head.pooler"] = False
    for path in BY_PATH:
        field = BY_PATH[path]
        if (
            path.startswith("model.")
            and field.when
            and field.when[0] == "objective.kind"
            and not set(field.when[1]) & set(TASKS)
        ):
            body[path] = field.default
    longest = body["model.position.max_length"]
    if longest != AUTO:
        changes["data.sequence_length"] = min(changes["data.sequence_length"], longest)
    tokenizer = {"data.tokenizer.kind": "file", "data.tokenizer.path": str(folder)}
    if there["model.architecture"] == "elmo":
        changes |= FEATURES
        body["model.vocab_size"] = AUTO
        if (folder / "meta.json").is_file() and "imported" in read_json(folder / "meta.json"):
            tokenizer = {"data.tokenizer.kind": "words"}
    return from_flat({**flatten(default()), **body, **changes, **tokenizer, "training.start_from": str(folder)})
