"""Trains the runs of a plan: in processes of this machine, as tasks of Ray, or as jobs of another
scheduler that trains them after this command.
"""

import contextlib
import functools
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from zoo.errors import ConfigError, ZooError, listed
from zoo.lab.launch.cpu_processes import CpuProcesses, plan_processes, planned_threads
from zoo.lab.launch.display import LiveDisplay, PlainDisplay, print_line
from zoo.lab.launch.populations import group_runs
from zoo.lab.launch.process_pool import ProcessPool
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.ray_pool import RayCluster, RayPool
from zoo.lab.launch.run_task import RunTask, emit_tasks, json_lines, make_tasks
from zoo.lab.launch.slurm import SlurmLauncher, batch_size_problems, path_problems
from zoo.lab.launch.slurm_queue import SubmittedJob, is_continuation, read_jobs
from zoo.lab.launch.sweep_folder import read_planned_state
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.launch.sweep_options import SweepOptions
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.gpu_assignment import GpuAssignment
from zoo.lab.planning.plan import Plan
from zoo.training.runtime.gpus import visible_gpus


class Executor:
    """Trains the runs of plans, one plan after another, as the options say.

    It is a context: a Ray cluster that one plan connects stays connected for the next ones, such as
    tuning and the arms.

    Args:
        options: how the sweep is run.
        console: shows what is started.
    """

    def __init__(self, options: SweepOptions, console: Console):
        self._options, self._console = options, console
        self._connections = contextlib.ExitStack()
        self._ray: RayCluster | None = None

    def __enter__(self) -> "Executor":
        return self

    def __exit__(self, *error: object) -> None:
        self._connections.close()

    def problems(self, plan: Plan) -> list[str]:
        """Returns lines for runs whose mesh is larger than the GPUs that a process here would have."""
        if self._options.tasks:
            return self._options.tasks.mesh_problems(plan.in_order)
        return [] if self._options.slurm else list(self._assignment.problems(plan.in_order))

    def connect(self, plan: Plan, folder: Path) -> None:
        """Connects the Ray cluster, if runs of the sweep in a folder are left for one to train.

        Raises:
            ConfigError: no cluster answers.
        """
        options = self._options
        if options.dry_run or not (options.tasks and options.tasks.ray):
            return
        if any(plan.pending(lambda run: read_planned_state(folder, run).finished)):
            self._cluster()

    def hand_over(
        self, plan: Plan, pending: list[PlannedRun], folder: Path, submitted: dict[str, SubmittedJob], continues: bool
    ) -> list[str]:
        """Hands the runs that are left to a scheduler that trains them after this command.

        Args:
            plan, pending, folder: of the sweep.
            submitted: jobs of the sweep that are in SLURM's queue, by folder.
            continues: the command goes on after the runs.

        Returns:
            Lines that say what becomes of them; empty if they are trained during this command.
        """
        options = self._options
        if options.slurm:
            _check_failures(pending, folder, submitted)
            # Jobs outlive the lock; their record keeps runs from being submitted twice.
            jobs = self._slurm_launcher(plan, folder, submitted, continues).launch(pending, folder)
            return submission_lines(folder, jobs, sum(run.folder not in submitted for run in pending), continues)
        if options.tasks and options.tasks.emit:
            tasks = self._make_tasks(plan, pending, folder, folder, bool(self._assignment.gpus))
            emit_tasks(options.tasks.emit, tasks, pending, folder)
            return emission_lines(options.tasks.emit, folder, len(pending), continues)
        return []

    def pool(self, plan: Plan, pending: list[PlannedRun], folder: Path, lock: SweepLock) -> ProcessPool | RayPool:
        """Returns what trains the runs that are left during this command."""
        if self._options.tasks:
            return self._ray_pool(plan, pending, folder)
        groups, population = self._groups(pending), self._options.population
        processes = self._processes(plan, pending, folder)
        if population and pending:
            self._say(f"{len(pending)} runs in {_describe_groups(groups)}")
        if pending and (described := self._assignment.describe()):
            self._say(described)
        if pending and (described := processes.describe()):
            self._say(described)
        display = self._display(plan, pending, folder, processes.jobs * max(map(len, groups), default=1))
        return ProcessPool(
            pending, folder, processes.jobs, lock, display, population, self._assignment.gpus, processes.variables()
        )

    def preview(
        self,
        plan: Plan,
        pending: list[PlannedRun],
        folder: Path,
        earlier: Path,
        submitted: dict[str, SubmittedJob],
        continues: bool,
    ) -> str:
        """Prints the jobs or tasks that would be made, and returns a sentence about them.

        Args:
            plan, pending, folder, submitted, continues: as for `hand_over`.
            earlier: folder of the sweep whose number of threads is kept.
        """
        options = self._options
        if options.slurm:
            for text in self._slurm_launcher(plan, folder, submitted, continues).preview(pending, folder):
                print(text)
            count = len(pending) - sum(run.folder in submitted for run in pending)
            return f"{count} of {len(plan.in_order)} runs would be submitted, in {folder}"
        where = f"{len(pending)} of {len(plan.in_order)} runs would be"
        if options.tasks:
            if options.tasks.emit:
                tasks = self._make_tasks(plan, pending, folder, earlier, bool(self._assignment.gpus))
                print(json_lines(tasks), end="")
                return f"{where} written to {options.tasks.emit}, in {folder}"
            return f"{where} handed to Ray, in {folder}"
        groups = f"in {_describe_groups(self._groups(pending))}, " if options.population else ""
        jobs = self._processes(plan, pending, earlier).jobs
        return f"{where} trained, {groups}{jobs} at a time, in {folder}"

    def _say(self, text: str, style: str = "") -> None:
        print_line(self._console, text, style)

    @functools.cached_property
    def _assignment(self) -> GpuAssignment:
        # Kept, because listing GPUs can take seconds.
        return GpuAssignment(self._options.jobs or 1, visible_gpus())

    def _display(self, plan: Plan, pending: list[PlannedRun], folder: Path, at_once: int) -> PlainDisplay:
        progress = SweepProgress(folder, plan.in_order, pending, at_once, plan.experiment.metric)
        return (LiveDisplay if self._console.is_terminal else PlainDisplay)(self._console, progress)

    def _processes(self, plan: Plan, pending: list[PlannedRun], earlier: Path) -> CpuProcesses:
        """Returns the processes that train at once, and their threads."""
        options = self._options
        if self._assignment.gpus:
            return CpuProcesses(options.jobs or 1)
        return plan_processes(earlier, plan.in_order, len(pending), options.jobs, options.population is not None)

    def _groups(self, runs: list[PlannedRun]) -> list[list[PlannedRun]]:
        """Returns the runs of each process, as if all runs were ready to start."""
        policy = self._options.population
        return [[run] for run in runs] if policy is None else list(group_runs(runs, policy))

    def _cluster(self) -> RayCluster:
        """Returns the cluster, which is connected or started at the first call.

        Raises:
            ConfigError: no cluster answers.
        """
        if self._ray is None:
            self._ray = self._connections.enter_context(RayCluster(self._options.tasks.ray))
        return self._ray

    def _ray_pool(self, plan: Plan, pending: list[PlannedRun], folder: Path) -> RayPool:
        there = self._cluster().resources if pending else {}
        tasks = self._make_tasks(plan, pending, folder, folder, there.get("GPU", 0) > 0)
        if pending:
            for line in self._cluster().missing({task.resources for task in tasks}):
                self._say(line, "yellow")
        at_once = sum(there.get("CPU", 1) // task.resources.cpus for task in tasks[:1])
        return RayPool(pending, tasks, folder, self._display(plan, pending, folder, max(1, int(at_once))))

    def _make_tasks(
        self, plan: Plan, pending: list[PlannedRun], folder: Path, earlier: Path, gpus_there: bool
    ) -> list[RunTask]:
        threads = planned_threads(earlier, plan.in_order)
        resources = {run.folder: self._options.tasks.resources_of(run, gpus_there, threads) for run in pending}
        return make_tasks(pending, folder, resources, threads)

    def _slurm_launcher(
        self, plan: Plan, folder: Path, submitted: dict[str, SubmittedJob], continues: bool
    ) -> SlurmLauncher:
        options = self._options.slurm
        if problems := [*path_problems(folder), *batch_size_problems(plan.in_order, options)]:
            raise ConfigError(problems)
        # The folder that --fresh makes is the one that is continued.
        words = [word for word in self._options.words if word != "--fresh"] if continues else []
        return SlurmLauncher(plan.experiment.name, options, submitted, words)


def _check_failures(pending: list[PlannedRun], folder: Path, submitted: dict[str, SubmittedJob]) -> None:
    """Refuses, in a job that goes on after runs, to submit again those that have failed: such jobs
    would follow each other without end.
    """
    before = read_jobs(folder)
    if not is_continuation(folder):
        return
    failed = [run for run in pending if run.folder in before and run.folder not in submitted]
    if failed:
        raise ZooError(
            f"{len(failed)} of {len(before)} runs were not finished ({listed([run.name for run in failed], 3)}), "
            "and what follows needs them; the command that started the sweep submits them again"
        )


def _describe_groups(groups: list[list[PlannedRun]]) -> str:
    sizes = ", ".join(str(len(members)) for members in groups)
    return f"{len(groups)} population{'' if len(groups) == 1 else 's'} ({sizes})"


def submission_lines(folder: Path, jobs: Sequence[str], count: int, continues: bool) -> list[str]:
    """Returns what is said after runs were submitted to SLURM.

    Args:
        folder: of the sweep.
        jobs: that were submitted now, for `count` runs.
        continues: a job goes on after them.
    """
    lines = ["all runs that are left are in the queue already"]
    if count:
        lines = [f"submitted: {count} runs as jobs {', '.join(jobs)}"]
    if continues:
        lines.append("when they have ended, a job submits what follows from them, or writes the report")
    return [*lines, f"zoo status {folder} shows their progress; zoo report {folder} judges the results so far"]


def emission_lines(path: Path, folder: Path, count: int, continues: bool) -> list[str]:
    """Returns what is said after tasks were written for another scheduler."""
    after = "writes what follows from them, or the report" if continues else "writes the report"
    return [
        f"written: {count} runs to {path}, in {folder}",
        f"when they have ended, the same command (without --fresh) {after}; zoo status {folder} shows their progress",
    ]
