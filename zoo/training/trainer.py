"""One run on its way from a config to a finished folder: checks, records, state, and how it ended."""

import contextlib
import errno
import fcntl
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import ml_collections

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.errors import ConfigError, Diverged, Preempted, ZooError
from zoo.files import cache_directory, write_json
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.layer_transfer import read_layers
from zoo.training.checkpoints.warm_start import (
    check_start,
    check_teacher,
    check_tokenizer,
    heads_of_its_own,
    read_weights,
)
from zoo.training.dynamics import DynamicsFile
from zoo.training.frozen_features import with_features
from zoo.training.mesh import make_mesh, rows_per_device_group
from zoo.training.records import resume_checks, run_record
from zoo.training.records.metrics_file import MetricsFile, TrainingClock
from zoo.training.records.trackers import RunTrackers, check_trackers
from zoo.training.runtime.processes import is_main_process
from zoo.training.step import Program
from zoo.training.training_run import Member, Progress
from zoo.training.translation_files import Translations


def use_compilation_cache() -> None:
    """Keeps compiled programs on disk, for later runs and the other arms of a sweep; call before
    the first array is made.

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
    return data.with_num_classes(resolved)


class Attempt:
    """Trains, or continues, a run: `open`, `load`, `begin`, then a loop, then `end`.

    Args:
        config: not resolved yet.
        workdir: the run's folder.
        log: takes lines for people.

    Attributes:
        config, objective, mesh, member: what the loop needs, once they are there.
        outcome: the final status, or what ended it; None while it goes on.
    """

    def __init__(self, config: ml_collections.ConfigDict, workdir: Path, log: Callable[[str], None] = print):
        self._given, self.workdir, self._log = config, workdir, log
        self.outcome: dict[str, Any] | Exception | None = None
        self._status: dict[str, Any] | None = None
        self._progress = Progress()

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Whatever is raised inside ends this run, and no other."""
        try:
            yield
        except Exception as error:
            self.fail(error)

    def open(self, held: contextlib.ExitStack, executor: str) -> None:
        """Checks the config and takes the folder until `held` ends; a run that is done ends here.

        Raises:
            ConfigError: a bad config, or a folder that belongs to another run.
        """
        check_trackers(configs.resolve(self._given).training.trackers)
        self.config = config = resolve_with_vocabulary(self._given)
        self._executor = executor
        self._begun = any((self.workdir / "checkpoints").glob("[0-9]*"))
        if not self._begun:  # Later nothing is read of the run that this one started from.
            check_start(config)
        if run_record.read_record(self.workdir / "status.json").get("state") != "done":
            check_teacher(config)
        # Of several processes the first one writes; what the others write beside the checkpoints is
        # thrown away.
        self._records = (
            self.workdir if is_main_process() else Path(held.enter_context(tempfile.TemporaryDirectory(prefix="zoo-")))
        )
        if self._records == self.workdir:
            held.callback(lock(self.workdir).close)
        resume_checks.check_same_run(self.workdir, config)
        if (status := run_record.read_record(self.workdir / "status.json")).get("state") == "done":
            self._log(f"{self.workdir} is done already: {status['step']} steps")
            self.outcome = status
            return
        resume_checks.check_same_executor(self.workdir, executor)
        self._status = {"state": "running", "step": 0, "steps": config.training.steps, "reason": None}

    def load(self) -> None:
        """Loads the data, and makes the objective."""
        config = self.config
        self.mesh = make_mesh(config)
        check_platform(config)
        self._dataset = dataset = data.load(config)
        teacher = config.objective.distillation.teacher
        check_tokenizer(teacher, "objective.distillation.teacher", dataset.tokenizer)
        self.model, self.objective = make_model(config), make_objective(config, dataset.tokenizer)
        if teacher:
            check_platform(configs.teacher_config(config))
        self._translations = (
            Translations(config, dataset, self.model, self._records)
            if isinstance(dataset, data.TranslationDataset)
            else None
        )
        resume_checks.check_same_data(self.workdir, dataset)
        # Of an ELMo only the softmax, which a task has not, knows ids; the rest reads characters.
        if not self._begun and not (config.model.architecture == "elmo" and config.objective.kind in TASKS):
            check_tokenizer(config.training.start_from, "training.start_from", dataset.tokenizer)

    def begin(self, program: Program) -> None:
        """Makes or restores the state, writes the records, and makes `member`."""
        config, log = self.config, self._log
        counted = cost.summary(config)
        for line in describe_start(self._given, counted, self._dataset, self.mesh, self.workdir):
            log(line)
        constants = program.constants(config.seed, config)
        teacher, taught_by = config.objective.distillation.teacher, None
        if teacher:
            taught_by = {
                "folder": teacher,
                "parameters_sha256": run_record.parameters_sha256(constants["teacher"]["params"]),
            }
            resume_checks.check_same_teacher(self.workdir, taught_by)
        checkpoints = Checkpoints(self.workdir / "checkpoints", config.training.keep_checkpoints, log)
        self._state, self._progress, origin = start(config, program, checkpoints, log, self._dataset.labels)
        resume_checks.check_same_origin(self.workdir, origin)
        step = self._status["step"] = self._progress.step
        runs = {name: run for name, run in (("started_from", origin), ("teacher", taught_by)) if run}
        run_record.write_run_record(self._records, config, self._dataset, counted, step, self._executor, runs)
        write_json(self._records / "status.json", self._status)
        rows = rows_per_device_group(self.mesh)
        dataset = with_features(program, self._dataset, self._state, constants, rows, log)
        metrics = MetricsFile(self._records / "metrics.jsonl", step, self._progress.evaluated)
        if is_main_process():
            metrics.trackers.append(RunTrackers(config, self.workdir, step, metrics.kept, metrics.removed, log))
        dynamics = DynamicsFile(
            self._records / "dynamics.jsonl", step, config.training.dynamics_every, self._progress.losses
        )
        self.member = Member(
            config,
            program,
            self.objective,
            dataset,
            constants,
            self._progress,
            checkpoints,
            metrics,
            dynamics,
            self._translations,
            rows,
            log,
            self.fail,
        )
        log("compiling ...")

    def take_state(self) -> Any:
        """The state to train from, once: its memory is the loop's from then on."""
        state, self._state = self._state, None
        return state

    def end(self, state: Any) -> None:
        """Writes down that it is done, with this state, unless it has ended before."""
        if self.outcome is not None:
            return
        status = self._status | {"state": "done", "step": int(state["step"])}
        status["parameters_sha256"] = run_record.parameters_sha256(state["params"])
        write_json(self._records / "status.json", status)
        self._log(f"done: {status['step']} steps in {self._progress.clock.seconds:.1f} s of training")
        self.outcome = status

    def fail(self, error: Exception) -> None:
        """Writes down that it has ended by an error, unless it had ended before; what was only
        asked wrongly leaves no trace.
        """
        if self.outcome is not None:
            return
        if self._status is None or isinstance(error, ConfigError):
            self.outcome = error
            return
        if out_of_space(error):
            free = shutil.disk_usage(self.workdir).free
            reason = " ".join(str(error).split())[:200]
            error = ZooError(
                f"{self.workdir} cannot be written ({free / 1e6:,.0f} MB free): {reason}; what was saved before is untouched, "
                "and the same command continues"
            ).with_traceback(error.__traceback__)
        name = {Diverged: "diverged", Preempted: "preempted"}.get(type(error), "failed")
        reason = str(error) if name != "failed" else f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            write_json(
                self._records / "status.json",
                self._status | {"state": name, "step": self._progress.step, "reason": reason},
            )
        self.outcome = error


