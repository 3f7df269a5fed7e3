"""One run from a config to a finished folder: checks, records, state, the loop, and how it ended."""

import contextlib
import errno
import fcntl
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import ml_collections
import numpy as np
from jax.experimental import multihost_utils

from zoo import config as configs
from zoo import data
from zoo.analysis import cost
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.data.published import read_published
from zoo.errors import ConfigError, Diverged, Preempted, ZooError
from zoo.files import cache_directory, read_json, write_json
from zoo.objectives import make_objective
from zoo.training.checkpoint import Checkpoints
from zoo.training.dynamics import DynamicsFile
from zoo.training.features import with_features
from zoo.training.loop import Progress, StopSignal, train
from zoo.training.mesh import make_mesh, rows_per_device_group
from zoo.training.metrics import Clock, MetricsFile
from zoo.training.processes import is_first
from zoo.training.start import check_start, check_teacher, check_tokenizer, heads_of_its_own, read_weights
from zoo.training.start_layers import read_layers
from zoo.training.step import Program, make_program
from zoo.training.trackers import Tracked, check_trackers
from zoo.training.translations import Translations

PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "ml-collections", "tokenizers", "numpy")


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, for later runs and the other arms of a sweep; call before the first array is made.

    What JAX's own variables in the environment say about it counts more.
    """
    if not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
    if not os.environ.get("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def resolve_with_vocabulary(config: ml_collections.ConfigDict) -> ResolvedConfig:
    """Resolves a config, asking the data for the vocabulary's size where only the data knows it."""
    resolved = configs.resolve(config)
    if resolved.model.vocab_size == configs.AUTO:
        resolved = configs.resolve(config, data.vocabulary_size(resolved))
    return data.with_labels(resolved)


def parameters_sha256(params: Any) -> str:
    """Returns the sha256 over all parameters' paths and bytes, in the order of their paths."""
    digest = hashlib.sha256()
    for path, value in sorted((jax.tree_util.keystr(path), value) for path, value in jax.tree_util.tree_leaves_with_path(params)):
        digest.update(path.encode())
        if isinstance(value, jax.Array) and not value.is_fully_addressable and not value.is_fully_replicated:
            value = multihost_utils.process_allgather(value, tiled=True)  # Its parts lie with several processes, all of which come here.
        digest.update(np.ascontiguousarray(jax.device_get(value)).data)
    return digest.hexdigest()


def git_commit() -> str | None:
    """Returns the commit that the code stands at, with "-dirty" if it was changed, or None outside a checkout."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
                              capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def lock(workdir: Path) -> Any:
    """Takes the workdir for this process until it ends, so that two runs never write into each other.

    Raises:
        ConfigError: if another process holds it, or the folder cannot be written.
    """
    if (workdir / "experiment.json").exists():
        raise ConfigError(f"--workdir {workdir} is the folder of a sweep; a run needs one of its own")
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        file = (workdir / ".lock").open("a+")
    except OSError as error:
        raise ConfigError(f"--workdir {workdir} cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        raise ConfigError(f"--workdir {workdir} is in use by {file.read().strip() or 'another process'}") from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {platform.node()}")
    file.flush()
    return file


def check_platform(config: ResolvedConfig) -> None:
    """Refuses an attention kernel that does not run here.

    Raises:
        ConfigError: naming the kernel and the platform.
    """
    platform_name = jax.default_backend()
    kernels = {value for path, value in configs.flatten(config.model).items() if path.endswith("attention.kernel")}
    for kernel in sorted(kernels - {configs.AUTO}):
        if platform_name not in (able := configs.ATTENTION_KERNELS[kernel]["platforms"]):
            raise ConfigError(f"model.attention.kernel={kernel} runs on {' or '.join(able)} only, and this is a {platform_name}")


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
    changed = configs.difference(configs.from_flat(configs.result_relevant(before)), configs.from_flat(configs.result_relevant(config)))
    # That a teacher has only moved is seen from its parameters.
    if before.objective.distillation.teacher and config.objective.distillation.teacher:
        changed.pop("objective.distillation.teacher", None)
    if "data.tokenizer.path" in changed and same_tokenizer(workdir, config):
        del changed["data.tokenizer.path"]
    if changed:
        raise ConfigError([f"--workdir {workdir} holds a run with {field}={old!r}, not {new!r}; continue it as it is, "
                           "or take another --workdir"
                           for field, (old, new) in changed.items()])


def same_tokenizer(workdir: Path, config: ResolvedConfig) -> bool:
    """Whether the published tokenizer that a config names is the run's own: a copy, or the original that was moved."""
    if config.data.tokenizer.kind != "file" or not (workdir / "tokenizer.json").is_file():
        return False
    return read_published(config.data.tokenizer.path).fingerprint == data.load_tokenizer(workdir).fingerprint


