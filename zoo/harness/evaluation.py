"""Evaluates a run on tasks of lm-evaluation-harness and stores the results beside the run."""

import importlib.metadata
import logging
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import zoo
from zoo.errors import ConfigError, DataError, did_you_mean, shown
from zoo.files import read_object_or_empty, write_json
from zoo.harness.scoring import ROWS
from zoo.harness.task_names import LIBRARY, WHY_MISSING, TaskMetric
from zoo.harness.text_requests import TextRequests
from zoo.training.records.run_record import parameters_sha256
from zoo.training.trained_run import TrainedRun

FOLDER = "harness"
"""Folder of the results within that of a run."""
VERSIONS_OF = (LIBRARY, "datasets", "jax", "tokenizers")
_ERROR = "_stderr"
# Draws for the standard errors of metrics that are no means.
_BOOTSTRAP = 1000


@dataclass(frozen=True)
class HarnessSettings:
    """Settings of an evaluation.

    Attributes:
        shots: examples before each question; None for as many as a task says, mostly none.
        limit: largest number of questions of each task; None for all.
        max_length: largest number of tokens read at once; None as `TextRequests`.
    """

    shots: int | None = None
    limit: int | None = None
    max_length: int | None = None

    @property
    def suffix(self) -> str:
        """The part of file names that tells settings other than the usual ones apart."""
        given = {"shots": self.shots, "limit": self.limit, "length": self.max_length}
        return "".join(f"-{name}{value}" for name, value in given.items() if value is not None)


class Harness:
    """The index of the harness's tasks.

    Args:
        names: tasks that will be asked for. The thousands of files that come with the harness are read
            only where one of them is neither a file nor in `include`.
        include: folders with the YAML files of further tasks.

    Raises:
        ConfigError: `lm_eval` is not installed, or there is no such folder.
    """

    def __init__(self, names: Sequence[str], include: Sequence[Path] = ()):
        try:
            from lm_eval.tasks import TaskManager
        except ImportError as error:
            raise ConfigError(WHY_MISSING) from error
        if missing := [str(folder) for folder in include if not folder.is_dir()]:
            raise ConfigError(f"--include-path: {', '.join(missing)} is not a folder")
        # Its notes on each task, such as a number of examples that is overridden.
        logging.getLogger(LIBRARY).setLevel(logging.ERROR)
        self._include = [folder.resolve() for folder in include]
        folders = [*map(str, include)] or None
        self._manager = TaskManager(include_path=folders, include_defaults=False)
        if not all(TaskMetric(name).is_file or name in self._manager.all_subtasks for name in names):
            self._manager = TaskManager(include_path=folders)

    def load(self, names: Sequence[str]) -> dict[str, Any]:
        """Returns the tasks and groups of names or files, with their data.

        Raises:
            ConfigError: no such task or file.
            DataError: a file that is no task, or data that cannot be read.
        """
        from zoo.harness.lm_eval_model import share_ties

        found: dict[str, dict[str, Any]] = {"tasks": {}, "groups": {}, "group_map": {}}
        for name in names:
            spec = self._spec(name)
            try:
                loaded = self._manager.load([spec])
            except Exception as error:  # Whatever the library that reads the data raises.
                raise DataError(f"task {name}: {type(error).__name__}: {' '.join(str(error).split()):.300}") from error
            for part, entries in loaded.items():
                found[part].update(entries)
        for task in found["tasks"].values():
            share_ties(task)
        return found

    def name_of(self, task: str) -> str:
        """Returns the name of a task, or of a group, whose file may be given."""
        spec = self._spec(task)
        if isinstance(spec, str) and not TaskMetric(spec).is_file:
            return spec
        config = spec if isinstance(spec, dict) else _content(Path(task))
        return str(config.get("task") if isinstance(config.get("task"), str) else config.get("group"))

    def _spec(self, name: str) -> str | dict[str, Any]:
        """Returns what `TaskManager.load` takes for a task; data files of a file's task are looked for
        beside it.
        """
        entry = self._manager.task_index.get(name)
        path = entry.yaml_path if entry is not None else None
        if entry is None:
            if not TaskMetric(name).is_file:
                hint = did_you_mean(name, self._manager.all_tasks)
                raise ConfigError(f"{shown(name)} is no task of the harness{hint}; lm_eval ls tasks lists them")
            path = Path(name)
            if not path.is_file():
                raise ConfigError(f"there is no file {name}")
        elif path is None or not any(folder in Path(path).resolve().parents for folder in self._include):
            return name
        config = _content(Path(path))
        kwargs = config.get("dataset_kwargs") or {}
        if "group" in config or "data_files" not in kwargs:
            return str(path) if entry is None else name
        beside = _beside(kwargs["data_files"], Path(path).resolve().parent)
        return {**config, "dataset_kwargs": {**kwargs, "data_files": beside}}


def _content(path: Path) -> dict[str, Any]:
    from lm_eval.tasks._yaml_loader import load_yaml

    try:
        return load_yaml(path)
    except Exception as error:  # Of YAML, and of what its functions import.
        raise DataError(f"{path}: {type(error).__name__}: {' '.join(str(error).split()):.300}") from error


