"""`zoo run`: every arm of an experiment with every seed, on this machine or on a cluster, and the
report.
"""

import argparse
import contextlib
import dataclasses
import os
from pathlib import Path

from zoo.cli.sweeps import launch_options
from zoo.errors import ConfigError, Preempted
from zoo.lab.launch import reproduction
from zoo.nested import flatten

DESCRIPTION = """Runs an experiment: what it prepares, then every combination of its factors with every seed, each as a process of its
own, then the report. Runs that are done are skipped and half-done ones continued, so the same command goes on where it was stopped."""

EPILOG = """examples:
  zoo run experiments/norm_placement.py:quick
  zoo run experiments/norm_placement.py:small --jobs 4
  zoo run experiments/norm_placement.py:quick --until-decided --most-seeds 8
  zoo run experiments/norm_placement.py --population
  zoo run experiments/norm_placement.py:quick --tune optimizer.learning_rate=1e-3,3e-3,1e-2
  zoo run experiments/norm_placement.py:gpu --slurm --partition gpu --gpus-per-node 4 --time 4:00:00 --dry-run
  zoo run --config=configs/llama.py:tiny --vary model.norm.kind=rmsnorm,layernorm --seeds 3

Ctrl-C asks the runs under way to save and ends; another one, a second later or more, kills them.
exit codes: 0 all runs ended, 1 a run failed, 2 bad experiment or flags, 75 stopped by a signal, everything saved;
with --slurm 0 as soon as the jobs are in the queue"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "run",
        help="run an experiment and report on it",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "experiment", metavar="FILE[:SIZE]", nargs="?", help="experiment file (it is executed: trust it)"
    )
    parser.add_argument("--config", metavar="FILE[:ARGUMENT]", help="instead of an experiment file: what --vary varies")
    parser.add_argument(
        "--vary",
        metavar="PATH=A,B,...",
        action="append",
        default=[],
        help="with --config: a field and its values; again for a second field",
    )
    parser.add_argument(
        "--name", help="with --config: name of the sweep (default: from the config file and the fields)"
    )
    parser.add_argument(
        "--jobs",
        metavar="N",
        type=_positive,
        help="runs at once (default: 1; with --slurm as many as there is room for)",
    )
    parser.add_argument(
        "--seeds", metavar="N|A,B,...", type=_seeds, help='number of seeds from 0 on, or a list ("7,": seed 7)'
    )
    parser.add_argument(
        "--allow",
        metavar="WHAT,...",
        default="",
        help="what arms may differ in besides what varies: tokens, parameters, flops, levels, text, rows, tokenizer",
    )
    parser.add_argument(
        "--match",
        metavar="WHAT:FIELD",
        help="make all arms as large as the first one by a field: parameters:model.ffn.hidden_dim, flops:model.num_layers",
    )
    parser.add_argument(
        "--tune",
        metavar="FIELD=A,B,...",
        help="before that, find each arm's best value of a grid, e.g. optimizer.learning_rate=1e-3,3e-3,1e-2, with seeds "
        "that decide nothing",
    )
    parser.add_argument(
        "--tune-seeds",
        metavar="N|A,B,...",
        type=_seeds,
        help="with --tune: number of seeds from 1000 on, or a list (default: 1)",
    )
    parser.add_argument(
        "--until-decided",
        action="store_true",
        help="add a seed at a time until the contrasts are decided; the intervals are wider for it, so that all looks "
        "together err in at most 5 %%",
    )
    parser.add_argument(
        "--most-seeds", metavar="N", type=_positive, help="with --until-decided: the most seeds (default: 10)"
    )
    parser.add_argument("--output", metavar="DIR", type=Path, help="the sweep's folder (default: runs/NAME)")
    parser.add_argument(
        "--fresh", action="store_true", help="move an earlier sweep in that folder aside and start anew"
    )
    parser.add_argument("--dry-run", action="store_true", help="check everything, show what would run, write nothing")
    parser.add_argument(
        "--set",
        metavar="PATH=VALUE",
        dest="changes",
        action="append",
        default=[],
        help="change a field of the base config, for all arms, not for what is prepared; --config.PATH=VALUE is the same",
    )
    launch_options.add_options(parser, _positive)
    parser.set_defaults(handler=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Plans, runs and reports; returns the exit code."""
    launch_options.check(args)
    experiment = _experiment(args)
    folder = args.output or Path("runs") / experiment.name
    if args.most_seeds and not args.until_decided:
        raise ConfigError("--most-seeds goes with --until-decided")
    design = _looks(args, experiment, folder) if args.until_decided else None
    if experiment.tune:
        code, experiment = _tuned(args, experiment, folder, max(design.levels) if design else 0)
        if code or experiment is None:
            return code
    return _until_decided(args, experiment, folder, design) if design else _once(args, experiment, folder)


