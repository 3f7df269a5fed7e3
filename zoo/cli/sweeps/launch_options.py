"""The flags of `zoo run` for populations and for SLURM."""

import argparse
import shutil

from zoo.errors import ConfigError

# Flag -> (metavar, help), in the order of the help. All of them need --slurm.
TEXT_FLAGS = {
    "--partition": ("P", "partition, or several with commas"),
    "--account": ("A", "account"),
    "--qos": ("Q", "quality of service"),
    "--time": ("T", "time limit of a job; a longer run is saved and requeued"),
    "--mem": ("SIZE", "memory per node, e.g. 64G"),
    "--gpus-per-node": ("N|KIND:N", "GPUs per node"),
}
NUMBER_FLAGS = {
    "--nodes": ("N", "nodes per run; several train it together"),
    "--tasks-per-node": ("N", "processes per node; a single one uses all its GPUs, several use one each"),
    "--cpus-per-task": ("N", "CPUs per process"),
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
    group = parser.add_argument_group("SLURM cluster (docs/clusters.md)")
    group.add_argument(
        "--slurm",
        action="store_true",
        help="submit the runs as job arrays and return; --jobs limits the parallel tasks of an array, zoo status "
        "shows their progress, and the same command submits the runs that are left",
    )
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


def check(args: argparse.Namespace) -> None:
    """Refuses flags that exclude each other, before any file is read.

    Raises:
        ConfigError: with all problems.
    """
    if not args.population and (args.executor or args.max_members):
        raise ConfigError(f"{'--executor' if args.executor else '--max-members'} needs --population")
    if args.population and args.slurm:
        raise ConfigError(
            "--population trains runs in one process on this machine, and --slurm makes each run a job; use one of them"
        )
    given = [flag for flag in (*TEXT_FLAGS, *NUMBER_FLAGS, RAW_FLAG) if _value(args, flag) not in (None, [])]
    if given and not args.slurm:
        raise ConfigError(f"{', '.join(given)}: only with --slurm")
    if not args.slurm:
        return
    if args.until_decided:
        raise ConfigError(
            "--until-decided waits for results before it adds seeds, and --slurm returns at once; use one of them"
        )
    if problems := list(slurm_options(args).problems()):
        raise ConfigError(problems)
    if not args.dry_run and shutil.which("sbatch") is None:
        raise ConfigError(
            "--slurm: sbatch not found: this machine is not part of a SLURM cluster (--dry-run shows what would be "
            "submitted)"
        )


def population_policy(args: argparse.Namespace):
    """Returns the `PopulationPolicy` of the flags; None without --population."""
    if not args.population:
        return None
    from zoo.lab.launch.populations import PopulationPolicy

    return PopulationPolicy(args.executor or "auto", args.max_members or 0)


def slurm_options(args: argparse.Namespace):
    """Returns the `SlurmOptions` of the flags."""
    from zoo.lab.launch.slurm import SlurmOptions

    values = {_attribute(flag): _value(args, flag) for flag in (*TEXT_FLAGS, *NUMBER_FLAGS)}
    return SlurmOptions(
        max_parallel=args.jobs,
        raw=tuple(args.sbatch),
        **{name: value for name, value in values.items() if value is not None},
    )


def _attribute(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _value(args: argparse.Namespace, flag: str):
    return getattr(args, _attribute(flag))
