"""From a config to a run that is ready to train, in three steps: check, load, start.

Each step returns what the next one needs:

* `check`: checks the config, the run's folder and the runs that it refers to, and locks the folder.
  Does no device work, and reads data only if the vocabulary size or the number of classes is
  `auto`.
* `load`: loads the data and the tokenizer; makes the model and the objective.
* `start`: makes or restores the state, writes the records and opens the files, given a program.
"""

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import ml_collections
from flax import nnx
from jax.sharding import Mesh

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.layers.platform import Platform
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.parameter_groups import group_sizes
from zoo.objectives import Objective, make_objective
from zoo.objectives.attention_kernels import LayerKernel, attention_kernels, kernel_lines
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.layer_transfer import read_layers
from zoo.training.checkpoints.upcycling import upcycles
from zoo.training.checkpoints.warm_start import (
    check_same_tokenizer,
    check_start_from,
    check_teacher,
    read_weights,
    replaceable_parts,
)
from zoo.training.dynamics import DynamicsFile
from zoo.training.evaluation.held_out import Dataset
from zoo.training.evaluation.translation_evaluation import TranslationEvaluator
from zoo.training.frozen_features import precompute_features
from zoo.training.mesh import described_axes, make_mesh, undivided_dimensions
from zoo.training.records.ancestry import seen_tokens
from zoo.training.records.extension import Extension, record_extension
from zoo.training.records.metrics_file import MetricsFile
from zoo.training.records.resume_checks import (
    check_checkpoints,
    check_curves,
    check_same_data,
    check_same_executor,
    check_same_origin,
    check_same_run,
    check_same_teacher,
    check_unseen_text,
    recorded_rows_from,
    restore_config,
    warnings_of,
)
from zoo.training.records.run_folder import RunFolder
from zoo.training.records.run_record import kernel_entries, parameters_sha256, write_run_record
from zoo.training.records.status_file import StatusFile
from zoo.training.records.trackers import RunTrackers, check_trackers
from zoo.training.runtime.device_memory import check_memory
from zoo.training.runtime.device_peaks import ComputeRate
from zoo.training.runtime.folder_lock import lock_run_folder
from zoo.training.runtime.platform_check import check_platform
from zoo.training.runtime.processes import is_main_process
from zoo.training.state import State, constrained, least_memory, shardings_of
from zoo.training.step import Program
from zoo.training.training_run import Progress, RunFiles, TrainingRun
from zoo.training.update import Constants


@dataclass(frozen=True)
class RunRequest:
    """A run that is to be trained or resumed.

    Attributes:
        config: the config as given, not resolved yet.
        workdir: the run's folder.
        log: called with each line of console output.
    """

    config: ml_collections.ConfigDict
    workdir: Path
    log: Callable[[str], None] = print


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The result of `check`.

    Attributes:
        request: the run.
        config: the resolved config.
        executor: name of the executor that computes its steps (`zoo.training.executor`).
        folder: the content of its folder, read under the lock.
        records: where this process writes the run's records: the run's folder in the main process,
            elsewhere a temporary folder.
        status: the run's status.json.
        final_status: the final status of a run that is done already, else None.
        extension: how `training.steps` grows, if the run is to be trained longer.
    """

    request: RunRequest
    config: ResolvedConfig
    executor: str
    folder: RunFolder
    records: Path
    status: StatusFile
    final_status: dict[str, Any] | None
    extension: Extension | None


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The result of `load`.

    Attributes:
        checked: the run.
        mesh: the devices.
        dataset: the data, with the tokenizer.
        model: the abstract model.
        objective: the objective of this model.
        rows_from: see `Platform`; a resumed run keeps that of its start.
        translation: scores translations; None except for translation.
    """

    checked: Checked
    mesh: Mesh
    dataset: Dataset
    model: nnx.Module
    objective: Objective
    rows_from: int
    translation: TranslationEvaluator | None


@dataclass(frozen=True)
class Started:
    """A run that is ready to train, and the state to train from."""

    run: TrainingRun
    state: State


def check(request: RunRequest, executor: str, resources: contextlib.ExitStack) -> Checked:
    """Checks a config, its folder and the runs that it refers to; locks the folder.

    Args:
        request: the run.
        executor: name of the executor that computes its steps.
        resources: releases the lock when it is closed.

    Raises:
        ConfigError: a bad config, a group without parameters, a folder that is in use, belongs to
            another run or has lost records, or a run to start from that is missing.
    """
    workdir = request.workdir
    check_trackers(configs.resolve(request.config).training.trackers)
    config = data.resolve_with_data(request.config)
    group_sizes(config)  # Refuses groups without parameters.
    # Nothing is made, not even the lock, for a run whose related runs are missing.
    unlocked = RunFolder(workdir)
    if config.training.start_from and not unlocked.steps:  # A resumed run reads nothing of that run.
        check_start_from(config)
    if config.objective.distillation.teacher and unlocked.final_status is None:
        check_teacher(config)
    if is_main_process():
        records = workdir
        resources.callback(lock_run_folder(workdir).close)
    else:
        records = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="zoo-")))
    folder = RunFolder(workdir)
    done = folder.final_status
    if is_main_process():
        restore_config(folder, config, request.log)
    if extension := check_same_run(folder, config):
        check_teacher(config)
        done = None
    if done is None:
        check_checkpoints(folder)
        check_curves(folder)
        check_same_executor(folder, executor)
    for line in warnings_of(folder, config):
        request.log(line)
    if done is not None:
        request.log(f"{workdir} is done already: {done['step']} steps")
    return Checked(
        request=request,
        config=config,
        executor=executor,
        folder=folder,
        records=records,
        status=StatusFile(workdir, records, config.training.steps, request.log),
        final_status=done,
        extension=extension,
    )