def _looks(args: argparse.Namespace, experiment, folder: Path):
    """When seeds that are added are judged, planned before anything runs."""
    from zoo.lab.results.interim import plan_looks

    if not experiment.contrasts:
        raise ConfigError("--until-decided: the experiment states no contrast that could be decided")
    return plan_looks(Path(os.devnull) if args.fresh else folder, experiment.seeds, args.most_seeds or 10)


def _tuned(args: argparse.Namespace, experiment, folder: Path, most: int):
    """Finds each arm's value of what is tuned: (exit code, the experiment with these values).

    The arms are checked before, with the base's value. A dry run shows what would be tried, and
    goes on with the base's value where that was not done yet. There is no experiment while the
    trials are still in a queue.
    """
    from zoo.lab.declarations import TUNING_FOLDER
    from zoo.lab.planning import tuning
    from zoo.lab.planning.plan import make_plan
    from zoo.lab.results.interim import extend_seeds
    from zoo.lab.results.sweep_results import load_sweep

    _check_folder(args, folder, make_plan(dataclasses.replace(experiment, seeds=extend_seeds(experiment.seeds, most))))
    searching = tuning.tuning_experiment(experiment)
    if args.fresh and not args.dry_run:
        for inside in (folder, folder / TUNING_FOLDER):
            launch_options.check_queue(args, inside)
        _set_aside(folder, _console())
        args.fresh = False
    code = _once(args, searching, folder / TUNING_FOLDER, folder)
    if code:
        return code, experiment
    try:
        from zoo.lab.results.tuning_choice import tuning_choices

        found = tuning_choices(experiment, load_sweep(folder / TUNING_FOLDER))
    except ConfigError:
        if args.dry_run:
            return 0, experiment
        if args.slurm:
            _say(_console(), "once these are done, the same command submits the arms, each with its best value")
            return 0, None
        raise
    return 0, tuning.with_tuned_values(experiment, {arm: choice.value for arm, choice in found.items()})


def _until_decided(args: argparse.Namespace, experiment, folder: Path, design) -> int:
    """Runs, judges, and adds seeds as long as nothing is decided."""
    from zoo.lab.results.interim import extend_seeds, seeds_so_far
    from zoo.lab.results.sweep_results import load_sweep
    from zoo.lab.results.verdict import judge

    if not args.fresh:
        experiment = dataclasses.replace(experiment, seeds=seeds_so_far(folder, experiment.seeds))
    while True:
        experiment = dataclasses.replace(experiment, looks=design.levels)
        code = _once(args, experiment, folder)
        args.fresh = False
        following = design.next(len(experiment.seeds))
        if code or args.dry_run or following is None or judge(load_sweep(folder)).overall != "undecided":
            return code
        experiment = dataclasses.replace(experiment, seeds=extend_seeds(experiment.seeds, following))


def _check_folder(args: argparse.Namespace, folder: Path, plan) -> None:
    """Refuses a folder that is no sweep's, or whose runs were computed in another way."""
    from zoo.lab.launch.populations import mixed_executors

    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--output {folder} is a file; name a folder")
    if (folder / "status.json").exists():
        raise ConfigError(f"{folder} is the folder of a single run; give another --output")
    if not args.fresh and (mixed := mixed_executors(folder, plan.in_order, launch_options.together(args))):
        raise ConfigError([*mixed, f"give another --output, or --fresh to move {folder} aside"])


