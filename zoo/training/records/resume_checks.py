"""Checks that a folder with a run in it is resumed as the same run."""

from pathlib import Path
from typing import Any

import jax

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError
from zoo.training.records.checkpoint_steps import checkpoint_steps
from zoo.training.records.extension import Extension, extension_obstacle, find_extension
from zoo.training.records.record_reader import read_meta
from zoo.training.records.recorded_executor import recorded_executor


def check_same_run(workdir: Path, config: ResolvedConfig) -> Extension | None:
    """Refuses a folder that holds another run.

    Returns:
        How `training.steps` grows, if the run is to be trained longer.

    Raises:
        ConfigError: one line for every result-relevant field that differs; the run cannot be
            trained longer.
    """
    path = workdir / "config.json"
    if not path.exists():
        return None
    try:
        before = configs.resolve(configs.load(str(path)))
    except ConfigError as error:
        raise ConfigError([f"{path} cannot be continued: {problem}" for problem in error.problems]) from error
    changed = configs.difference(
        configs.from_flat(configs.result_relevant(before)), configs.from_flat(configs.result_relevant(config))
    )
    # A teacher may have been moved: `check_same_teacher` compares its parameters.
    if before.objective.distillation.teacher and config.objective.distillation.teacher:
        changed.pop("objective.distillation.teacher", None)
    if "data.tokenizer.path" in changed and _has_same_tokenizer(workdir, config):
        del changed["data.tokenizer.path"]
    problems = []
    if extension := find_extension(workdir, before, config):
        del changed["training.steps"]
        if obstacle := extension_obstacle(workdir, before, extension):
            problems.append(f"--workdir {workdir} holds a run that cannot be trained longer: {obstacle}")
    problems += [
        f"--workdir {workdir} holds a run with {field}={old!r}, not {new!r}; continue it as it is, "
        "or take another --workdir"
        for field, (old, new) in changed.items()
    ]
    if problems:
        raise ConfigError(problems)
    return extension


def _has_same_tokenizer(workdir: Path, config: ResolvedConfig) -> bool:
    """Returns whether the config's tokenizer file is the run's, possibly moved or copied."""
    if config.data.tokenizer.kind != "file" or not (workdir / "tokenizer.json").is_file():
        return False
    return read_pretrained(config.data.tokenizer.path).fingerprint == data.load_tokenizer(workdir).fingerprint


def check_same_data(workdir: Path, dataset: data.TextDataset) -> None:
    """Refuses other text, or another tokenizer, than the run was started with.

    Raises:
        ConfigError: saying which of the two has changed.
    """
    before, now = read_meta(workdir).get("data"), dataset.summary()
    if not before or not (workdir / "checkpoints").exists():
        return
    tokenizer = before.get("tokenizer")
    for what, old, new in (
        ("the text of data.source", before.get("fingerprint"), now["fingerprint"]),
        (
            "the tokenizer",
            tokenizer.get("fingerprint") if isinstance(tokenizer, dict) else None,
            now["tokenizer"]["fingerprint"],
        ),
    ):
        if old != new:
            old = str(old)
            raise ConfigError(
                f"{what} has changed since the run in {workdir} started (fingerprint {old[:12]}, now {new[:12]})"
            )


def check_same_origin(workdir: Path, origin: dict[str, Any] | None) -> None:
    """Checks that a run that has no checkpoint yet is restarted from the same initial parameters.

    Raises:
        ConfigError: the parameters in `training.start_from` have changed.
    """
    before = read_meta(workdir).get("started_from")
    if origin and before and before.get("parameters_sha256") != origin["parameters_sha256"]:
        raise ConfigError(
            f"the parameters in training.start_from={origin['folder']} have changed since the run in {workdir} started"
        )


def check_same_teacher(workdir: Path, teacher: dict[str, Any] | None) -> None:
    """Refuses a teacher with other parameters than the run was started with; its path may differ.

    Raises:
        ConfigError: the teacher's parameters are others.
    """
    before = read_meta(workdir).get("teacher")
    if teacher and before and before.get("parameters_sha256") != teacher["parameters_sha256"]:
        raise ConfigError(
            f"the parameters of objective.distillation.teacher={teacher['folder']} are not those that the run in "
            f"{workdir} was started with (sha256 {str(before.get('parameters_sha256'))[:12]}, now "
            f"{teacher['parameters_sha256'][:12]})"
        )


def are_bit_identical(executor: str, other: str, platform_name: str) -> bool:
    """Returns whether two executors give bit-identical results, so that a run may switch."""
    return executor == other or (platform_name == "cpu" and {executor, other} == {"single", "map"})


def check_same_executor(workdir: Path, executor: str) -> None:
    """Refuses an executor whose results differ from those of the one that the run was started with.

    Raises:
        ConfigError: naming both executors.
    """
    before = recorded_executor(read_meta(workdir), executor)
    if checkpoint_steps(workdir / "checkpoints") and not are_bit_identical(before, executor, jax.default_backend()):
        raise ConfigError(
            f"the run in {workdir} was trained {_describe_executor(before)} so far and cannot be continued "
            f"{_describe_executor(executor)}: their floating-point results differ"
        )


def _describe_executor(executor: str) -> str:
    return {"single": "separately", "map": "in a population, by map", "vmap": "in a population, by vmap"}.get(
        executor, executor
    )
