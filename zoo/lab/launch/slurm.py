"""Launches runs as SLURM jobs: one job array per set of runs that wait for the same prerequisites.

One task of an array trains one run: `srun` starts its processes, one or more per node. SLURM
requeues a job that it preempts. A run that is stopped otherwise, by its time limit or by hand,
saves and ends with exit code 75, and its job requeues itself. The batch scripts are kept in the
sweep's folder.
"""

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zoo.errors import ConfigError, Preempted
from zoo.lab.launch.run_outcome import ATTEMPT_FILE
from zoo.lab.launch.run_task import open_prerequisites
from zoo.lab.launch.slurm_queue import SLURM_FOLDER, SubmittedJob, queued_continuations, record_job, run_slurm_command
from zoo.lab.launch.worker import write_config
from zoo.lab.planning.arm import PlannedRun

# SLURM's default MaxArraySize is 1001, which allows indices up to 1000.
MAX_ARRAY_SIZE = 1000
# Options of sbatch that the script sets itself.
RESERVED_OPTIONS = (
    "array",
    "dependency",
    "error",
    "input",
    "job-name",
    "kill-on-invalid-dep",
    "no-requeue",
    "open-mode",
    "output",
    "parsable",
    "requeue",
    "signal",
    "test-only",
    "wait",
    "wrap",
)


@dataclass(frozen=True)
class SlurmOptions:
    """Resources that a job requests; None leaves the choice to the cluster.

    Attributes:
        partition, account, qos, time, mem, gpus_per_node, cpus_per_task: options of sbatch with
            these names.
        nodes: per run.
        tasks_per_node: processes of a run per node. A single process uses all GPUs of its node;
            several use one GPU each.
        max_parallel: tasks of an array that may run at once; None for no limit.
        grace: seconds before the time limit at which a run is asked to save and stop.
        raw: further options of sbatch, as on its command line.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = None
    mem: str | None = None
    gpus_per_node: str | None = None
    cpus_per_task: int | None = None
    nodes: int = 1
    tasks_per_node: int = 1
    max_parallel: int | None = None
    grace: int = 120
    raw: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """Number of processes that train one run."""
        return self.nodes * self.tasks_per_node

    def problems(self) -> Iterator[str]:
        """Yields a line for every option that is malformed, or that the script sets itself."""
        own_flags = {name.replace("_", "-") for name in self.__dataclass_fields__} - {
            "raw",
            "max-parallel",
            "grace",
        } | {"ntasks-per-node"}
        for option in self.raw:
            name = option.removeprefix("--").partition("=")[0]
            if not re.fullmatch(r"--[a-z][a-z0-9-]*(=.*)?", option):
                yield f"--sbatch {option!r}: expected one option of sbatch as --NAME or --NAME=VALUE, on one line"
            elif name in RESERVED_OPTIONS:
                yield f"--sbatch {option}: --{name} is set by zoo run itself"
            elif name in own_flags:
                yield f"--sbatch {option}: use zoo run's own --{name.replace('ntasks', 'tasks')}"
        for name in ("partition", "account", "qos", "time", "mem", "gpus_per_node"):
            value = getattr(self, name)
            if value is not None and (not value or not value.isprintable()):
                yield f"--{name.replace('_', '-')} {value!r}: expected a value on one line"

    def directives(self) -> Iterator[str]:
        """Yields the options as words of sbatch's command line."""
        yield f"--nodes={self.nodes}"
        yield f"--ntasks-per-node={self.tasks_per_node}"
        for name in ("partition", "account", "qos", "time", "mem", "gpus_per_node", "cpus_per_task"):
            if (value := getattr(self, name)) is not None:
                yield f"--{name.replace('_', '-')}={value}"
        yield from self.raw


@dataclass(frozen=True)
class JobArray:
    """A job array.

    Attributes:
        runs: in the order of the array's indices.
        needs: folders of the prerequisite runs, which must be done first.
    """

    runs: tuple[PlannedRun, ...]
    needs: tuple[str, ...] = ()