def _once(args: argparse.Namespace, experiment, folder: Path, around: Path | None = None) -> int:
    """Runs an experiment with the seeds that it has. Nobody else begins anything in `around`
    meanwhile.
    """
    from zoo.lab.launch.display import show_plan
    from zoo.lab.launch.sweep_folder import conflicts, read_state
    from zoo.lab.planning.plan import make_plan

    plan = make_plan(experiment)
    _check_folder(args, folder, plan)
    console = _console()
    again = folder.exists() and not args.fresh
    if again and (problems := conflicts(folder, plan.in_order)):
        raise ConfigError([*problems, f"give another --output, or --fresh to move {folder} aside"])
    if not args.dry_run:
        _prepare_data(plan)
        return _run(args, plan, folder, console, around)
    from zoo.lab.launch.sweep_folder import State

    _prepare_data(plan, read_only=True)
    states = {run.folder: read_state(folder / run.folder) if again else State("new") for run in plan.in_order}
    show_plan(console, plan, states)
    _show_detectable(console, plan, folder if again else None)
    pending = plan.pending(lambda run: states[run.folder].finished)
    if args.slurm:
        before = launch_options.queued(folder) if again else {}
        for text in launch_options.slurm(args, plan, folder, before).shown(pending, folder):
            print(text)
        left = len(pending) - sum(run.folder in before for run in pending)
        _say(console, f"dry run: {left} of {len(states)} runs would be submitted, in {folder}")
        return 0
    groups = _groups(args, pending)
    how = f"in {_populations(groups)}, " if args.population else ""
    _say(
        console, f"dry run: {len(pending)} of {len(states)} runs would run, {how}{args.jobs or 1} at once, in {folder}"
    )
    return 0


def _show_detectable(console, plan, folder: Path | None) -> None:
    """Says how small a difference the seeds can show; `folder` is that of an earlier sweep, if
    there is one.
    """
    from zoo.lab.results.interim import detectable_effect_lines
    from zoo.lab.results.sweep_results import load_sweep
    from zoo.lab.statistics.paired import ALPHA
    from zoo.lab.statistics.sequential import SequentialDesign

    experiment = plan.experiment
    if len(plan.arms) < 2:
        return
    try:
        earlier = load_sweep(folder) if folder else None
    except ConfigError:
        earlier = None
    seeds = len(experiment.seeds)
    for line in detectable_effect_lines(seeds, SequentialDesign(experiment.looks).alpha(seeds) if experiment.looks else ALPHA, earlier):
        _say(console, line)


def _prepare_data(plan, read_only: bool = False) -> None:
    """Reads and tokenises each text once, so that bad data is told before any run starts and runs
    at the same time share the work.

    With `read_only` the texts are read and nothing is kept. Where the tokenizer is that of a run
    that is still to be prepared, there is nothing to tokenise with.
    """
    from zoo.config.fields import TASKS
    from zoo.data import check_sources, load
    from zoo.lab.planning.prerequisites import references

    prepared = set()
    for run in plan.in_order:
        untrained = "data.tokenizer.path" in references(run.config)
        # The data of arms with other prepared tokenizers are the same as long as none is there.
        wanted = tuple(
            (path, value)
            for path, value in flatten(run.config).items()
            if path.startswith("data.") and not (untrained and path == "data.tokenizer.path")
        )
        if wanted not in prepared:
            prepared.add(wanted)
            if untrained or (read_only and run.config.objective.kind not in TASKS):
                read(run.config)
            else:
                load(run.config)


