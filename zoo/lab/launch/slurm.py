"""Runs that are jobs of SLURM: a job array for each set of runs that wait for the same others, as
scripts in the sweep's folder.

One task of an array trains one run: `srun` starts its processes, one per node or more. SLURM puts a
job that it preempts back into the queue by itself; one that was told to stop, by the end of its
time or by hand, has saved and ends with exit code 75, and asks for it.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.errors import ConfigError, Preempted
from zoo.lab.launch.launcher import Launched
from zoo.lab.launch.slurm_queue import FOLDER, Submitted, ask, note_job
from zoo.lab.launch.slurm_task import START
from zoo.lab.launch.sweep_folder import SweepLock
from zoo.lab.launch.worker import write_config
from zoo.lab.planning.arm import PlannedRun

# SLURM's default for the longest array is 1001.
LONGEST = 1000
# Set by the script itself.
OURS = (
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
class Options:
    """What jobs ask for; None leaves it to the cluster.

    Attributes:
        partition, account, qos, time, mem, gpus_per_node, cpus_per_task: options of sbatch of the
        same names.
        nodes: of each run.
        tasks_per_node: processes of each run on each node. A process alone on a node takes all its
            GPUs; of several each takes one.
        at_once: tasks of an array that run at the same time; None for as many as there is room for.
        grace: seconds before the end of its time at which a run is told to save and stop.
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
    at_once: int | None = None
    grace: int = 120
    raw: tuple[str, ...] = ()

    @property
    def processes(self) -> int:
        """Processes that train a run together."""
        return self.nodes * self.tasks_per_node

    def problems(self) -> Iterator[str]:
        """One line for every option that cannot be written into a script, or that the script sets
        itself.
        """
        named = {name.replace("_", "-") for name in self.__dataclass_fields__} - {"raw", "at-once", "grace"} | {
            "ntasks-per-node"
        }
        for option in self.raw:
            name = option.removeprefix("--").partition("=")[0]
            if not re.fullmatch(r"--[a-z][a-z0-9-]*(=.*)?", option):
                yield f"--sbatch {option!r}: expected one option of sbatch as --NAME or --NAME=VALUE, on one line"
            elif name in OURS:
                yield f"--sbatch {option}: --{name} is set by zoo run itself"
            elif name in named:
                yield f"--sbatch {option}: use zoo run's own --{name.replace('ntasks', 'tasks')}"
        for name in ("partition", "account", "qos", "time", "mem", "gpus_per_node"):
            value = getattr(self, name)
            if value is not None and (not value or not value.isprintable()):
                yield f"--{name.replace('_', '-')} {value!r}: expected a value on one line"

    def directives(self) -> Iterator[str]:
        """The options as words of sbatch's command line."""
        yield f"--nodes={self.nodes}"
        yield f"--ntasks-per-node={self.tasks_per_node}"
        for name in ("partition", "account", "qos", "time", "mem", "gpus_per_node", "cpus_per_task"):
            if (value := getattr(self, name)) is not None:
                yield f"--{name.replace('_', '-')}={value}"
        yield from self.raw


@dataclass(frozen=True)
class Array:
    """The runs of one job array, in the order of its task numbers, and the folders of those that
    have to be done before.
    """

    runs: tuple[PlannedRun, ...]
    needs: tuple[str, ...] = ()


def arrays(runs: Sequence[PlannedRun]) -> list[Array]:
    """Sorts runs that are left into arrays: together what waits for the same ones. What an array
    waits for stands before it.

    Args:
        runs: each after those that it needs.
    """
    ahead = {run.folder for run in runs}
    groups: dict[tuple[str, ...], list[PlannedRun]] = {}
    for run in runs:
        groups.setdefault(tuple(needed.folder for needed in run.needs if needed.folder in ahead), []).append(run)
    return [
        Array(tuple(group[start : start + LONGEST]), needs)
        for needs, group in groups.items()
        for start in range(0, len(group), LONGEST)
    ]