def describe_start(config: ml_collections.ConfigDict, counted: cost.Cost, dataset: data.Dataset, mesh: Any, workdir: Path) -> list[str]:
    """The first screen: what runs, on what, with what, and where it goes."""
    changed = ", ".join(f"{path.removeprefix('model.')}={value}"
                        for path, (_, value) in configs.difference(configs.default(), config).items())
    sizes = ", ".join(f"{name} {count:,}" for name, count in counted.parameters.items())
    devices = jax.devices()
    return [
        f"config     {changed or 'all defaults'}",
        f"parameters {sizes}; {counted.flops_per_token / 1e6:,.2f} MFLOP per token",
        f"data       {dataset.description}: {dataset.train_tokens:,} training tokens, {dataset.validation_tokens:,} held out",
        f"devices    {len(devices)} x {devices[0].device_kind}, mesh " + ", ".join(f"{name} {size}" for name, size in mesh.shape.items()),
        f"workdir    {workdir}",
    ]


def run(config: ml_collections.ConfigDict, workdir: Path, log: Callable[[str], None] = print) -> dict[str, Any]:
    """Trains a config in `workdir`, from the start or from the checkpoint that is there.

    Returns:
        The final status, as in status.json.

    Raises:
        ConfigError: a bad config, or a workdir that belongs to another run; no record of any run was touched.
        DataError, Diverged, Preempted: as they say; status.json records it.
    """
    check_trackers(configs.resolve(config).training.trackers)
    use_compilation_cache()
    resolved = resolve_with_vocabulary(config)
    begun = any((workdir / "checkpoints").glob("[0-9]*"))
    if not begun:  # Later nothing is read of the run that this one started from.
        check_start(resolved)
    if read_record(workdir / "status.json").get("state") != "done":
        check_teacher(resolved)
    with contextlib.ExitStack() as held:
        # Of several processes the first one writes; what the others write beside the checkpoints is thrown away.
        records = workdir if is_first() else Path(held.enter_context(tempfile.TemporaryDirectory(prefix="zoo-")))
        if records == workdir:
            held.callback(lock(workdir).close)
        check_same_run(workdir, resolved)
        status_file = records / "status.json"
        if (status := read_record(workdir / "status.json")).get("state") == "done":
            log(f"{workdir} is done already: {status['step']} steps")
            return status
        status = {"state": "running", "step": 0, "steps": resolved.training.steps, "reason": None}
        progress = Progress()
        try:
            mesh = make_mesh(resolved)
            check_platform(resolved)
            dataset = data.load(resolved)
            teacher = resolved.objective.distillation.teacher
            check_tokenizer(teacher, "objective.distillation.teacher", dataset.tokenizer)
            objective = make_objective(resolved, dataset.tokenizer)
            if teacher:
                check_platform(configs.teacher_config(resolved))
            translations = Translations(resolved, dataset, objective, records) if isinstance(dataset, data.Pairs) else None
            check_same_data(workdir, dataset)
            # Of an ELMo only the softmax, which a task has not, knows ids; the rest reads characters.
            if not begun and not (resolved.model.architecture == "elmo" and resolved.objective.kind in TASKS):
                check_tokenizer(resolved.training.start_from, "training.start_from", dataset.tokenizer)
            counted = cost.summary(resolved)
            for line in describe_start(config, counted, dataset, mesh, workdir):
                log(line)
            program = make_program(resolved, objective, mesh)
            taught_by = None
            if teacher:
                values = program.constants(resolved.seed)["teacher"]["params"]
                taught_by = {"folder": teacher, "parameters_sha256": parameters_sha256(values)}
                check_same_teacher(workdir, taught_by)
            checkpoints = Checkpoints(workdir / "checkpoints", resolved.training.keep_checkpoints, log)
            state, progress, origin = start(resolved, program, checkpoints, log, dataset.labels)
            check_same_origin(workdir, origin)
            status["step"] = progress.step
            write_records(records, resolved, dataset, counted, progress.step,
                          {name: run for name, run in (("started_from", origin), ("teacher", taught_by)) if run})
            write_json(status_file, status)
            rows = rows_per_device_group(mesh)
            dataset = with_features(program, dataset, state, program.constants(resolved.seed), rows, log)
            metrics = MetricsFile(records / "metrics.jsonl", status["step"], progress.evaluated)
            if is_first():
                metrics.trackers.append(Tracked(resolved, workdir, status["step"], metrics.kept, metrics.dropped, log))
            dynamics = DynamicsFile(records / "dynamics.jsonl", status["step"], resolved.training.dynamics_every, progress.losses)
            log("compiling ...")
            with StopSignal() as stop:  # Until the last save is on disk: a repeated signal must not cut it off.
                try:
                    state = train(resolved, objective, program, dataset, state, progress, checkpoints, metrics, stop, log, rows,
                                  translations, dynamics)
                finally:
                    metrics.close()
                    dynamics.close()
                    checkpoints.close()
            status |= {"state": "done", "step": int(state["step"]), "parameters_sha256": parameters_sha256(state["params"])}
            write_json(status_file, status)
            log(f"done: {status['step']} steps in {progress.clock.seconds:.1f} s of training")
            return status
        except ConfigError:
            raise
        except Exception as error:
            if out_of_space(error):
                free = shutil.disk_usage(workdir).free
                error = ZooError(f"{workdir} cannot be written ({free / 1e6:,.0f} MB free): {' '.join(str(error).split())[:200]}; what was "
                                 "saved before is untouched, and the same command continues")
            name = {Diverged: "diverged", Preempted: "preempted"}.get(type(error), "failed")
            reason = str(error) if name != "failed" else f"{type(error).__name__}: {error}"
            with contextlib.suppress(OSError):
                write_json(status_file, status | {"state": name, "step": progress.step, "reason": reason})
            raise error


