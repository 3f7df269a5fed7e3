"""The record of a run in its folder: config.json, meta.json and the tokenizer."""

import datetime
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

import zoo
from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig, check_records, plugins
from zoo.files import write_json
from zoo.layers.platform import Platform
from zoo.models import cost
from zoo.nested import flatten
from zoo.objectives.attention_kernels import LayerKernel, attention_kernels
from zoo.training.records.processor import processor_name
from zoo.training.records.record_faults import (
    MASKS,
    NORMS,
    OF_GROUPS,
    OF_ROWS,
    SHORT_ROWS,
    draws_masks_by_row,
    has_norms_of_groups,
)
from zoo.training.records.threads import USER_THREADS, compute_threads

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "ml-collections", "tokenizers", "numpy")


def parameters_sha256(params: Any) -> str:
    """Returns the sha256 over the paths and bytes of all parameters, sorted by path.

    Collective where parameters are sharded over several processes: every process must call it.
    """
    digest = hashlib.sha256()
    for path, value in sorted(
        (jax.tree_util.keystr(path), value) for path, value in jax.tree_util.tree_leaves_with_path(params)
    ):
        digest.update(path.encode())
        if isinstance(value, jax.Array) and not value.is_fully_addressable and not value.is_fully_replicated:
            value = multihost_utils.process_allgather(value, tiled=True)
        digest.update(np.ascontiguousarray(jax.device_get(value)).data)
    return digest.hexdigest()


def git_commit() -> str | None:
    """Returns the checked-out commit, with "-dirty" if files changed; None outside a checkout."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            # Takes no lock, which a run that is killed at this moment would leave behind.
            env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def environment() -> dict[str, Any]:
    """Returns the environment of a program: versions, devices, processor, commit of the code."""
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
            "cpu_threads": compute_threads(),
        },
        "processor": processor_name(),
        "commit": git_commit(),
    }


def _origin() -> dict[str, str]:
    """Returns the date and zoo's version, which change no result."""
    now = datetime.datetime.now(datetime.UTC)
    return {"started": now.isoformat(timespec="seconds"), "zoo": zoo.__version__}


def training_command(workdir: Path, executor: str) -> str:
    """Returns the command that trains the run again with the same rounding."""
    config = workdir / "config.json"
    threads = "".join(f"{name}={os.environ[name]} " for name in USER_THREADS if name in os.environ)
    if executor == "vmap":
        return f"{threads}python -m zoo.cli.sweeps.population --executor=vmap FOLDER, in which config.json is {config}"
    return f"{threads}python train.py --config={config} --workdir=WORKDIR"


def kernel_entries(config: ResolvedConfig, kernels: Sequence[LayerKernel]) -> dict[str, Any]:
    """Returns the entries of meta.json about the kernels of attention of a new run.

    Args:
        config: the resolved config.
        kernels: those that the run computes.
    """
    found: dict[str, Any] = {"attention_kernels": [each._asdict() for each in kernels]}
    here = Platform.here()
    if here.name == "cpu" and here.devices == 1:
        may_differ = any(each.kernel.endswith("einsum") for each in kernels)
        found[SHORT_ROWS] = may_differ and attention_kernels(config, here._replace(rows_from=0)) != list(kernels)
    return found


def write_run_record(
    folder: Path,
    config: ResolvedConfig,
    dataset: data.TextDataset,
    size: cost.Cost,
    step: int,
    executor: str,
    entries: dict[str, Any],
    before: dict[str, Any],
) -> None:
    """Writes config.json, meta.json, the texts of plug-ins and the tokenizer.

    A resumed run appends its software and hardware to the "resumed" list of meta.json and leaves
    the rest as it was at the start, except for the identity, which is that of config.json as it is
    written now.

    Args:
        folder: where the files go.
        config: the resolved config.
        dataset: data of the run.
        size: parameters and FLOPs of the model.
        step: updates done before.
        executor: name of the executor that computes the steps (`zoo.training.executor`).
        entries: what else a new record has: kernels of attention (`kernel_entries`) and other runs by
            role, "started_from" and "teacher".
        before: content of meta.json of a run that is resumed; empty for a new run.
    """
    plugins.store(folder, config.plugins)
    check_records.store(folder, config.plugins)
    write_json(folder / "config.json", configs.to_plain(config))
    flat = flatten(config)
    masks = {MASKS: OF_ROWS} if draws_masks_by_row(flat) else {}
    norms = {NORMS: OF_GROUPS} if has_norms_of_groups(flat) else {}
    if before:
        resumption = {"step": step, "executor": executor, **_origin(), **environment(), **masks}
        resumed = [*before.get("resumed", []), resumption]
        write_json(folder / "meta.json", before | {"identity": configs.identity(config), "resumed": resumed})
        return
    write_json(
        folder / "meta.json",
        {
            "identity": configs.identity(config),
            "executor": executor,
            **_origin(),
            **environment(),
            **masks,
            **norms,
            # Of a run whose meta.json was lost, this is not the record of its start.
            **({"written_again": step} if step else {}),
            "data": dataset.summary(),
            "parameters": size.parameters,
            "flops_per_token": size.flops_per_token,
            "command": training_command(folder, executor),
            "arguments": sys.argv[1:],
            **({"plugins": plugins.record(config.plugins)} if config.plugins else {}),
            **entries,
        },
    )
    dataset.tokenizer.save(folder)