def script(array: Array, sweep: Path, name: str, options: Options) -> str:
    """The batch script of an array.

    Args:
        array: its runs.
        sweep: folder of the sweep; sbatch is to be called in it.
        name: of the sweep.
        options: what each job asks for.
    """
    # Even a path that is relative here has the sweep's before it when SLURM looks for what it
    # replaces.
    output = os.path.join(os.path.abspath(sweep), FOLDER).replace("%", "%%")
    tasks = f"0-{len(array.runs) - 1}" + (f"%{options.at_once}" if options.at_once else "")
    directives = [
        f"--job-name={re.sub(r'[^A-Za-z0-9._=+-]+', '-', name)[:60]}",
        f"--array={tasks}",
        f"--output={output}/%A_%a.txt",
        "--open-mode=append",
        "--requeue",
        f"--signal=TERM@{options.grace}",
        *options.directives(),
    ]
    lines = "\n".join(f"#SBATCH {_directive(one)}" for one in directives)
    runs = "\n".join(f"    {shlex.quote(run.folder)}" for run in array.runs)
    return f"""\
#!/bin/bash
# Written by `zoo run --slurm`: each task of this array trains one run, from the start or from where it was stopped.
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
touch -- "$log" && wc -c <"$log" >"$folder/{START}" || exit 1

srun --kill-on-bad-exit=1 "$python" -m zoo.cli.train --config="$folder/config.json" --workdir="$folder" >>"$log" 2>&1
code=$?
"$python" -m zoo.lab.launch.slurm_task "$folder" "$code"
code=$?
if [ "$code" -eq {Preempted.exit_code} ]; then
    # Saved, and not done: back into the queue. A job that went on to its end would leave it instead.
    scontrol requeue "$SLURM_JOB_ID" && sleep 600
fi
exit "$code"
"""


def _directive(option: str) -> str:
    """An option as sbatch reads it from a script: in double quotes where it would be cut or
    changed.
    """
    if re.fullmatch(r"[A-Za-z0-9_./:=,%@+*\[\]-]+", option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'


def unwritable(sweep: Path) -> list[str]:
    """A line if the path of a sweep cannot be written into a script."""
    path = os.path.abspath(sweep)
    return (
        []
        if path.isprintable() and "\\" not in path
        else [f"--output {path!r}: with --slurm a path has no line breaks and no \\"]
    )


def divided(runs: Sequence[PlannedRun], options: Options) -> list[str]:
    """One line for every size of batches that several processes cannot share."""
    sizes = dict.fromkeys(run.config.data.batch_size for run in runs)
    return [
        f"--nodes: data.batch_size={size} does not divide over {options.processes} processes"
        for size in sizes
        if size % options.processes
    ]


class Slurm:
    """Jobs of SLURM; returns when they are in its queue.

    Args:
        name: of the sweep.
        options: what each job asks for.
        before: jobs that were submitted earlier and are still in the queue, by the run's folder.
    """

    def __init__(self, name: str, options: Options, before: Mapping[str, Submitted] | None = None):
        self._name, self._options, self._before = name, options, dict(before or {})

    def shown(self, runs: Sequence[PlannedRun], folder: Path) -> Iterator[str]:
        """What `launch` would submit: for each array its script and how sbatch is called."""
        for number, array in enumerate(self._arrays(runs), _next_number(folder)):
            waits = f"  # waits for {', '.join(array.needs)}" if array.needs else ""
            yield f"{script(array, folder, self._name, self._options)}\n# sbatch {FOLDER}/{number}.sh{waits}\n"

    def launch(self, runs: Sequence[PlannedRun], folder: Path, lock: SweepLock) -> Launched:
        """See `Launcher`. Runs that are in the queue already stay as they are.

        Raises:
            ConfigError: sbatch is not there or refuses; what was submitted before stays in the
                queue, and is recorded.
        """
        del lock  # What is in the queue is known from its record.
        tasks = {run: job.task for run, job in self._before.items()}
        queued: list[str] = []
        for number, array in enumerate(self._arrays(runs), _next_number(folder)):
            (folder / FOLDER).mkdir(exist_ok=True)
            for run in array.runs:
                write_config(folder, run)
            path = folder / FOLDER / f"{number}.sh"
            path.write_text(script(array, folder, self._name, self._options), encoding="utf-8")
            waits = [
                f"--dependency=afterok:{':'.join(tasks[needed] for needed in array.needs)}",
                "--kill-on-invalid-dep=yes",
            ]
            try:
                said = ask(["sbatch", "--parsable", *(waits if array.needs else []), f"{FOLDER}/{path.name}"], folder)
            except ConfigError as error:
                path.unlink()
                raise ConfigError(
                    [
                        *error.problems,
                        *(
                            [f"jobs {', '.join(queued)} were submitted before; scancel takes them back"]
                            if queued
                            else []
                        ),
                    ]
                ) from error
            job = said.strip().partition(";")[0]
            note_job(folder, job, path, [run.folder for run in array.runs], array.needs)
            tasks |= {run.folder: f"{job}_{index}" for index, run in enumerate(array.runs)}
            queued.append(job)
        return Launched(queued=queued)

    def _arrays(self, runs: Sequence[PlannedRun]) -> list[Array]:
        """The arrays of runs that are not in the queue; those that others need count as ahead of
        these all the same.
        """
        left = [
            Array(tuple(run for run in array.runs if run.folder not in self._before), array.needs)
            for array in arrays(runs)
        ]
        return [array for array in left if array.runs]


def _next_number(folder: Path) -> int:
    numbers = (path.stem for path in (folder / FOLDER).glob("*.sh"))
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)