def load(checked: Checked, datasets: data.SharedDatasets) -> Loaded:
    """Loads the data and makes model and objective.

    Args:
        checked: the run.
        datasets: those of the runs that it is trained with.

    Raises:
        ConfigError: devices, tokenizer, text or a package do not fit the config or the run.
        DataError: bad content of data.
    """
    config = checked.config
    mesh = make_mesh(config)
    check_platform(config)
    dataset = datasets.load(config)
    teacher = config.objective.distillation.teacher
    check_same_tokenizer(teacher, "objective.distillation.teacher", dataset.tokenizer)
    model, objective = make_model(config), make_objective(config, dataset.tokenizer)
    if teacher:
        check_platform(configs.teacher_config(config))
    translation = None
    if isinstance(dataset, data.TranslationDataset):
        translation = TranslationEvaluator(config, dataset, model, checked.records)
    check_same_data(checked.folder, dataset)
    if not checked.folder.steps:
        check_unseen_text(config, dataset)
    # Only ELMo's softmax uses token ids, and task models do not have it.
    reads_ids = config.model.architecture != "elmo" or config.objective.kind not in TASKS
    if reads_ids and not checked.folder.steps:
        check_same_tokenizer(config.training.start_from, "training.start_from", dataset.tokenizer)
    return Loaded(
        checked=checked,
        mesh=mesh,
        dataset=dataset,
        model=model,
        objective=objective,
        rows_from=recorded_rows_from(checked.folder),
        translation=translation,
    )


def start(loaded: Loaded, program: Program) -> Started:
    """Makes or restores the state, writes the records and opens the files of a run.

    Args:
        loaded: the run.
        program: the program of this run, or of one with the same `zoo.config.program_key`.

    Raises:
        ConfigError: the run does not fit into the memory of its devices, or is not the one that was
            started in its folder.
    """
    checked, dataset = loaded.checked, loaded.dataset
    config, folder, log = checked.config, checked.folder, checked.request.log
    size = cost.summary(config)
    kernels = attention_kernels(config, Platform.here()._replace(rows_from=loaded.rows_from))
    for line in startup_summary(checked.request.config, size, dataset, loaded.mesh, kernels, folder.path):
        log(line)
    for line in [*dataset.summary().get("warnings", []), *undivided_dimensions(config, loaded.mesh)]:
        log(f"warning    {line}")
    check_memory(least_memory(config, program.abstract_state, loaded.mesh))
    constants = program.constants(config.seed, config)
    teacher = _teacher_record(config, constants)
    check_same_teacher(folder, teacher)
    checkpoints = Checkpoints(folder.path / "checkpoints", config.training.keep_checkpoints, log)
    state, progress, origin = restore_or_initialise(config, program, checkpoints, dataset.labels, log)
    check_same_origin(folder, origin)
    checked.status.step, meta = progress.step, folder.meta
    if checked.extension:
        meta = record_extension(checked.records, meta, config, checked.extension)
        log(f"trained longer: {checked.extension}")
    related_runs = {role: record for role, record in (("started_from", origin), ("teacher", teacher)) if record}
    # A run that was stopped before its first update has a checkpoint of step 0.
    resumed = meta if folder.steps else {}
    entries = (kernel_entries(config, kernels) if not resumed else {}) | related_runs
    write_run_record(checked.records, config, dataset, size, progress.step, checked.executor, entries, resumed)
    checked.status.write_running()
    run = TrainingRun(
        config=config,
        program=program,
        dataset=precompute_features(program, dataset, state, constants, log),
        constants=constants,
        progress=progress,
        files=_open_files(checked, checkpoints, progress),
        compute=_compute_rate(config, size, loaded.mesh),
        translation=loaded.translation,
        log=log,
        on_divergence=lambda error: checked.status.write_failure(error, progress.step),
    )
    log("compiling ...")
    return Started(run, state)