def lock(workdir: Path) -> Any:
    """Takes the workdir for this process until it ends, so that two runs never write into each
    other.

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
    kernels = {value for path, value in flatten(config.model).items() if path.endswith("attention.implementation")}
    for kernel in sorted(kernels - {configs.AUTO}):
        if platform_name not in (able := configs.ATTENTION_SUPPORT[kernel].platforms):
            raise ConfigError(
                f"model.attention.implementation={kernel} runs on {' or '.join(able)} only, and this is a {platform_name}"
            )


def describe_start(
    config: ml_collections.ConfigDict, counted: cost.Cost, dataset: data.TextDataset, mesh: Any, workdir: Path
) -> list[str]:
    """The first screen: what runs, on what, with what, and where it goes."""
    changed = ", ".join(
        f"{path.removeprefix('model.')}={value}"
        for path, (_, value) in configs.difference(configs.default(), config).items()
    )
    sizes = ", ".join(f"{name} {count:,}" for name, count in counted.parameters.items())
    devices = jax.devices()
    return [
        f"config     {changed or 'all defaults'}",
        f"parameters {sizes}; {counted.flops_per_token / 1e6:,.2f} MFLOP per token",
        f"data       {dataset.description}: {dataset.train_tokens:,} training tokens, {dataset.validation_tokens:,} held out",
        f"devices    {len(devices)} x {devices[0].device_kind}, mesh "
        + ", ".join(f"{name} {size}" for name, size in mesh.shape.items()),
        f"workdir    {workdir}",
    ]


def out_of_space(error: Exception) -> bool:
    """Whether a write failed for lack of room: as the system says it, or as TensorStore does under
    Orbax.
    """
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or (
        isinstance(error, ValueError) and "RESOURCE_EXHAUSTED" in str(error)
    )


def start(
    config: ResolvedConfig,
    program: Program,
    checkpoints: Checkpoints,
    log: Callable[[str], None],
    labels: tuple[str, ...] = (),
) -> tuple[Any, Progress, dict[str, Any] | None]:
    """Returns the state to train from, how far it is, and which other run it came from, if it is at
    its start.

    The state is the newest sound checkpoint's, or a fresh one, with another run's parameters where
    the config names one.
    """
    restored = checkpoints.restore_latest(program.abstract_state)
    if restored is not None:
        state, beside = restored
        log(f"continuing from step {int(state['step'])} of {config.training.steps}")
        return (
            state,
            Progress(
                int(state["step"]),
                beside["tokens"],
                beside["evaluated"],
                TrainingClock(beside["seconds"]),
                beside.get("losses", []),
            ),
            None,
        )
    state = program.initial_state(config.seed)
    if not (folder := config.training.start_from):
        return state, Progress(), None
    own = heads_of_its_own(config, labels)
    if config.training.start_layers:
        weights, step = read_layers(config, program.abstract_state, own)
    else:
        weights, step = read_weights(Path(folder), program.abstract_state, own=own)
    fresh = [part for part in state["params"] if part not in weights["params"]]
    log(
        f"starting from the parameters of {folder} at step {step}"
        + (f"; fresh values for {', '.join(fresh)}" if fresh else "")
    )
    origin = {"folder": folder, "step": step, "parameters_sha256": run_record.parameters_sha256(weights["params"])}
    return state | {name: state[name] | values for name, values in weights.items()}, Progress(), origin
