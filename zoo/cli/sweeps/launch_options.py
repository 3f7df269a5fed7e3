"""The flags of `zoo run` for populations, and for SLURM, Ray and other schedulers."""

import argparse
import re
import shutil
from pathlib import Path

from zoo.errors import ConfigError, shown

# Flag -> (metavar, help), in the order of the help. These need a scheduler.
RESOURCE_FLAGS = {
    "--gpus-per-node": ("N|KIND:N", "GPUs per node and run; KIND only with --slurm"),
    "--cpus-per-task": ("N", "CPUs per process"),
    "--mem": ("SIZE", "memory per node and run, e.g. 64G"),
}
# These need --slurm.
TEXT_FLAGS = {
    "--partition": ("P", "partition, or several with commas"),
    "--account": ("A", "account"),
    "--qos": ("Q", "quality of service"),
    "--time": ("T", "time limit of a job; a longer run is saved and requeued"),
}
NUMBER_FLAGS = {
    "--nodes": ("N", "nodes per run; several train it together"),
    "--tasks-per-node": ("N", "processes per node; a single one uses all its GPUs, several use one each"),
    "--grace": ("SECONDS", "how long before its time limit a run is asked to save (default: 120)"),
}
# Further options of sbatch; it needs --slurm too.
RAW_FLAG = "--sbatch"


def add_options(parser: argparse.ArgumentParser, positive) -> None:
    """Adds the flags.

    Args:
        parser: parser of `zoo run`.
        positive: argparse type of positive integers.
    """
    group = parser.add_argument_group("several runs as one program (docs/populations.md)")
    group.add_argument(
        "--population",
        action="store_true",
        help="train runs that differ only in seeds and numeric hyperparameters (learning rate, weight decay, warm-up, "
        "dropout ...) as one program; --jobs then counts programs",
    )
    group.add_argument(
        "--executor",
        choices=("map", "vmap"),
        help="with --population: map trains the members one after another (on a CPU, bit-identical to separate runs); "
        "vmap vectorises over them (default: map on a CPU, else vmap)",
    )
    group.add_argument(
        "--max-members", metavar="N", type=positive, help="with --population: maximum members of a program"
    )
    _add_scheduler_options(parser, positive)
    group = parser.add_argument_group("with --slurm")
    for flag, (metavar, text) in TEXT_FLAGS.items():
        group.add_argument(flag, metavar=metavar, help=text)
    for flag, (metavar, text) in NUMBER_FLAGS.items():
        group.add_argument(flag, metavar=metavar, type=positive, help=text)
    group.add_argument(
        RAW_FLAG,
        metavar="OPTION",
        action="append",
        default=[],
        help="any other option of sbatch, e.g. --sbatch=--constraint=a100; may be repeated",
    )


def _add_scheduler_options(parser: argparse.ArgumentParser, positive) -> None:
    """Adds the flags that pick a scheduler, and those that all of them take."""
    group = parser.add_argument_group("clusters (docs/clusters.md)")
    group.add_argument(
        "--slurm",
        action="store_true",
        help="submit the runs as job arrays of SLURM and return; --jobs limits the parallel tasks of an array, zoo "
        "status shows their progress, and the same command submits the runs that are left",
    )
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        nargs="?",
        const="local",
        help="train the runs as tasks of the Ray cluster at HOST:PORT, or of this machine's with auto; without an "
        "address a cluster on this machine starts and ends with the command",
    )
    group.add_argument(
        "--emit",
        metavar="FILE",
        type=Path,
        help="write the runs as lines of JSON, for another scheduler, and return: command, folder, resources, "
        "prerequisites",
    )
    for flag, (metavar, text) in RESOURCE_FLAGS.items():
        group.add_argument(flag, metavar=metavar, type=positive if flag == "--cpus-per-task" else str, help=text)


def check(args: argparse.Namespace) -> None:
    """Refuses flags that exclude each other, before any file is read.

    Raises:
        ConfigError: with all problems.
    """
    if not args.population and (args.executor or args.max_members):
        raise ConfigError(f"{'--executor' if args.executor else '--max-members'} needs --population")
    schedulers = [flag for flag in ("--slurm", "--ray", "--emit") if _value(args, flag) not in (None, False)]
    if len(schedulers) > 1:
        raise ConfigError(f"{' and '.join(schedulers)}: a sweep has one scheduler; use one of them")
    if args.population and schedulers:
        raise ConfigError(
            f"--population trains runs in one process on this machine, and {schedulers[0]} makes each run a "
            f"{'job' if args.slurm else 'task'}; use one of them"
        )
    if not args.slurm and (found := _given(args, *TEXT_FLAGS, *NUMBER_FLAGS, RAW_FLAG)):
        raise ConfigError(f"{found}: only with --slurm")
    if not schedulers and (found := _given(args, *RESOURCE_FLAGS)):
        raise ConfigError(f"{found}: only with --slurm, --ray or --emit")
    if args.slurm:
        _check_slurm(args)
    elif schedulers:
        _check_tasks(args, schedulers[0])


def _given(args: argparse.Namespace, *flags: str) -> str:
    return ", ".join(flag for flag in flags if _value(args, flag) not in (None, []))


def _check_slurm(args: argparse.Namespace) -> None:
    if problems := list(slurm_options(args).problems()):
        raise ConfigError(problems)
    if not args.dry_run and shutil.which("sbatch") is None:
        raise ConfigError(
            "--slurm: sbatch not found: this machine is not part of a SLURM cluster (--dry-run shows what would be "
            "submitted)"
        )


def _check_tasks(args: argparse.Namespace, scheduler: str) -> None:
    """Refuses what Ray and other schedulers do not take, and Ray where it is not installed."""
    if args.jobs:
        raise ConfigError(
            f"--jobs: with {scheduler} the resources of the cluster decide how many runs train at once; leave it out, "
            "or set --cpus-per-task"
        )
    if problems := list(task_options(args).problems()):
        raise ConfigError(problems)
    if args.ray is None:
        return
    if args.ray not in ("local", "auto") and not re.fullmatch(r"[^/\s]+:[0-9]{1,5}", args.ray):
        advice = "run zoo on a machine of the cluster" if "://" in args.ray else "name the experiment before --ray"
        raise ConfigError(f"--ray {shown(args.ray)}: expected HOST:PORT or auto; {advice}")
    if not args.dry_run:
        from zoo.lab.launch.ray_pool import import_ray

        import_ray()


def population_policy(args: argparse.Namespace):
    """Returns the `PopulationPolicy` of the flags; None without --population."""
    if not args.population:
        return None
    from zoo.lab.launch.populations import PopulationPolicy

    return PopulationPolicy(args.executor or "auto", args.max_members or 0)


def slurm_options(args: argparse.Namespace):
    """Returns the `SlurmOptions` of the flags."""
    from zoo.lab.launch.slurm import SlurmOptions

    values = {_attribute(flag): _value(args, flag) for flag in (*RESOURCE_FLAGS, *TEXT_FLAGS, *NUMBER_FLAGS)}
    return SlurmOptions(
        max_parallel=args.jobs,
        raw=tuple(args.sbatch),
        **{name: value for name, value in values.items() if value is not None},
    )


def task_options(args: argparse.Namespace):
    """Returns the `TaskOptions` of the flags; None without --ray and --emit."""
    if args.ray is None and args.emit is None:
        return None
    from zoo.lab.launch.run_task import TaskOptions

    return TaskOptions(args.gpus_per_node, args.cpus_per_task, args.mem, args.ray, args.emit)


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _value(args: argparse.Namespace, flag: str):
    return getattr(args, _attribute(flag))
