"""Checks that a folder with a run in it is resumed as the same run, and has its records."""

from collections.abc import Callable, Iterable
from typing import Any

import jax

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError
from zoo.files import is_step, write_json
from zoo.layers.platform import ROWS_FROM
from zoo.nested import flatten
from zoo.training.records.ancestry import NAME, seen_held_out_text
from zoo.training.records.extension import Extension, extension_obstacle, find_extension
from zoo.training.records.record_faults import (
    check_unedited,
    ignores_length_of_rows,
    lost_checkpoint,
    lost_records,
    other_masks,
    other_norms,
)
from zoo.training.records.recorded_tokens import differing_tokens
from zoo.training.records.run_folder import RunFolder, recorded_executor


def check_same_run(folder: RunFolder, config: ResolvedConfig) -> Extension | None:
    """Refuses a folder that holds another run.

    Returns:
        How `training.steps` grows, if the run is to be trained longer.

    Raises:
        ConfigError: one line for every result-relevant field that differs; its config.json was edited;
            the run cannot be trained longer.
    """
    workdir = folder.path
    try:
        before = folder.resolved_config
    except ConfigError as error:
        path = workdir / "config.json"
        raise ConfigError([f"{path} cannot be continued: {problem}" for problem in error.problems]) from error
    if before is None:
        return None
    check_unedited(folder)
    changed = configs.difference(
        configs.from_flat(configs.result_relevant(before)), configs.from_flat(configs.result_relevant(config))
    )
    # A teacher may have been moved: `check_same_teacher` compares its parameters.
    if before.objective.distillation.teacher and config.objective.distillation.teacher:
        changed.pop("objective.distillation.teacher", None)
    if "data.tokenizer.path" in changed and _has_same_tokenizer(folder, config):
        del changed["data.tokenizer.path"]
    if moved := _texts_moved(folder, before, config, changed):
        changed = {field: values for field, values in changed.items() if field not in moved}
    problems = []
    if extension := find_extension(folder, before, config):
        del changed["training.steps"]
        if obstacle := extension_obstacle(folder, before, extension):
            problems.append(f"--workdir {workdir} holds a run that cannot be trained longer: {obstacle}")
    problems += [
        f"--workdir {workdir} holds a run with {field}={old!r}, not {new!r}; continue it as it is, "
        "or take another --workdir"
        for field, (old, new) in changed.items()
    ]
    if problems:
        raise ConfigError(problems)
    return extension


def _has_same_tokenizer(folder: RunFolder, config: ResolvedConfig) -> bool:
    """Returns whether the config's tokenizer file is the run's, possibly moved or copied."""
    if config.data.tokenizer.kind != "file" or not (folder.path / "tokenizer.json").is_file():
        return False
    return read_pretrained(config.data.tokenizer.path).fingerprint == data.load_tokenizer(folder.path).fingerprint


def _texts_moved(folder: RunFolder, before: ResolvedConfig, config: ResolvedConfig, changed: Iterable[str]) -> set[str]:
    """Returns the changed fields that name the same texts by other paths: moved or compressed."""
    moved = set(changed) & {"data.source", "data.held_out", "data.mixture"}
    recorded = folder.meta.get("data")
    if not moved or not isinstance(recorded, dict) or _weights(before) != _weights(config):
        return set()
    return moved if data.source_fingerprint(config) == recorded.get("fingerprint") else set()


def _weights(config: ResolvedConfig) -> list[str]:
    return [entry.partition("*")[0].strip() for entry in config.data.mixture]


def check_same_data(folder: RunFolder, dataset: data.TextDataset) -> None:
    """Refuses other text, or another tokenizer, than the run was started with.

    Raises:
        ConfigError: saying which of the two has changed.
    """
    before, now = folder.meta.get("data"), dataset.summary()
    if not before or not (folder.path / "checkpoints").exists():
        return
    for what, old, new in (
        ("the text of data.held_out", *(_fingerprint_in(part, "held_out") for part in (before, now))),
        ("the text of data.source", before.get("fingerprint"), now["fingerprint"]),
        ("the tokenizer", *(_fingerprint_in(part, "tokenizer") for part in (before, now))),
        *(
            (f"the hash of the {part} tokens (same text, same tokenizer)", old, new)
            for part, old, new in differing_tokens(before, now)
        ),
    ):
        if old != new:
            old = str(old)
            raise ConfigError(
                f"{what} has changed since the run in {folder.path} started (fingerprint {old[:12]}, now {new[:12]})"
            )


def _fingerprint_in(record: dict[str, Any], part: str) -> Any:
    """Returns the fingerprint of a part of a data set's record, or None if it has no such part."""
    return record[part].get("fingerprint") if isinstance(record.get(part), dict) else None


def recorded_rows_from(folder: RunFolder) -> int:
    """Returns `Platform.rows_from` of a run: 0 if it goes on from a checkpoint of a version that chose
    the kernel of attention without regard to the length of rows, so that it keeps that kernel.
    """
    return 0 if folder.newest and ignores_length_of_rows(folder.meta) else ROWS_FROM


def check_unseen_text(config: ResolvedConfig, dataset: data.TextDataset) -> None:
    """Refuses a run whose held-out text was training text of the run that it starts from, or of its
    teacher.

    Raises:
        ConfigError: naming that run and how the texts overlap, unless `training.allow_seen_text`.
    """
    if not config.training.allow_seen_text and (lines := seen_held_out_text(flatten(config), dataset.summary())):
        raise ConfigError([f"{line}; take other text, or allow it: --allow {NAME}" for line in lines])


