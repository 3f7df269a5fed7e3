"""What a run's folder says of it: config.json, meta.json, the tokenizer; and whether it is still
the same run that goes on there.
"""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data.tokenizers.registry import read_pretrained
from zoo.errors import ConfigError
from zoo.files import read_json, write_json
from zoo.models import cost

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "ml-collections", "tokenizers", "numpy")


def parameters_sha256(params: Any) -> str:
    """Returns the sha256 over all parameters' paths and bytes, in the order of their paths."""
    digest = hashlib.sha256()
    for path, value in sorted(
        (jax.tree_util.keystr(path), value) for path, value in jax.tree_util.tree_leaves_with_path(params)
    ):
        digest.update(path.encode())
        if isinstance(value, jax.Array) and not value.is_fully_addressable and not value.is_fully_replicated:
            value = multihost_utils.process_allgather(
                value, tiled=True
            )  # Its parts lie with several processes, all of which come here.
        digest.update(np.ascontiguousarray(jax.device_get(value)).data)
    return digest.hexdigest()


def git_commit() -> str | None:
    """Returns the commit that the code stands at, with "-dirty" if it was changed, or None outside
    a checkout.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def conditions() -> dict[str, Any]:
    """What a program runs with: versions, devices, the code's commit."""
    devices = jax.devices()
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "device": {
            "platform": devices[0].platform,
            "kind": devices[0].device_kind,
            "count": len(devices),
            "cpu_threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        },
        "commit": git_commit(),
    }


def read_record(path: Path) -> dict[str, Any]:
    """Reads a JSON object that may be missing or, after a crash of the machine, empty; then it is
    an empty one.
    """
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def check_same_run(workdir: Path, config: ResolvedConfig) -> None:
    """Refuses to continue a folder that holds another run.

    Raises:
        ConfigError: with every result-relevant field that differs.
    """
    path = workdir / "config.json"
    if not path.exists():
        return
    try:
        before = configs.resolve(configs.load(str(path)))
    except ConfigError as error:
        raise ConfigError([f"{path} cannot be continued: {problem}" for problem in error.problems]) from error
    changed = configs.difference(
        configs.from_flat(configs.result_relevant(before)), configs.from_flat(configs.result_relevant(config))
    )
    # That a teacher has only moved is seen from its parameters.
    if before.objective.distillation.teacher and config.objective.distillation.teacher:
        changed.pop("objective.distillation.teacher", None)
    if "data.tokenizer.path" in changed and same_tokenizer(workdir, config):
        del changed["data.tokenizer.path"]
    if changed:
        raise ConfigError(
            [
                f"--workdir {workdir} holds a run with {field}={old!r}, not {new!r}; continue it as it is, "
                "or take another --workdir"
                for field, (old, new) in changed.items()
            ]
        )


def same_tokenizer(workdir: Path, config: ResolvedConfig) -> bool:
    """Whether the published tokenizer that a config names is the run's own: a copy, or the original
    that was moved.
    """
    if config.data.tokenizer.kind != "file" or not (workdir / "tokenizer.json").is_file():
        return False
    return read_pretrained(config.data.tokenizer.path).fingerprint == data.load_tokenizer(workdir).fingerprint


def check_same_data(workdir: Path, dataset: data.TextDataset) -> None:
    """Refuses to use a run with other text, or other tokens for it, than it was started with.

    Raises:
        ConfigError: saying which of the two has changed.
    """
    before, now = read_record(workdir / "meta.json").get("data"), dataset.summary()
    if not before or not (workdir / "checkpoints").exists():
        return
    for what, old, new in (
        ("the text of data.source", before["fingerprint"], now["fingerprint"]),
        ("the tokenizer", before["tokenizer"]["fingerprint"], now["tokenizer"]["fingerprint"]),
    ):
        if old != new:
            raise ConfigError(
                f"{what} has changed since the run in {workdir} started (fingerprint {old[:12]}, now {new[:12]})"
            )


def check_same_origin(workdir: Path, origin: dict[str, Any] | None) -> None:
    """Refuses to start a run again, before its first checkpoint, from other parameters than it was
    started from.

    Raises:
        ConfigError: saying so.
    """
    before = read_record(workdir / "meta.json").get("started_from")
    if origin and before and before["parameters_sha256"] != origin["parameters_sha256"]:
        raise ConfigError(
            f"the parameters in training.start_from={origin['folder']} have changed since the run in {workdir} started"
        )


def check_same_teacher(workdir: Path, teacher: dict[str, Any] | None) -> None:
    """Refuses to continue a run with another teacher than it was started with, wherever that one is
    now.

    Raises:
        ConfigError: saying so.
    """
    before = read_record(workdir / "meta.json").get("teacher")
    if teacher and before and before["parameters_sha256"] != teacher["parameters_sha256"]:
        raise ConfigError(
            f"the parameters of objective.distillation.teacher={teacher['folder']} are not those that the run in {workdir} "
            f"was started with (sha256 {before['parameters_sha256'][:12]}, now {teacher['parameters_sha256'][:12]})"
        )


def alike(executor: str, other: str, platform_name: str) -> bool:
    """Whether two executors compute the same numbers, so that one may go on with what the other
    began and their runs compare.
    """
    return executor == other or (platform_name == "cpu" and {executor, other} == {"alone", "map"})


def check_same_executor(workdir: Path, executor: str) -> None:
    """Refuses to continue a run with another executor than it was started with, unless both compute
    the same numbers.

    Raises:
        ConfigError: saying which one it was.
    """
    before = read_record(workdir / "meta.json").get("executor", executor)
    if any((workdir / "checkpoints").glob("[0-9]*")) and not alike(before, executor, jax.default_backend()):
        raise ConfigError(
            f"the run in {workdir} was trained {describe_executor(before)} so far, and cannot go on "
            f"{describe_executor(executor)}: the two round differently"
        )


def describe_executor(executor: str) -> str:
    """In words."""
    return {"alone": "alone", "map": "in a population, by map", "vmap": "in a population, by vmap"}.get(
        executor, executor
    )


def command(workdir: Path, executor: str) -> str:
    """What trains the run again, with the same rounding."""
    if executor == "vmap":
        return f"python -m zoo.cli.sweeps.population --executor=vmap FOLDER, in which config.json is {workdir / 'config.json'}"
    return f"python train.py --config={workdir / 'config.json'} --workdir=WORKDIR"


def write_records(
    workdir: Path,
    config: ResolvedConfig,
    dataset: data.TextDataset,
    counted: cost.Cost,
    step: int,
    executor: str,
    runs: dict[str, dict[str, Any]],
) -> None:
    """Writes config.json, meta.json and the tokenizer; a run that goes on adds with what it does so
    to the record of its start.

    Args:
        workdir: where they go.
        config: resolved.
        dataset, counted: of the run.
        step: updates that it continues from.
        executor: how its steps are computed (`zoo.training.executor`).
        runs: the other runs that this one is made with, by what they are to it.
    """
    write_json(workdir / "config.json", configs.to_plain(config))
    before = read_record(workdir / "meta.json")
    if step and before:
        again = {"step": step, "executor": executor, **conditions()}
        write_json(workdir / "meta.json", before | {"resumed": [*before.get("resumed", []), again]})
        return
    write_json(
        workdir / "meta.json",
        {
            "identity": configs.identity(config),
            "executor": executor,
            **conditions(),
            "data": dataset.summary(),
            "parameters": counted.parameters,
            "flops_per_token": counted.flops_per_token,
            "command": command(workdir, executor),
            "arguments": sys.argv[1:],
            **runs,
        },
    )
    dataset.tokenizer.save(workdir)