def _beside(files: Any, folder: Path) -> Any:
    if isinstance(files, Mapping):
        return {split: _beside(file, folder) for split, file in files.items()}
    if isinstance(files, list):
        return [_beside(file, folder) for file in files]
    return str(folder / files) if (folder / str(files)).is_file() else files


def evaluate(
    harness: Harness,
    run: TrainedRun,
    tasks: Sequence[str],
    settings: HarnessSettings = HarnessSettings(),
    rows: int = ROWS,
) -> dict[str, dict[str, Any]]:
    """Evaluates a run on tasks.

    Args:
        harness: the index of tasks.
        run: the run.
        tasks: names of tasks or groups, or paths of YAML files.
        settings: number of examples and questions, and of tokens.
        rows: largest number of rows that are read at once.

    Returns:
        {name: {"metrics": {"acc": value, "acc_stderr": its standard error, ...}, "version": of the
        task, "shots": number of examples, "questions": number of questions}} of each task and group.

    Raises:
        ConfigError: no such task, or one that the run cannot be asked.
        DataError: data that cannot be read.
    """
    texts = TextRequests(run, settings.max_length, rows)
    loaded = harness.load(tasks)
    from lm_eval import evaluator
    from lm_eval.defaults import DEFAULT_OTHER_SEED

    from zoo.harness.lm_eval_model import ZooLM

    for task in loaded["tasks"].values():
        # A task that is defined without examples keeps its form.
        if task.get_config("num_fewshot") is None or (settings.shots is not None and task.get_config("num_fewshot")):
            task.set_config(key="num_fewshot", value=settings.shots or 0)
        task.set_fewshot_seed(seed=DEFAULT_OTHER_SEED)
    found = evaluator.evaluate(
        ZooLM(texts), loaded, limit=settings.limit, bootstrap_iters=_BOOTSTRAP, log_samples=False
    )
    return {name: _entry(name, values, found) for name, values in found["results"].items()}


def _entry(name: str, values: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    numbers = {
        key.removesuffix(",none"): float(value)
        for key, value in values.items()
        if "," in key and isinstance(value, int | float) and not isinstance(value, bool)
    }
    counts = found.get("n-samples", {}).get(name, {})
    return {
        "metrics": numbers,
        "version": found.get("versions", {}).get(name),
        "shots": found.get("n-shot", {}).get(name),
        "questions": counts.get("effective"),
    }


def metric_of(entry: Mapping[str, Any], task: TaskMetric) -> float:
    """Returns the value of a metric in what `evaluate` returns for its task.

    Raises:
        ConfigError: the task has no such metric.
    """
    metrics = entry["metrics"]
    named = [name for name in metrics if name.partition(",")[0] == task.metric]
    if task.metric in metrics or len(named) == 1:
        return metrics[task.metric if task.metric in metrics else named[0]]
    known = ", ".join(name for name in metrics if _ERROR not in name) or "none of its own; name one of its tasks"
    raise ConfigError(f"harness:{task.task} has no metric {task.metric}; its metrics: {known}")


def evaluate_folder(
    harness: Harness,
    folder: Path,
    run: TrainedRun,
    task: str,
    settings: HarnessSettings = HarnessSettings(),
    rows: int = ROWS,
) -> dict[str, Any]:
    """Evaluates a run on a task, or a group, and stores the record in the run's folder; a record of
    the same parameters, task, settings and versions is returned as it is.

    Args:
        harness, run, settings, rows: as for `evaluate`.
        folder: the run's folder.
        task: one name or file.

    Returns:
        the record: "task", "results" as of `evaluate`, "settings", "step", "versions", "seconds".

    Raises:
        ConfigError, DataError: as `evaluate`.
    """
    name = harness.name_of(task)
    last = read_object_or_empty(folder / "status.json").get("step", run.step)
    step = "" if run.step == last else f"-step{run.step}"
    path = folder / FOLDER / f"{name.replace('/', '_')}{settings.suffix}{step}.json"
    key = {
        "task": name,
        "source": task,
        "task_sha256": TaskMetric(task).contents_sha256(),
        "settings": asdict(settings),
        "step": run.step,
        **({} if run.trained_length is None else {"trained_length": str(run.trained_length)}),
        "parameters_sha256": parameters_sha256(run.params),
        "versions": {"zoo": zoo.__version__, "python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in VERSIONS_OF},
    }
    stored = read_object_or_empty(path)
    if all(stored.get(name) == value for name, value in key.items()) and name in stored.get("results", {}):
        return stored
    started = time.monotonic()
    results = evaluate(harness, run, [task], settings, rows)
    record = key | {"results": results, "seconds": round(time.monotonic() - started, 1)}
    path.parent.mkdir(exist_ok=True)
    write_json(path, record)
    return record


def measured(folder: Path, run: TrainedRun, task: TaskMetric) -> float:
    """Returns the value of a metric of a task for a finished run, with the usual settings.

    Raises:
        ConfigError, DataError: as `evaluate_folder` and `metric_of`.
    """
    record = evaluate_folder(_index_with(task.task), folder, run, task.task)
    return metric_of(record["results"][record["task"]], task)


@cache
def _index_with(task: str) -> Harness:
    return Harness([task])