def check_same_origin(folder: RunFolder, origin: dict[str, Any] | None) -> None:
    """Checks that a run that has no checkpoint yet is restarted from the same initial parameters.

    Raises:
        ConfigError: the parameters in `training.start_from` have changed.
    """
    before = folder.meta.get("started_from")
    if origin and before and before.get("parameters_sha256") != origin["parameters_sha256"]:
        raise ConfigError(
            f"the parameters in training.start_from={origin['folder']} have changed since the run in {folder.path} "
            "started"
        )


def check_same_teacher(folder: RunFolder, teacher: dict[str, Any] | None) -> None:
    """Refuses a teacher with other parameters than the run was started with; its path may differ.

    Raises:
        ConfigError: the teacher's parameters are others.
    """
    before = folder.meta.get("teacher")
    if teacher and before and before.get("parameters_sha256") != teacher["parameters_sha256"]:
        raise ConfigError(
            f"the parameters of objective.distillation.teacher={teacher['folder']} are not those that the run in "
            f"{folder.path} was started with (sha256 {str(before.get('parameters_sha256'))[:12]}, now "
            f"{teacher['parameters_sha256'][:12]})"
        )


def are_bit_identical(executor: str, other: str, platform_name: str) -> bool:
    """Returns whether two executors give bit-identical results, so that a run may switch."""
    return executor == other or (platform_name == "cpu" and {executor, other} == {"single", "map"})


def check_same_executor(folder: RunFolder, executor: str) -> None:
    """Refuses an executor whose results differ from those of the one that the run was started with.

    Raises:
        ConfigError: naming both executors.
    """
    before = recorded_executor(folder.meta, executor)
    if folder.steps and not are_bit_identical(before, executor, jax.default_backend()):
        raise ConfigError(
            f"the run in {folder.path} was trained {_describe_executor(before)} so far and cannot be continued "
            f"{_describe_executor(executor)}: their floating-point results differ"
        )


def _describe_executor(executor: str) -> str:
    return {"single": "separately", "map": "in a population, by map", "vmap": "in a population, by vmap"}.get(
        executor, executor
    )


def restore_config(folder: RunFolder, config: ResolvedConfig, log: Callable[[str], None]) -> None:
    """Writes the config.json of a run again whose meta.json shows that `config` is its config.

    Raises:
        ConfigError: config.json is gone from a run with checkpoints, and it is another run, or
            that cannot be determined.
    """
    path, identity = folder.path / "config.json", configs.identity(config)
    if path.exists() or not folder.steps:
        return
    recorded = folder.meta.get("identity")
    if recorded != identity:
        known = f"by its meta.json it is another run (identity {recorded}, not {identity})"
        raise ConfigError(
            f"--workdir {folder.path} has checkpoints, but its config.json is gone, and "
            f"{known if recorded else 'nothing else tells whether this is the same run'}; restore config.json, or take "
            "another --workdir"
        )
    write_json(path, configs.to_plain(config))
    log(f"{path} was gone; by the identity in meta.json this is the same run, and it is written again")


def check_curves(folder: RunFolder) -> None:
    """Checks that a run with checkpoints has its metrics.jsonl.

    Raises:
        ConfigError: it has none.
    """
    path, newest = folder.path / "metrics.jsonl", folder.newest
    if newest and not path.exists():
        raise ConfigError(
            f"--workdir {folder.path} has a checkpoint of step {newest}, but its metrics.jsonl is gone; restore it, or "
            f"create an empty {path} to go on with curves that begin at step {newest}"
        )


def check_checkpoints(folder: RunFolder) -> None:
    """Checks that a run that had checkpoints has one: without, it would start again and cut its
    curves.

    Damaged checkpoints that were set aside are reported when the state is restored.

    Raises:
        ConfigError: all are gone.
    """
    workdir = folder.path
    if folder.steps or (workdir / "quarantine").exists():
        return
    status, before = folder.status, folder.resolved_config
    newest = max((int(row["step"]) for row in folder.curves.rows), default=0)
    step = status.get("step") if is_step(status.get("step")) else 0
    every = before.training.checkpoint_every if before else 0
    if any(
        (
            status.get("saved"),
            status.get("state") == "running" and step,
            folder.meta.get("resumed"),
            # The second save of a run waits until the first is on disk.
            newest > 2 * (every or newest),
        )
    ):
        raise ConfigError(
            f"--workdir {workdir} was trained to step {max(newest, step)}, but its checkpoints are gone; restore "
            f"{workdir / 'checkpoints'}, or remove or rename {workdir} to start again from step 0"
        )


def warnings_of(folder: RunFolder, config: ResolvedConfig) -> list[str]:
    """Returns a line for each fault in the records of a run that is resumed, or done already."""
    done, lines = folder.final_status is not None, []
    if done or folder.newest:
        ends = "is done, but {}" if done else f"goes on from step {folder.newest}, but {{}}"
        lines += [f"warning: {folder.path} {ends.format(what)}" for what in lost_records(folder)]
    if done and not folder.steps:
        lines.append(f"warning: {folder.path} is done, but its checkpoints are gone")
    found = [lost_checkpoint(folder), other_norms(folder, config), None if done else other_masks(folder, config)]
    return lines + [f"warning: {line}" for line in found if line]