def out_of_space(error: Exception) -> bool:
    """Whether a write failed for lack of room: as the system says it, or as TensorStore does under Orbax."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or (
        isinstance(error, ValueError) and "RESOURCE_EXHAUSTED" in str(error))


def read_record(path: Path) -> dict[str, Any]:
    """Reads a JSON object that may be missing or, after a crash of the machine, empty; then it is an empty one."""
    try:
        content = read_json(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def check_same_data(workdir: Path, dataset: data.Dataset) -> None:
    """Refuses to use a run with other text, or other tokens for it, than it was started with.

    Raises:
        ConfigError: saying which of the two has changed.
    """
    before, now = read_record(workdir / "meta.json").get("data"), dataset.summary()
    if not before or not (workdir / "checkpoints").exists():
        return
    for what, old, new in (("the text of data.source", before["fingerprint"], now["fingerprint"]),
                           ("the tokenizer", before["tokenizer"]["fingerprint"], now["tokenizer"]["fingerprint"])):
        if old != new:
            raise ConfigError(f"{what} has changed since the run in {workdir} started (fingerprint {old[:12]}, now {new[:12]})")


def check_same_origin(workdir: Path, origin: dict[str, Any] | None) -> None:
    """Refuses to start a run again, before its first checkpoint, from other parameters than it was started from.

    Raises:
        ConfigError: saying so.
    """
    before = read_record(workdir / "meta.json").get("started_from")
    if origin and before and before["parameters_sha256"] != origin["parameters_sha256"]:
        raise ConfigError(f"the parameters in training.start_from={origin['folder']} have changed since the run in {workdir} started")


def check_same_teacher(workdir: Path, teacher: dict[str, Any] | None) -> None:
    """Refuses to continue a run with another teacher than it was started with, wherever that one is now.

    Raises:
        ConfigError: saying so.
    """
    before = read_record(workdir / "meta.json").get("teacher")
    if teacher and before and before["parameters_sha256"] != teacher["parameters_sha256"]:
        raise ConfigError(f"the parameters of objective.distillation.teacher={teacher['folder']} are not those that the run in {workdir} "
                          f"was started with (sha256 {before['parameters_sha256'][:12]}, now {teacher['parameters_sha256'][:12]})")


def conditions() -> dict[str, Any]:
    """What a program runs with: versions, devices, the code's commit."""
    devices = jax.devices()
    return {
        "versions": {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}},
        "device": {"platform": devices[0].platform, "kind": devices[0].device_kind, "count": len(devices),
                   "cpu_threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()},
        "commit": git_commit(),
    }