def group_into_arrays(runs: Sequence[PlannedRun]) -> list[JobArray]:
    """Returns arrays of runs with the same unfinished prerequisites, prerequisites first.

    Args:
        runs: unfinished runs, prerequisites before the runs that need them.
    """
    needs = open_prerequisites(runs)
    groups: dict[tuple[str, ...], list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(needs[run.folder], []).append(run)
    return [
        JobArray(tuple(group[start : start + MAX_ARRAY_SIZE]), needs)
        for needs, group in groups.items()
        for start in range(0, len(group), MAX_ARRAY_SIZE)
    ]


def batch_script(array: JobArray, sweep: Path, name: str, options: SlurmOptions) -> str:
    """Returns the batch script of an array.

    Args:
        array: its runs.
        sweep: folder of the sweep, in which sbatch is called.
        name: name of the sweep.
        options: options of each job.
    """
    tasks = f"0-{len(array.runs) - 1}" + (f"%{options.max_parallel}" if options.max_parallel else "")
    directives = [
        f"--job-name={_job_name(name)}",
        f"--array={tasks}",
        f"--output={_output_folder(sweep)}/%A_%a.txt",
        "--open-mode=append",
        "--requeue",
        f"--signal=TERM@{options.grace}",
        *options.directives(),
    ]
    lines = "\n".join(f"#SBATCH {_directive(one)}" for one in directives)
    runs = "\n".join(f"    {shlex.quote(run.folder)}" for run in array.runs)
    return f"""\
#!/bin/bash
# Written by `zoo run --slurm`: each task of this array trains one run, or continues it.
{lines}

runs=(
{runs}
)
sweep={shlex.quote(os.path.abspath(sweep))}
python={shlex.quote(sys.executable)}
folder=$sweep/${{runs[SLURM_ARRAY_TASK_ID]}}
log=$folder/log.txt
export PYTHONUNBUFFERED=1
cd -- {shlex.quote(os.getcwd())} || exit 1
touch -- "$log" && wc -c <"$log" >"$folder/{ATTEMPT_FILE}" || exit 1

srun --kill-on-bad-exit=1 "$python" -m zoo.cli.train --config="$folder/config.json" --workdir="$folder" >>"$log" 2>&1
code=$?
"$python" -m zoo.lab.launch.slurm_task "$folder" "$code"
code=$?
if [ "$code" -eq {Preempted.exit_code} ]; then
    # Saved but not done: requeue. The job must not end by itself meanwhile, which would take it out of the queue.
    # One task has the number of the whole array as its SLURM_JOB_ID.
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" && sleep 600
fi
exit "$code"
"""


def continuation_script(command: Sequence[str], sweep: Path, name: str, options: SlurmOptions) -> str:
    """Returns the batch script of the job that calls `zoo run` again when the runs have ended.

    Args:
        command: the words after `zoo`.
        sweep, name, options: as for `batch_script`. The job asks for the resources of a run on one
            node, which the cluster is known to have.
    """
    directives = [
        f"--job-name={_job_name(name)}",
        f"--output={_output_folder(sweep)}/%j.txt",
        "--open-mode=append",
        *replace(options, nodes=1, tasks_per_node=1).directives(),
    ]
    lines = "\n".join(f"#SBATCH {_directive(one)}" for one in directives)
    return f"""\
#!/bin/bash
# Written by `zoo run --slurm`: submits what follows from the runs, or writes the report.
{lines}

cd -- {shlex.quote(os.getcwd())} || exit 1
exec {shlex.join([sys.executable, "-m", "zoo.cli.main", *command])}
"""


def _job_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name)[:60]


def _output_folder(sweep: Path) -> str:
    # % starts a pattern of SLURM, also in the sweep's path.
    return os.path.join(os.path.abspath(sweep), SLURM_FOLDER).replace("%", "%%")