def startup_summary(
    config: ml_collections.ConfigDict,
    size: cost.Cost,
    dataset: data.TextDataset,
    mesh: Mesh,
    kernels: list[LayerKernel],
    workdir: Path,
) -> list[str]:
    """Returns lines that say what is trained, on which data and devices, and where it is written.

    Args:
        config: as given, not resolved; the lines name the fields that differ from the defaults.
        size: parameters and FLOPs of the model.
        dataset: data of the run.
        mesh: the devices.
        kernels: the attention kernels of the layers.
        workdir: the run's folder.
    """
    changed = ", ".join(
        f"{path.removeprefix('model.')}={value}"
        for path, (_, value) in configs.difference(configs.default(), config).items()
    )
    parameters = ", ".join(f"{name} {count:,}" for name, count in size.parameters.items())
    devices, axes = jax.devices(), described_axes(mesh.shape)
    return [
        f"config     {changed or 'all defaults'}",
        f"parameters {parameters}; {size.flops_per_token / 1e6:,.2f} MFLOP per token",
        f"data       {dataset.description}: {dataset.train_tokens:,} training tokens, "
        f"{dataset.validation_tokens:,} held out",
        f"devices    {len(devices)} x {devices[0].device_kind}, mesh {axes}",
        *(f"tokens     {line}" for line in dataset.changed_text),
        *(f"attention  {line}" for line in kernel_lines(kernels)),
        f"workdir    {workdir}",
    ]


def restore_or_initialise(
    config: ResolvedConfig,
    program: Program,
    checkpoints: Checkpoints,
    labels: tuple[str, ...],
    log: Callable[[str], None],
) -> tuple[State, Progress, dict[str, Any] | None]:
    """Restores the newest intact checkpoint, or makes the state that a run starts from.

    Args:
        config: the resolved config. `training.start_from` names a run whose weights replace the
            initial values.
        program: the run's program.
        checkpoints: the run's checkpoints.
        labels: names of the classes in the run's data.
        log: called with each line of console output.

    Returns:
        (state, progress, record of the run that a new run started from, if any).
    """
    restored = checkpoints.restore_latest(program.abstract_state)
    if restored is not None:
        state, metadata = restored
        progress = Progress.from_checkpoint(int(state["step"]), metadata)
        log(f"continuing from step {progress.step} of {config.training.steps}")
        return state, progress, None
    state = program.initial_state(config.seed)
    if not (folder := config.training.start_from):
        return state, Progress(), None
    replaceable = replaceable_parts(config, labels)
    if config.training.start_layers or upcycles(config):
        weights, step = read_layers(config, program.abstract_state, replaceable)
    else:
        weights, step = read_weights(Path(folder), program.abstract_state, replaceable=replaceable)
    fresh = _missing(state["params"], weights["params"])
    tokens = seen_tokens(Path(folder), step)
    log(
        f"starting from the parameters of {folder} at step {step}, which have seen "
        f"{'an unknown number of' if tokens is None else f'{tokens:,}'} tokens"
        + (f"; fresh values for {', '.join(fresh)}" if fresh else "")
    )
    origin = {"folder": folder, "step": step, "parameters_sha256": parameters_sha256(weights["params"])}
    origin |= {} if tokens is None else {"tokens": tokens}
    state = state | {name: _replaced(state[name], values) for name, values in weights.items()}
    if config.optimizer.constraint != "none":
        of_params = shardings_of(program.abstract_state["params"])
        constrain = jax.jit(partial(constrained, config, program.model), out_shardings=of_params)
        state |= {"params": constrain(state["params"])}
    return state, Progress(), origin


def _missing(params: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Returns the paths of the largest parts of the parameters of which nothing is given."""
    found = []
    for name, part in params.items():
        if name not in given:
            found.append(name)
        elif isinstance(part, Mapping):
            found += [f"{name}/{inner}" for inner in _missing(part, given[name])]
    return found


def _replaced(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns values with those that are given in their place, at any depth."""
    found = dict(values)
    for name, value in given.items():
        found[name] = _replaced(values[name], value) if isinstance(value, Mapping) else value
    return found


def _teacher_record(config: ResolvedConfig, constants: Constants) -> dict[str, Any] | None:
    if not (folder := config.objective.distillation.teacher):
        return None
    return {"folder": folder, "parameters_sha256": parameters_sha256(constants["teacher"]["params"])}


def _compute_rate(config: ResolvedConfig, size: cost.Cost, mesh: Mesh) -> ComputeRate:
    kind = mesh.devices.flat[0].device_kind
    return ComputeRate.on(size.flops_per_token, kind, mesh.size, config.model.dtype)


def _open_files(checked: Checked, checkpoints: Checkpoints, progress: Progress) -> RunFiles:
    """Opens metrics.jsonl and dynamics.jsonl for a run that goes on from `progress`."""
    config, step = checked.config, progress.step
    metrics = MetricsFile(checked.records / "metrics.jsonl", step, progress.evaluated)
    if is_main_process():
        request = checked.request
        metrics.trackers.append(RunTrackers(config, request.workdir, step, metrics.kept, metrics.removed, request.log))
    dynamics = DynamicsFile(checked.records / "dynamics.jsonl", step, config.training.dynamics_every, progress.losses)
    return RunFiles(checkpoints, metrics, dynamics)
