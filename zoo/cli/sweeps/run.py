"""`zoo run`: trains every arm of an experiment with every seed, and writes the report."""

import argparse
import dataclasses
import functools
import json
from pathlib import Path

from zoo.cli.start_argument import start_argument
from zoo.cli.sweeps import launch_options, run_options
from zoo.cli.sweeps.reproduction import reproduction_command
from zoo.errors import ConfigError, listed

DESCRIPTION = """Runs an experiment: trains every combination of its factors with every seed, judges the contrasts,
and writes DIR/report.html. Finished runs are skipped and unfinished ones continued, so the same command resumes a
sweep that was stopped.

  zoo run experiments/norm_placement.py:quick --dry-run    checks everything and shows the arms with their cost
  zoo run experiments/norm_placement.py:quick              trains them, writes runs/norm_placement-quick/report.html"""

EPILOG = """examples:
  zoo run experiments/norm_placement.py:small --jobs 4
  zoo run --config=llama:tiny --vary model.norm.kind=rmsnorm,layernorm --seeds 3
  zoo run --arm bert=bert:tiny --arm roberta=roberta:tiny --allow parameters,rows,targets
  zoo run --config=gpt2:tiny --arm gpt2= --arm llama=model.norm.kind=rmsnorm,model.ffn.kind=swiglu
  zoo run --leave-one-out=llama:tiny --base=gpt2:tiny --seeds 5
  zoo run experiments/norm_placement.py:quick --tune optimizer.learning_rate=1e-3,3e-3,1e-2
  zoo run experiments/norm_placement.py:quick --until-decided --max-seeds 8
  zoo run experiments/feedforward.py --corpus text:corpus.txt
  zoo run experiments/norm_placement.py --population
  zoo run experiments/norm_placement.py:gpu --slurm --partition gpu --gpus-per-node 4 --time 4:00:00 --dry-run
  zoo run experiments/norm_placement.py:gpu --ray auto --gpus-per-node 1

Ctrl-C asks the active runs to save, then ends; a second Ctrl-C, at least a second later, kills them.
exit codes: 0 all runs ended, 1 a run failed, 2 bad experiment or flags, 75 stopped by a signal, everything saved;
with --slurm 0 as soon as the jobs are in the queue, with --emit as soon as the file is written"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Registers the subcommand."""
    parser = subparsers.add_parser(
        "run",
        help="run an experiment: train every arm with every seed, then write the report",
        usage="zoo run (FILE[:SIZE] | --config FILE --vary PATH=A,B | --arm NAME=CONFIG --arm ... | "
        "--leave-one-out CONFIG --base CONFIG) [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run_options.add_experiment_options(parser)
    run_options.add_comparison_options(parser)
    run_options.add_execution_options(parser)
    launch_options.add_options(parser, run_options.positive)
    parser.set_defaults(handler=run, takes_overrides=True)


def run(args: argparse.Namespace) -> int:
    """Runs the experiment and reports on it; returns the exit code."""
    launch_options.check(args)
    experiment = _experiment(args)
    if args.max_seeds and not args.until_decided:
        raise ConfigError("--max-seeds needs --until-decided")
    if args.devices and not args.dry_run:
        raise ConfigError("--devices plans resources and needs --dry-run; zoo plan plans a single config")
    if args.device and not args.devices:
        raise ConfigError("--device needs --devices")
    if args.json and not args.dry_run:
        raise ConfigError("--json needs --dry-run; zoo report DIR --json prints the results of a sweep")
    if args.json and (args.devices or args.slurm or args.emit):
        raise ConfigError(
            "--json prints arms and runs: leave out --devices, --slurm and --emit; zoo plan CONFIG --json plans one"
        )
    # Imported here because --help and mistakes in flags need none of it.
    from zoo.cli.console import make_console
    from zoo.lab.launch.sweep_options import SweepOptions
    from zoo.lab.launch.workflow import SweepWorkflow

    options = SweepOptions(
        folder=args.output or Path("runs") / experiment.name,
        command=reproduction_command(args),
        jobs=args.jobs,
        fresh=args.fresh,
        dry_run=args.dry_run,
        max_seeds=(args.max_seeds or 10) if args.until_decided else None,
        population=launch_options.population_policy(args),
        slurm=launch_options.slurm_options(args) if args.slurm else None,
        tasks=launch_options.task_options(args),
        runs_from=args.runs_from,
        baseline=args.baseline,
        words=args.words,
    )
    _check_noise_from(args, options.folder)
    console = make_console(quiet=args.json)
    show_plan = functools.partial(_show_resources, args.devices, args.device) if args.devices else None
    show_plan = _print_json if args.json else show_plan

    def report(folder: Path) -> None:
        # A sweep of tuning has other arms.
        _report(folder, console, args.baseline if folder == options.folder else None)

    workflow = SweepWorkflow(options, console, report, show_plan)
    try:
        return workflow.run(experiment)
    except ConfigError as error:
        from zoo.cli.sweeps.named_arms import with_named_arms
        from zoo.lab.planning.plan import InvalidPlan

        if args.base and isinstance(error, InvalidPlan):
            hint = "fields that need each other are one feature: name them in a file, --groups FILE"
            raise ConfigError([*error.problems, hint]) from None
        raise with_named_arms(error, args) from None


def _check_noise_from(args: argparse.Namespace, folder: Path) -> None:
    """Refuses the sweep itself as a source of its noise."""
    own = folder.resolve()
    inside = [str(each) for each in args.noise_from or () if own in (each.resolve(), *each.resolve().parents)]
    if inside:
        raise ConfigError(
            f"--noise-from {listed(inside, 3)}: noise has to be estimated from earlier sweeps, and these runs are of "
            f"{folder} itself; move it first, or use another --output"
        )


def _print_json(plan, states, folder: Path) -> None:
    """Prints the plan of a sweep as one JSON object."""
    from zoo.lab.launch.display import plan_record

    print(json.dumps(plan_record(plan, states, folder), indent=2))


def _show_resources(devices: int, device: str | None, plan, states, folder: Path) -> None:
    """Prints what every arm needs on a number of simulated devices."""
    del states, folder
    from zoo import config
    from zoo.cli.plan_resources import simulate, summary_line
    from zoo.nested import flatten

    simulate(devices)
    from zoo.resources.resource_plan import make_plan

    runs = list({run.arm.name: run for run in reversed(plan.runs)}.values())[::-1]
    print(f"\non {devices} x {device or 'devices of unknown kind'} (zoo plan tells more about one config):")
    width, plans = max(len(run.arm.name) for run in runs), {}
    for run in runs:
        # Arms that differ only in learning rates and the like have the same program.
        key = config.program_key(flatten(run.config))
        needed = plans[key] = plans.get(key) or make_plan(run.config, device)
        print(f"  {run.arm.name:{width}s}  {summary_line(needed)}")
        for warning in needed.warnings:
            print(f"  {'':{width}s}  warning: {warning}")
    print()


def _report(folder: Path, console, baseline: str | None) -> None:
    """Writes the report of a sweep; prints its tables of results, its path, what makes it doubtful
    and the verdict.
    """
    from zoo.cli.sweeps.result_summary import print_results
    from zoo.lab.launch.display import print_line
    from zoo.lab.measures import compute_missing_measures
    from zoo.lab.report.build import build_report
    from zoo.lab.results.caveats import sweep_caveats
    from zoo.lab.results.sweep_results import load_sweep

    compute_missing_measures(folder, lambda line: print_line(console, line))
    sweep = load_sweep(folder)
    sweep = sweep if baseline is None else sweep.with_baseline(baseline)
    print_results(console, sweep)
    report = build_report(sweep, folder / "report.html")
    print_line(console, f"report: {report.path}")
    if done := [run.folder for run in sweep.runs if run.state == "done"]:
        print_line(console, f"another run starts from one of these with, e.g., {start_argument(done[-1])}")
    for line in sweep_caveats(sweep):
        print_line(console, f"caveat: {line}")
    print_line(console, report.verdict.paragraph)


def _experiment(args: argparse.Namespace):
    """Returns the experiment of the flags, with their seeds and changes to the base."""
    from zoo.lab.declarations import used_metrics
    from zoo.lab.experiment import load_experiment
    from zoo.lab.planning.adhoc import changed_base, experiment_from_flags
    from zoo.lab.planning.leave_one_out import ablation
    from zoo.lab.planning.other_corpus import on_corpus
    from zoo.lab.planning.tuned_as import with_values_of
    from zoo.lab.results.noise import noise_of_sweeps

    changes = _changes(args)
    _check_source(args)
    if args.experiment:
        experiment = load_experiment(args.experiment)
    elif args.base:
        recipe = args.leave_one_out or args.add_one_in
        experiment = ablation(recipe, args.base, bool(args.add_one_in), args.groups, args.pairs, args.name)
    else:
        experiment = experiment_from_flags(args.config, args.vary, args.name, args.arms)
    if args.corpus:
        experiment = on_corpus(experiment, args.corpus)
    base = changed_base(experiment, changes)
    if args.tune_seeds and not (args.tune or experiment.tune):
        raise ConfigError("--tune-seeds needs --tune")
    if args.tuned_as and args.tune_seeds:
        raise ConfigError("--tune-seeds: with --tuned-as nothing is tuned")
    allowed = (name.strip() for name in args.allow.split(",") if name.strip())
    experiment = dataclasses.replace(
        experiment,
        tune=_tune(args, experiment),
        base=base,
        seeds=args.seeds or experiment.seeds,
        allow=tuple(dict.fromkeys([*experiment.allow, *allowed])),
        match=args.match or experiment.match,
        metric=experiment.metric if args.metric is None else args.metric,
        measures=tuple(dict.fromkeys([*experiment.measures, *args.measures])),
    )
    if args.noise_from:
        noise = noise_of_sweeps(args.noise_from, used_metrics(experiment.metric, experiment.contrasts))
        experiment = dataclasses.replace(experiment, noise=noise)
    return with_values_of(experiment, args.tuned_as) if args.tuned_as else experiment


def _check_source(args: argparse.Namespace) -> None:
    """Refuses flags that name no experiment, or two."""
    recipes = [flag for flag in ("--leave-one-out", "--add-one-in") if getattr(args, flag[2:].replace("-", "_"))]
    if recipes or args.base or args.groups or args.pairs:
        if len(recipes) != 1 or not args.base:
            raise ConfigError("give one of --leave-one-out CONFIG and --add-one-in CONFIG, with --base CONFIG")
        if args.experiment or args.config or args.arms or args.vary:
            raise ConfigError(
                f"{recipes[0]} makes its own arms; leave out the experiment file, --config, --vary and --arm"
            )
        if args.corpus is not None:
            raise ConfigError("--corpus needs an experiment file; set the text by --set data.source=...")
        return
    if bool(args.experiment) == bool(args.config or args.arms):
        other = args.config or (f"--arm {args.arms[0]}" if args.arms else "")
        raise ConfigError(
            "give either an experiment file, or --config=FILE with --vary PATH=A,B, or --arm NAME=CONFIG twice"
            + (f"; {args.experiment} and {other} are both given" if other else "")
        )
    if args.experiment and (args.vary or args.name):
        raise ConfigError(
            f"{'--vary' if args.vary else '--name'} needs --config=FILE; an experiment file declares its own factors"
        )
    if args.corpus is not None and not args.experiment:
        raise ConfigError("--corpus needs an experiment file; with --config set the text by --set data.source=...")
    if args.experiment and args.metric is not None:
        raise ConfigError("--metric needs --config=FILE or --arm; an experiment file declares its own metric")
    if args.config and not (args.vary or args.arms or args.seeds):
        raise ConfigError("--config without --vary, --arm or --seeds: nothing varies; for a single run use train.py")


def _tune(args: argparse.Namespace, experiment):
    """Returns what is tuned by the flags, or else by the experiment."""
    from zoo import config
    from zoo.lab.declarations import FIRST_TUNING_SEED, NEAR_ONE
    from zoo.lab.experiment import Tune

    tunings = experiment.tunings
    if args.tune:
        tunings = []
        for text in args.tune:
            path, equals, values = text.partition("=")
            if not equals or not all(values.split(",")):
                raise ConfigError(f"--tune {text}: expected FIELD=VALUE,VALUE,...")
            found = config.field_at(path)
            numeric = found is not None and found.kind in (int, float)
            tried = (config.parse_value(found, value.strip()) if numeric else value for value in values.split(","))
            tunings.append(Tune(path, tuple(tried), distance_to_one=path.rpartition(".")[2] in NEAR_ONE))
    if tunings and args.tune_seeds:
        # A number of seeds counts from the first tuning seed, apart from those of experiments.
        is_number = args.tune_seeds == tuple(range(len(args.tune_seeds)))
        seeds = tuple(FIRST_TUNING_SEED + seed for seed in args.tune_seeds) if is_number else args.tune_seeds
        tunings = [dataclasses.replace(tune, seeds=seeds) for tune in tunings]
    return tuple(tunings) or None


def _changes(args: argparse.Namespace) -> dict[str, str]:
    """Returns the flat overrides of --set and --config.PATH."""
    from zoo import config

    if wrong := [f"--set {text}: expected PATH=VALUE" for text in args.changes if "=" not in text]:
        raise ConfigError(wrong)
    return config.parse_overrides([*args.overrides, *(f"--config.{text}" for text in args.changes)])