def _run(args: argparse.Namespace, plan, folder: Path, console, around: Path | None) -> int:
    from zoo.files import write_json
    from zoo.lab.launch.display import LiveDisplay, PlainDisplay, show_plan
    from zoo.lab.launch.launcher import Local
    from zoo.lab.launch.progress import SweepProgress
    from zoo.lab.launch.sweep_folder import SweepLock, carried_over, conflicts, read_state

    launch_options.check_queue(args, folder)
    if args.fresh:
        _set_aside(folder, console)
    with contextlib.ExitStack() as held:
        if around:
            held.enter_context(contextlib.closing(SweepLock(around)))
        lock = held.enter_context(contextlib.closing(SweepLock(folder)))
        before = launch_options.check_queue(args, folder)
        # Once more, now that nobody else can write here.
        if problems := conflicts(folder, plan.in_order):
            raise ConfigError(problems)
        states = {run.folder: read_state(folder / run.folder) for run in plan.in_order}
        show_plan(console, plan, states)
        _show_detectable(console, plan, folder)
        record = plan.record() | {"command": reproduction.command(args)}
        write_json(folder / "experiment.json", carried_over(folder, record))
        pending = plan.pending(lambda run: states[run.folder].finished)
        done = len(states) - len(pending)
        if done:
            _say(console, f"{done} of {len(states)} runs were done already")
        if args.slurm:
            launcher = launch_options.slurm(args, plan, folder, before)
        else:
            groups, jobs = _groups(args, pending), args.jobs or 1
            if args.population and pending:
                _say(console, f"{len(pending)} runs in {_populations(groups)}")
            progress = SweepProgress(
                folder, plan.in_order, pending, jobs * max(map(len, groups), default=1), plan.experiment.metric
            )
            launcher = Local(
                jobs,
                (LiveDisplay if console.is_terminal else PlainDisplay)(console, progress),
                launch_options.together(args),
            )
        launched = launcher.launch(pending, folder, lock)
    if pending and args.slurm:
        new = sum(run.folder not in before for run in pending)
        _say(
            console,
            f"submitted: {new} runs as jobs {', '.join(launched.queued)}"
            if new
            else "what is left is in the queue already",
        )
        _say(console, f"zoo status {folder} tells how far they are; zoo report {folder} judges what there is")
        return 0
    return _finish(plan, folder, console, launched.ends, launched.stopped)


def _groups(args: argparse.Namespace, pending) -> list[list]:
    """The runs of every process that would start, were all of them ready."""
    from zoo.lab.launch.populations import populations

    together = launch_options.together(args)
    return [[run] for run in pending] if together is None else list(populations(pending, together))


def _populations(groups: list[list]) -> str:
    sizes = ", ".join(str(len(members)) for members in groups)
    return f"{len(groups)} population{'' if len(groups) == 1 else 's'} ({sizes})"


def _set_aside(folder: Path, console) -> None:
    """Moves an earlier sweep out of the way, unless somebody is at it."""
    from zoo.lab.declarations import TUNING_FOLDER
    from zoo.lab.launch.sweep_folder import SweepLock, move_aside

    with contextlib.ExitStack() as held:
        held.enter_context(contextlib.closing(SweepLock(folder)))
        # Trials that outlive a killed `zoo run` hold their own folder alone.
        if (folder / TUNING_FOLDER).is_dir():
            held.enter_context(contextlib.closing(SweepLock(folder / TUNING_FOLDER)))
        if any(entry.name != ".lock" for entry in folder.iterdir()):
            _say(console, f"the earlier sweep is in {move_aside(folder)}")


def _finish(plan, folder: Path, console, ends, stopped: bool) -> int:
    """Says what came of the runs, writes the report, and returns the exit code."""
    from zoo.lab.launch.sweep_folder import read_state

    states = {run.folder: ends.get(run.folder) or read_state(folder / run.folder) for run in plan.in_order}
    left = plan.pending(lambda run: states[run.folder].finished)
    for run in left:
        if run.folder in ends and not (stopped and states[run.folder].name == "half-done"):
            log = folder / run.folder / "log.txt"
            _say(
                console,
                f"failed: {run.name}: {states[run.folder].reason}" + (f" (see {log})" if log.exists() else ""),
                "red",
            )
    if stopped and left:
        done = len(states) - len(left)
        raise Preempted(
            f"stopped: {done} of {len(states)} runs are done, the others are saved as far as "
            f"they came in {folder}; the same command (without --fresh) continues them"
        )
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.build import build_report
    from zoo.lab.results.sweep_results import load_sweep

    compute_missing_measures(folder, lambda line: _say(console, line))
    report = build_report(load_sweep(folder), folder / "report.html")
    _say(console, f"report: {report.path}")
    _say(console, report.verdict.paragraph)
    return 1 if left else 0


