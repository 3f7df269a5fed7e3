"""The workflow of `zoo run`: tunes arms, trains runs, adds seeds until the verdict is decided."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from zoo.config import ResolvedConfig, check_records, plugins
from zoo.errors import ConfigError, DataError, Preempted
from zoo.files import write_json
from zoo.lab.declarations import Tune
from zoo.lab.experiment import Experiment, named_contrasts
from zoo.lab.launch.display import print_line, print_plan
from zoo.lab.launch.equal_runs import EqualRuns, unlike_runs
from zoo.lab.launch.executor import Executor
from zoo.lab.launch.kernel_versions import mixed_kernels
from zoo.lab.launch.populations import mixed_numerics
from zoo.lab.launch.preparation import (
    archive_sweep,
    data_problems,
    load_data,
    related_run_problems,
    submitted_jobs,
    write_floors,
)
from zoo.lab.launch.progress import training_flops
from zoo.lab.launch.slurm_queue import SubmittedJob, queued_continuations
from zoo.lab.launch.sweep_folder import (
    STATED,
    carry_forward_warnings,
    check_sweep_folder,
    find_conflicts,
    read_folder,
    read_planned_state,
    stated_analysis,
    untuned_runs,
)
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.launch.sweep_options import SweepOptions
from zoo.lab.planning.arm import PlannedRun
from zoo.lab.planning.known_costs import time_lines
from zoo.lab.planning.plan import InvalidPlan, Plan, make_plan
from zoo.lab.planning.power import conjunction_lines, fitted_line, power_lines
from zoo.lab.planning.tuning import (
    arm_names,
    cost_lines,
    fewest_runs,
    planned_trials,
    tuning_experiment,
    tuning_folder,
    with_tuned_value,
)
from zoo.lab.planning.tuning_search import Losses, search_state
from zoo.lab.results.interim import extend_seeds, plan_interim_looks, seeds_so_far
from zoo.lab.results.schema import find_arm, parse_arms, parse_noise
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.tuning_grid import tuned_text, tuned_value, tuning_losses, why_other_tuning
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.sequential import SequentialDesign
from zoo.training.records.run_folder import FolderState


class SweepWorkflow:
    """Runs an experiment as a sweep.

    Args:
        options: how the sweep is run.
        console: shows the plan and the progress.
        report: called with the folder of a sweep when its runs have ended.
        show_plan: called in a dry run with the plan, the state of every run by its folder, and the
            sweep's folder; None to show nothing more.
    """

    def __init__(
        self,
        options: SweepOptions,
        console: Console,
        report: Callable[[Path], None],
        show_plan: Callable[[Plan, Mapping[str, FolderState], Path], None] | None = None,
    ):
        self._options, self._console, self._report = options, console, report
        self._show_plan = show_plan
        # Whether an earlier sweep in the folder still has to be archived.
        self._fresh = options.fresh
        self._equal_runs = EqualRuns(options.runs_from, options.folder)
        self._executor = Executor(options, console)

    def run(self, experiment: Experiment) -> int:
        """Runs the experiment; returns the exit code, 1 if a run failed.

        Raises:
            ConfigError: the experiment, the options or the sweep's folder do not fit together.
            Preempted: a signal stopped the sweep.
        """
        with self._executor:
            return self._run(experiment) or 0

    def _run(self, experiment: Experiment) -> int | None:
        """Returns the exit code; None if runs were handed to a scheduler that has not ended them."""
        design = self._plan_looks(experiment) if self._options.max_seeds else None
        if experiment.tune and not (experiment.tuned_at or experiment.archived_tuning):
            code, experiment = self._tune(experiment, design)
            if code or experiment is None:
                return code
        if design:
            return self._run_until_decided(experiment, design)
        return self._run_sweep(experiment, self._options.folder, continues=bool(experiment.tune))

    def _say(self, text: str, style: str = "") -> None:
        print_line(self._console, text, style)

    def _earlier(self, folder: Path) -> Path:
        """Returns the folder of the sweep that goes on: one without runs if it is archived first."""
        return Path(os.devnull) if self._fresh else folder

    def _earlier_state(self, folder: Path, run: PlannedRun) -> str:
        """Returns the state of a run in the folder of the sweep that goes on."""
        return "new" if self._fresh else read_folder(folder / run.folder).state.name

    def _plan_looks(self, experiment: Experiment) -> SequentialDesign:
        """Plans at which numbers of seeds the contrasts are judged, before anything runs."""
        if not experiment.contrasts:
            raise ConfigError("--until-decided: the experiment has no contrasts that could be decided")
        design = plan_interim_looks(self._earlier(self._options.folder), experiment.seeds, self._options.max_seeds)
        # Refuses seeds of later looks that have tuned the arms.
        dataclasses.replace(experiment, seeds=extend_seeds(experiment.seeds, design.max_seeds))
        return design

    def _tune(self, experiment: Experiment, design: SequentialDesign | None) -> tuple[int | None, Experiment | None]:
        """Tunes the arms; returns (exit code, the experiment with the tuned values).

        The arms are checked first, with the base config's value of the tuned field. A dry run shows
        the tuning sweep, and continues with that value if tuning has not been done. The experiment
        is None while a scheduler has the tuning runs.
        """
        options, folder = self._options, self._options.folder
        all_seeds = extend_seeds(experiment.seeds, design.max_seeds if design else 0)
        plan = self._plan(dataclasses.replace(experiment, seeds=all_seeds), folder)
        self._check_folder(folder, plan)
        stated = stated_analysis(plan.record(), experiment.seeds, design.levels if design else experiment.looks)
        if not self._fresh and (untuned := untuned_runs(folder, plan.in_order)):
            raise ConfigError([f"{untuned}, and --tune would train others in their place", _other_folder_hint(folder)])
        if problems := self._executor.problems(plan):
            raise ConfigError(problems)
        if self._fresh and not options.dry_run:
            for sweep in (folder, *(folder / tuning_folder(experiment, tune) for tune in experiment.tunings)):
                self._check_queue(sweep)
            self._archive(folder)
        for line in cost_lines(experiment):
            self._say(line)
        begun = any(self._earlier_state(folder, run) != "new" for run in plan.in_order)
        for tune in experiment.tunings:
            code, found = self._tune_number(experiment, tune, stated, begun)
            if code or found is None:
                return code, found
            if found is experiment:  # A dry run, and the values are not known yet.
                break
            experiment = found
        return 0, experiment

    def _tune_number(
        self, experiment: Experiment, tune: Tune, stated: Mapping[str, Any], begun: bool
    ) -> tuple[int | None, Experiment | None]:
        """Tunes one number in every arm, in rounds: each trains the next trials of every arm.

        Args:
            stated: how the sweep will be analysed, which the record of its tuning keeps.
            begun: runs of the sweep have begun, at the values of a finished search, which is then not
                trained longer where more steps are planned now.

        Returns:
            What `_tune` returns.
        """
        options = self._options
        folder = options.folder / tuning_folder(experiment, tune)
        losses: dict[str, Losses] = {arm: {} for arm in arm_names(experiment)}
        exists = not self._fresh and (folder / "experiment.json").exists()
        if exists:
            earlier = load_sweep(folder)
            if other := why_other_tuning(experiment, tune, earlier):
                raise ConfigError([f"{folder} was tuned otherwise: {other}", _other_folder_hint(options.folder)])
            found = tuning_losses(experiment, tune, earlier, unfinished=True)
            losses |= {arm: by_value for arm, by_value in found.items() if arm in losses}
        checked = not exists
        while True:
            states = {arm: search_state(tune, losses[arm]) for arm in losses}
            trying = tuning_experiment(experiment, tune, planned_trials(tune, losses, states))
            more = any(state.trials for state in states.values())
            if not more and (checked or not self._check_tuned(trying, folder) or begun):
                break
            code = self._run_sweep(trying, folder, parent=options.folder, continues=True, stated=stated)
            if code is None or code:
                return code, None if code is None else experiment
            if options.dry_run:
                return 0, experiment
            found = tuning_losses(experiment, tune, load_sweep(folder))
            losses, checked = {arm: found[arm] for arm in losses}, True
        curves = {arm: state.curve for arm, state in states.items()}
        values = {arm: tuned_value(tune, losses[arm], curve) for arm, curve in curves.items()}
        if not options.dry_run:
            for arm, curve in curves.items():
                self._say(f"{arm}: {tuned_text(tune, values[arm], curve)}")
        return 0, with_tuned_value(experiment, tune, values, curves)

    def _check_tuned(self, trying: Experiment, folder: Path) -> bool:
        """Checks that the runs of a finished search are those of this plan and of its data; returns
        whether some are to be trained longer.
        """
        plan = self._plan(trying, folder)
        if conflicts := find_conflicts(folder, plan.in_order):
            raise ConfigError([*conflicts, _other_folder_hint(self._options.folder)])
        load_data(plan, folder, self._options.dry_run)
        return bool(plan.pending(lambda run: read_planned_state(folder, run).finished))

    def _run_until_decided(self, experiment: Experiment, design: SequentialDesign) -> int | None:
        """Runs the sweep and judges it; adds seeds while the verdict is undecided. Returns what `_run`
        returns.
        """
        folder = self._options.folder
        if not self._fresh:
            experiment = dataclasses.replace(experiment, seeds=seeds_so_far(folder, experiment.seeds))
        while True:
            experiment = dataclasses.replace(experiment, looks=design.levels)
            code = self._run_sweep(experiment, folder, continues=True)
            following = design.next_look(len(experiment.seeds))
            if code is None or code or self._options.dry_run or following is None:
                return code
            if "undecided" not in judge(load_sweep(folder)).claims.values():
                return code
            experiment = dataclasses.replace(experiment, seeds=extend_seeds(experiment.seeds, following))

    def _run_sweep(
        self,
        experiment: Experiment,
        folder: Path,
        parent: Path | None = None,
        continues: bool = False,
        stated: Mapping[str, Any] | None = None,
    ) -> int | None:
        """Runs the experiment in `folder`; also holds the lock of `parent`, if given.

        Args:
            continues: the command goes on after the runs: with the arms, further seeds or the report.
            stated: of the tuning of a sweep, how that sweep will be analysed.

        Returns:
            What `_run` returns.
        """
        plan = self._plan(experiment, folder)
        self._check_folder(folder, plan)
        exists = folder.exists() and not self._fresh
        taken = self._equal_runs.find(plan.in_order, self._earlier(folder))
        problems = [*self._executor.problems(plan), *related_run_problems(self._new_configs(plan, folder))]
        problems += unlike_runs(taken, plan.in_order, self._options.population)
        if exists and (conflicts := find_conflicts(folder, plan.in_order)):
            problems += [*conflicts, _other_folder_hint(folder)]
        if not problems:
            # Data can take minutes, and --fresh moves a sweep: a wrong address is found before.
            self._executor.connect(plan, self._earlier(folder))
        try:
            datasets = load_data(plan, folder if exists else None, self._options.dry_run, taken)
        except (ConfigError, DataError) as error:
            if not problems:
                raise
            problems += error.problems
        if problems:
            raise ConfigError(problems)
        if self._options.dry_run:
            return self._show_dry_run(plan, folder, taken, exists, continues)
        self._check_queue(folder)
        if self._fresh:
            self._archive(folder)
        with contextlib.ExitStack() as locks:
            if parent:
                locks.enter_context(contextlib.closing(SweepLock(parent)))
            lock = locks.enter_context(contextlib.closing(SweepLock(folder)))
            submitted = self._check_queue(folder)
            # Checked again, now that no other process can write here.
            if problems := find_conflicts(folder, plan.in_order):
                raise ConfigError(problems)
            taken = self._equal_runs.take(plan.in_order, folder)
            pending = self._begin(plan, folder, taken, stated)
            # Tuning runs are ranked, and no rule judges them.
            waits = parent is None and write_floors(plan, folder, datasets, self._say)
            ended, stopped = {}, False
            handed_over = self._executor.hand_over(plan, pending, folder, submitted, continues)
            if not handed_over:
                pool = self._executor.pool(plan, pending, folder, lock)
                ended, stopped = pool.run(), pool.stopped
            if waits:
                write_floors(plan, folder, datasets, self._say)
        if pending and handed_over:
            for line in handed_over:
                self._say(line)
            return None
        return self._finish(plan, folder, ended, stopped)

    def _plan(self, experiment: Experiment, folder: Path) -> Plan:
        """Plans the experiment, with the names of the runs that its folder holds."""
        try:
            plan = make_plan(experiment)
        except InvalidPlan as error:
            error.problems += related_run_problems(error.configs.items())
            error.problems += data_problems(error.configs.values(), error.problems)
            raise
        if self._options.baseline is not None and folder == self._options.folder:
            find_arm(parse_arms(plan.record()["arms"], "plan", []), self._options.baseline)
        return plan if self._fresh else plan.in_folder(folder)

    def _new_configs(self, plan: Plan, folder: Path) -> list[tuple[str, ResolvedConfig]]:
        """Returns (arm, config) of the runs that have not started, and so have read no other run."""
        new = [run for run in plan.in_order if self._fresh or read_planned_state(folder, run).name == "new"]
        return [(run.arm.name, run.config) for run in new]

    def _begin(
        self, plan: Plan, folder: Path, taken: Mapping[str, Path], stated: Mapping[str, Any] | None
    ) -> list[PlannedRun]:
        """Shows the plan and writes experiment.json; returns the runs that are left."""
        states = {run.folder: read_planned_state(folder, run) for run in plan.in_order}
        print_plan(self._console, plan, states)
        self._show_power(plan)
        plugins.store(folder, plan.plugins)
        check_records.store(folder, plan.plugins)
        if plan.plugins:
            # Imported here because it needs JAX.
            from zoo.models.kind_facts import store_facts

            store_facts(folder, plan.plugins)
        record = plan.record() | {"command": self._options.command} | ({STATED: stated} if stated else {})
        write_json(folder / "experiment.json", carry_forward_warnings(folder, record))
        pending = plan.pending(lambda run: states[run.folder].finished)
        self._show_taken(plan, taken, "taken", bool(pending))
        if done := len(states) - len(pending) - len(taken):
            self._say(f"{done} of {len(states)} runs were done already")
        return pending

    def _show_taken(self, plan: Plan, taken: Mapping[str, Path], verb: str, more: bool) -> None:
        """Shows how many runs are taken from other sweeps; that none is, if more are to be trained."""
        sweeps = ", ".join(map(str, self._options.runs_from))
        if taken:
            self._say(f"{len(taken)} of {len(plan.in_order)} runs {verb} from {sweeps}, where equal ones have ended")
        elif sweeps and more:
            self._say(f"nothing is taken from {sweeps}: what is left to train has begun here, or has no equal there")

    def _show_dry_run(self, plan: Plan, folder: Path, taken: Mapping[str, Path], exists: bool, continues: bool) -> int:
        options, new = self._options, FolderState("new")
        states = {run.folder: read_planned_state(folder, run) if exists else new for run in plan.in_order}
        states |= {name: read_folder(source).state for name, source in taken.items()}
        print_plan(self._console, plan, states)
        self._show_power(plan)
        if self._show_plan:
            self._show_plan(plan, states, folder)
        pending = plan.pending(lambda run: states[run.folder].finished)
        self._show_taken(plan, taken, "would be taken", bool(pending))
        self._show_cost(plan, pending)
        submitted = submitted_jobs(folder) if exists and options.slurm else {}
        planned = self._executor.preview(plan, pending, folder, self._earlier(folder), submitted, continues)
        self._say(f"dry run: {planned}")
        return 0

    def _show_power(self, plan: Plan) -> None:
        """Shows how small a difference the plan finds, and how often its rules will be undecided."""
        experiment = plan.experiment
        if len(plan.arms) < 2 or experiment.seeds_of_arms:
            return
        noise, metric = parse_noise(plan.noise), experiment.metric
        tuned = not experiment.tuned_at and any(len(tune.seeds) > 1 for tune in experiment.tunings)
        contrasts = named_contrasts(experiment)
        for line in power_lines(contrasts, len(experiment.seeds), experiment.looks, noise, metric, tuned):
            self._say(line)
        if found := plan.found_with_fit:
            self._say(fitted_line(found, metric))
        for line in conjunction_lines(contrasts, experiment.claim.ids if experiment.claim else ()):
            self._say(line)

    def _show_cost(self, plan: Plan, pending: Sequence[PlannedRun]) -> None:
        """Shows what training takes on the cores of a CPU; of a tuning sweep nothing, because it is
        counted with the sweep that it belongs to.
        """
        experiment = plan.experiment
        if experiment.seeds_of_arms or self._options.slurm:
            return
        tuning = sum(self._fewest_left(experiment, tune) for tune in experiment.tunings)
        costs = [training_flops(run, run.arm.steps) for run in plan.runs]
        flops = sum(training_flops(run, run.arm.steps) for run in pending) + tuning * sum(costs) / len(costs)
        parameters = sum(arm.parameters["total"] for arm in plan.arms) / len(plan.arms)
        for line in time_lines(len(pending) + tuning, parameters, flops, bool(tuning)):
            self._say(line)

    def _fewest_left(self, experiment: Experiment, tune: Tune) -> int:
        """Returns how many runs of a tuning are left at least."""
        if experiment.tuned_at or any(tune.field in values for values in experiment.tuned_values.values()):
            return 0
        folder, done = self._options.folder / tuning_folder(experiment, tune), 0
        if not self._fresh and (folder / "experiment.json").exists():
            losses = tuning_losses(experiment, tune, load_sweep(folder), unfinished=True)
            done = sum(len(by_seed) for by_value in losses.values() for by_seed in by_value.values())
        return max(0, fewest_runs(experiment, tune) - done)

    def _finish(self, plan: Plan, folder: Path, ended: Mapping[str, FolderState], stopped: bool) -> int:
        """Shows which runs failed and reports on the sweep; returns the exit code.

        Args:
            plan, folder: of the sweep.
            ended: how the runs ended that were started now, by folder.
            stopped: whether a signal ended them before all had ended.
        """
        states = {run.folder: ended.get(run.folder) or read_planned_state(folder, run) for run in plan.in_order}
        pending = plan.pending(lambda run: states[run.folder].finished)
        for run in pending:
            state, log = states[run.folder], folder / run.folder / "log.txt"
            if run.folder in ended and not (stopped and state.name == "unfinished"):
                self._say(f"failed: {run.name}: {state.reason}" + (f" (see {log})" if log.exists() else ""), "red")
        if stopped and pending:
            raise Preempted(
                f"stopped: {len(states) - len(pending)} of {len(states)} runs are done, the others are saved in "
                f"{folder}; the same command (without --fresh) continues them"
            )
        self._report(folder)
        return 1 if pending else 0

    def _check_folder(self, folder: Path, plan: Plan) -> None:
        """Rejects a folder that cannot be this sweep's, or whose runs used another executor or kernel.

        Their results would differ from those of new runs by rounding.
        """
        check_sweep_folder(folder, plan.in_order)
        if self._fresh:
            return
        mixed = mixed_numerics(folder, plan.in_order, self._options.population)
        if mixed := mixed + mixed_kernels(folder, plan.in_order):
            raise ConfigError([*mixed, _other_folder_hint(folder)])

    def _check_queue(self, folder: Path) -> dict[str, SubmittedJob]:
        """Returns the sweep's jobs in SLURM's queue, which `SlurmLauncher` leaves there.

        Raises:
            ConfigError: there are such jobs, and the runs would also be started here, or their
                folder would be archived.
        """
        submitted = submitted_jobs(folder)
        if self._fresh or not self._options.slurm:
            following = queued_continuations(folder)
            jobs = [*dict.fromkeys(job.task.partition("_")[0] for job in submitted.values()), *following]
            if jobs:
                what = f"{len(submitted)} runs of {folder} are" if submitted else f"what follows in {folder} is"
                raise ConfigError(
                    f"{what} in SLURM's queue: wait for them, or cancel them with scancel {' '.join(jobs)}"
                )
        return submitted

    def _archive(self, folder: Path) -> None:
        if archived := archive_sweep(folder):
            self._say(f"the earlier sweep is in {archived}")
        self._fresh = False


def _other_folder_hint(folder: Path) -> str:
    return f"use another --output, or --fresh to archive {folder}"