def write_records(
    workdir: Path, config: ResolvedConfig, dataset: data.Dataset, counted: cost.Cost, step: int, runs: dict[str, dict[str, Any]]
) -> None:
    """Writes config.json, meta.json and the tokenizer; a run that goes on adds with what it does so to the record of its start.

    `runs` are the other runs that this one is made with, by what they are to it.
    """
    write_json(workdir / "config.json", configs.to_plain(config))
    before = read_record(workdir / "meta.json")
    if step and before:
        write_json(workdir / "meta.json", before | {"resumed": [*before.get("resumed", []), {"step": step, **conditions()}]})
        return
    write_json(workdir / "meta.json", {
        "identity": configs.identity(config),
        **conditions(),
        "data": dataset.summary(),
        "parameters": counted.parameters,
        "flops_per_token": counted.flops_per_token,
        "command": f"python train.py --config={workdir / 'config.json'} --workdir=WORKDIR",
        "arguments": sys.argv[1:],
        **runs,
    })
    dataset.tokenizer.save(workdir)


def start(
    config: ResolvedConfig, program: Program, checkpoints: Checkpoints, log: Callable[[str], None], labels: tuple[str, ...] = ()
) -> tuple[Any, Progress, dict[str, Any] | None]:
    """Returns the state to train from, how far it is, and which other run it came from, if it is at its start.

    The state is the newest sound checkpoint's, or a fresh one, with another run's parameters where the config names one.
    """
    restored = checkpoints.restore_latest(program.abstract_state)
    if restored is not None:
        state, beside = restored
        log(f"continuing from step {int(state['step'])} of {config.training.steps}")
        return state, Progress(int(state["step"]), beside["tokens"], beside["evaluated"], Clock(beside["seconds"]),
                               beside.get("losses", [])), None
    state = program.initial_state(config.seed)
    if not (folder := config.training.start_from):
        return state, Progress(), None
    own = heads_of_its_own(config, labels)
    if config.training.start_layers:
        weights, step = read_layers(config, program.abstract_state, own)
    else:
        weights, step = read_weights(Path(folder), program.abstract_state, own=own)
    fresh = [part for part in state["params"] if part not in weights["params"]]
    log(f"starting from the parameters of {folder} at step {step}" + (f"; fresh values for {', '.join(fresh)}" if fresh else ""))
    origin = {"folder": folder, "step": step, "parameters_sha256": parameters_sha256(weights["params"])}
    return state | {name: state[name] | values for name, values in weights.items()}, Progress(), origin