def _console():
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160
    return console


def _say(console, text: str, style: str = "") -> None:
    from rich.text import Text

    # Uncut, so that a path can be copied and a log file searched.
    console.print(Text(text, style), soft_wrap=True)


def _experiment(args: argparse.Namespace):
    """The experiment that the flags name, with their seeds and changes of the base."""
    from zoo import config
    from zoo.lab.experiment import Match, load_experiment
    from zoo.lab.planning.adhoc import experiment_from_flags

    changes = _changes(args)
    if bool(args.experiment) == bool(args.config):
        raise ConfigError(
            "give either an experiment file or --config=FILE with --vary PATH=A,B"
            + (f"; {args.experiment} and {args.config} are both given" if args.config else "")
        )
    if args.experiment and (args.vary or args.name):
        raise ConfigError(
            f"{'--vary' if args.vary else '--name'} goes with --config=FILE; an experiment file says what varies"
        )
    if args.config and not args.vary and not args.seeds:
        raise ConfigError("--config without --vary or --seeds: nothing varies; for a single run use train.py")
    experiment = (
        load_experiment(args.experiment)
        if args.experiment
        else experiment_from_flags(args.config, args.vary, args.name)
    )
    varied = {
        path: factor for factor, levels in experiment.factors.items() for level in levels.values() for path in level
    }
    if clash := [f'{path} cannot be set: factor "{varied[path]}" varies it' for path in changes if path in varied]:
        raise ConfigError(clash)
    if "seed" in changes:
        raise ConfigError("seed cannot be set for all runs; use --seeds")
    what, colon, path = (args.match or "").partition(":")
    if args.match and not colon:
        raise ConfigError(f"--match {args.match}: expected WHAT:FIELD, e.g. parameters:model.ffn.hidden_dim")
    if args.tune_seeds and not (args.tune or experiment.tune):
        raise ConfigError("--tune-seeds goes with --tune")
    return dataclasses.replace(
        experiment,
        tune=_tune(args, experiment),
        base=config.override(experiment.base, changes),
        seeds=args.seeds or experiment.seeds,
        allow=tuple(
            dict.fromkeys([*experiment.allow, *(name.strip() for name in args.allow.split(",") if name.strip())])
        ),
        match=Match(what, path) if args.match else experiment.match,
    )


def _tune(args: argparse.Namespace, experiment):
    """What is tuned, by the flags or by the experiment."""
    from zoo import config
    from zoo.lab.declarations import FIRST_TUNING_SEED
    from zoo.lab.experiment import Tune

    tune = experiment.tune
    if args.tune:
        path, equals, values = args.tune.partition("=")
        if not equals or not all(values.split(",")):
            raise ConfigError(f"--tune {args.tune}: expected FIELD=VALUE,VALUE,...")
        found = config.field_at(path)
        numeric = found is not None and found.kind in (int, float)
        tune = Tune(
            path, tuple(config.parse_value(found, value.strip()) if numeric else value for value in values.split(","))
        )
    if tune and args.tune_seeds:
        # A number of seeds counts from where those that decide never are.
        counted = args.tune_seeds == tuple(range(len(args.tune_seeds)))
        tune = dataclasses.replace(
            tune, seeds=tuple(FIRST_TUNING_SEED + seed for seed in args.tune_seeds) if counted else args.tune_seeds
        )
    return tune


def _changes(args: argparse.Namespace) -> dict[str, str]:
    """Flat overrides from --set and --config.PATH."""
    from zoo import config

    if wrong := [f"--set {text}: expected PATH=VALUE" for text in args.changes if "=" not in text]:
        raise ConfigError(wrong)
    return config.parse_overrides([*args.overrides, *(f"--config.{text}" for text in args.changes)])


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _seeds(text: str) -> tuple[int, ...]:
    """Reads "3" as 0, 1, 2 and "0,5" or "5," as a list."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 1 and parts[-1] == "":
        parts.pop()
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of seeds nor a list like 0,1,5")
    if "," in text:
        return tuple(int(part) for part in parts)
    return tuple(range(_positive(text)))