def _directive(option: str) -> str:
    """Returns an option as sbatch reads it from a script: quoted if it has special characters."""
    if re.fullmatch(r"[A-Za-z0-9_./:=,%@+*\[\]-]+", option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def path_problems(sweep: Path) -> list[str]:
    """Returns a line if the path of a sweep cannot be written into a script."""
    path = os.path.abspath(sweep)
    return (
        []
        if path.isprintable() and "\\" not in path
        else [f"--output {path!r}: with --slurm a path must not contain line breaks or \\"]
    )


def batch_size_problems(runs: Sequence[PlannedRun], options: SlurmOptions) -> list[str]:
    """Returns a line for every batch size that the processes of a run cannot share equally."""
    sizes = dict.fromkeys(run.config.data.batch_size for run in runs)
    return [
        f"--nodes: data.batch_size={size} is not divisible by {options.processes} processes"
        for size in sizes
        if size % options.processes
    ]


class SlurmLauncher:
    """Submits runs as SLURM jobs; returns when they are in the queue.

    Args:
        name: name of the sweep.
        options: options of each job.
        submitted: jobs that were submitted earlier and are still in the queue, by the run's folder.
        continuation: words after `zoo` of the command that goes on when the runs have ended; empty if
            nothing follows.
    """

    def __init__(
        self,
        name: str,
        options: SlurmOptions,
        submitted: Mapping[str, SubmittedJob] | None = None,
        continuation: Sequence[str] = (),
    ):
        self._name, self._options, self._submitted = name, options, dict(submitted or {})
        self._continuation = continuation

    def preview(self, runs: Sequence[PlannedRun], folder: Path) -> Iterator[str]:
        """Yields what `launch` would submit: the script of each array and its call of sbatch."""
        number = _next_number(folder)
        for array in self._arrays(runs):
            waits = f"  # waits for {', '.join(array.needs)}" if array.needs else ""
            script = batch_script(array, folder, self._name, self._options)
            yield f"{script}\n# sbatch {SLURM_FOLDER}/{number}.sh{waits}\n"
            number += 1
        if runs and self._continuation:
            script = continuation_script(self._continuation, folder, self._name, self._options)
            yield f"{script}\n# sbatch {SLURM_FOLDER}/{number}.sh  # waits for the end of all\n"

    def launch(self, runs: Sequence[PlannedRun], folder: Path) -> list[str]:
        """Submits the runs that are not in the queue yet; returns the ids of their jobs.

        Raises:
            ConfigError: sbatch is missing or fails; jobs that were submitted before it failed stay
                in the queue and are recorded.
        """
        tasks = {run: job.task for run, job in self._submitted.items()}
        job_ids: list[str] = []
        for number, array in enumerate(self._arrays(runs), _next_number(folder)):
            (folder / SLURM_FOLDER).mkdir(exist_ok=True)
            for run in array.runs:
                write_config(folder, run)
            path = folder / SLURM_FOLDER / f"{number}.sh"
            path.write_text(batch_script(array, folder, self._name, self._options), encoding="utf-8")
            waits = [
                f"--dependency=afterok:{':'.join(tasks[needed] for needed in array.needs)}",
                "--kill-on-invalid-dep=yes",
            ]
            with _names_jobs(job_ids):
                job = _submit(folder, path, waits if array.needs else [])
            record_job(folder, job, path, [run.folder for run in array.runs], array.needs)
            tasks |= {run.folder: f"{job}_{index}" for index, run in enumerate(array.runs)}
            job_ids.append(job)
        if runs and self._continuation:
            with _names_jobs(job_ids):
                self._continue_after(folder, job_ids)
        return job_ids

    def _continue_after(self, folder: Path, job_ids: Sequence[str]) -> None:
        """Submits the job that goes on after those in the queue, unless there is one already."""
        if not job_ids and queued_continuations(folder):
            return
        earlier = (job.task.partition("_")[0] for job in self._submitted.values())
        path = folder / SLURM_FOLDER / f"{_next_number(folder)}.sh"
        script = continuation_script(self._continuation, folder, self._name, self._options)
        path.write_text(script, encoding="utf-8")
        # Whether they have succeeded or not: the command says which have failed.
        job = _submit(folder, path, [f"--dependency=afterany:{':'.join(dict.fromkeys([*earlier, *job_ids]))}"])
        record_job(folder, job, path, [], [])

    def _arrays(self, runs: Sequence[PlannedRun]) -> list[JobArray]:
        """Returns the arrays of the runs that are not in the queue.

        Runs in the queue count as unfinished prerequisites.
        """
        left = [
            JobArray(tuple(run for run in array.runs if run.folder not in self._submitted), array.needs)
            for array in group_into_arrays(runs)
        ]
        return [array for array in left if array.runs]


@contextlib.contextmanager
def _names_jobs(job_ids: Sequence[str]) -> Iterator[None]:
    """Adds to an error of its body which jobs are in the queue already."""
    try:
        yield
    except ConfigError as error:
        if not job_ids:
            raise
        before = f"jobs {', '.join(job_ids)} were submitted before; scancel cancels them"
        raise ConfigError([*error.problems, before]) from error


def _submit(folder: Path, script: Path, options: Sequence[str]) -> str:
    """Submits a script; returns the id of its job.

    Raises:
        ConfigError: sbatch is missing or fails; the script is removed.
    """
    try:
        output = run_slurm_command(["sbatch", "--parsable", *options, f"{SLURM_FOLDER}/{script.name}"], folder)
    except ConfigError:
        script.unlink()
        raise
    return output.strip().partition(";")[0]


def _next_number(folder: Path) -> int:
    numbers = (path.stem for path in (folder / SLURM_FOLDER).glob("*.sh"))
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)
