"""The flags of `zoo run` that say how runs are launched, and the launchers that they make."""

import argparse
import shutil
from pathlib import Path

from zoo.errors import ConfigError

# Flag -> (placeholder, help), in the order of the help; all of them go with --slurm.
TEXTS = {
    "--partition": ("P", "partition, or several with commas"),
    "--account": ("A", "account"),
    "--qos": ("Q", "quality of service"),
    "--time": ("T", "time limit of a job; a run that takes longer is saved, and queued again"),
    "--mem": ("SIZE", "memory of a node, e.g. 64G"),
    "--gpus-per-node": ("N|KIND:N", "GPUs of a node"),
}
NUMBERS = {
    "--nodes": ("N", "nodes of each run; several train it together"),
    "--tasks-per-node": ("N", "processes on each node; one alone takes all its GPUs, of several each takes one"),
    "--cpus-per-task": ("N", "CPUs of each process"),
    "--grace": ("SECONDS", "how long before the end of its time a run is told to save (default: 120)"),
}
# What changes nothing about jobs but how they are asked for: it goes with --slurm too.
RAW = "--sbatch"


def add_options(parser: argparse.ArgumentParser, positive) -> None:
    """Adds the flags; `positive` reads a whole number from 1 on."""
    group = parser.add_argument_group("several runs as one program", "see docs/populations.md")
    group.add_argument(
        "--population",
        action="store_true",
        help="train runs that differ only in seeds and in numbers (learning rate, decay, warm-up, dropout ...) as one "
        "program; --jobs counts such programs",
    )
    group.add_argument(
        "--executor",
        choices=("map", "vmap"),
        help="with --population: map trains one member after the other, bit-equal to runs alone on a CPU; vmap all in every "
        "operation (default: map on a CPU, else vmap)",
    )
    group.add_argument(
        "--most-members", metavar="N", type=positive, help="with --population: members of a program at most"
    )
    group = parser.add_argument_group("on a SLURM cluster", "see docs/clusters.md")
    group.add_argument(
        "--slurm",
        action="store_true",
        help="submit the runs as job arrays and return; --jobs limits how many of an array run at once, zoo status tells "
        "how far they are, and the same command submits what is left",
    )
    for flag, (placeholder, text) in TEXTS.items():
        group.add_argument(flag, metavar=placeholder, help=text)
    for flag, (placeholder, text) in NUMBERS.items():
        group.add_argument(flag, metavar=placeholder, type=positive, help=text)
    group.add_argument(
        RAW,
        metavar="OPTION",
        action="append",
        default=[],
        help="any other option of sbatch, again for a second one: --sbatch=--constraint=a100",
    )


def check(args: argparse.Namespace) -> None:
    """Refuses flags that do not go together, before anything is read.

    Raises:
        ConfigError: with all of them.
    """
    if not args.population and (args.executor or args.most_members):
        raise ConfigError(f"{'--executor' if args.executor else '--most-members'}: only with --population")
    if args.population and args.slurm:
        raise ConfigError(
            "--population trains runs in one process here, and --slurm makes a job of each; leave out one of them"
        )
    given = [flag for flag in (*TEXTS, *NUMBERS, RAW) if _value(args, flag) not in (None, [])]
    if given and not args.slurm:
        raise ConfigError(f"{', '.join(given)}: only with --slurm")
    if not args.slurm:
        return
    if args.until_decided:
        raise ConfigError(
            "--until-decided waits for results before it adds seeds, and --slurm returns at once; leave out one of them"
        )
    if problems := list(_options(args).problems()):
        raise ConfigError(problems)
    if not args.dry_run and shutil.which("sbatch") is None:
        raise ConfigError(
            "--slurm: sbatch is not there: this is no machine of a SLURM cluster (--dry-run shows what would be submitted)"
        )


def together(args: argparse.Namespace):
    """How --population puts runs together; None without it."""
    from zoo.lab.launch.populations import Together

    return Together(args.executor or "auto", args.most_members or 0) if args.population else None


def _value(args: argparse.Namespace, flag: str):
    return getattr(args, flag.removeprefix("--").replace("-", "_"))


def _options(args: argparse.Namespace):
    from zoo.lab.launch.slurm import Options

    values = {flag.removeprefix("--").replace("-", "_"): _value(args, flag) for flag in (*TEXTS, *NUMBERS)}
    return Options(
        at_once=args.jobs,
        raw=tuple(args.sbatch),
        **{name: value for name, value in values.items() if value is not None},
    )


def queued(folder: Path) -> dict:
    """Jobs of a sweep that are in SLURM's queue, by the run's folder; empty where there is no
    SLURM.

    Raises:
        ConfigError: SLURM does not answer.
    """
    from zoo.lab.launch.slurm_queue import in_queue, read_jobs

    jobs = read_jobs(folder)
    return {run: jobs[run] for run in in_queue(folder, jobs) or {}}


def check_queue(args: argparse.Namespace, folder: Path) -> dict:
    """The jobs of a sweep that are in the queue, which --slurm leaves there.

    Raises:
        ConfigError: there are some, and the runs would be started here too, or their folder moved
            away.
    """
    found = queued(folder)
    if found and (args.fresh or not args.slurm):
        jobs = ", ".join(dict.fromkeys(job.task.partition("_")[0] for job in found.values()))
        raise ConfigError(
            f"{len(found)} runs of {folder} are in SLURM's queue: wait for them, or take them back with scancel "
            f"{jobs.replace(',', '')}"
        )
    return found


def slurm(args: argparse.Namespace, plan, folder: Path, before: dict):
    """The launcher of --slurm.

    Raises:
        ConfigError: batches that the processes of a run cannot share, or a path that no script can
            hold.
    """
    from zoo.lab.launch.slurm import Slurm, divided, unwritable

    options = _options(args)
    if problems := [*unwritable(folder), *divided(plan.in_order, options)]:
        raise ConfigError(problems)
    return Slurm(plan.experiment.name, options, before)
