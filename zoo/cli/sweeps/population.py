"""Trains several runs as one program: the process that `zoo run --population` starts."""

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from zoo import config as configs
from zoo.arguments import Parser
from zoo.errors import ConfigError, Diverged, reported

DESCRIPTION = """Trains several runs, or continues them, as one program. Each folder has the config.json of its run;
the runs may differ in seeds and in numbers such as learning rates. `zoo run --population` groups runs and calls this
command."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(prog="python -m zoo.cli.sweeps.population", description=DESCRIPTION)
    made.add_argument(
        "folders", metavar="FOLDER", nargs="+", type=Path, help="folder of a run; its output goes to log.txt there"
    )
    made.add_argument(
        "--executor",
        choices=("auto", "map", "vmap"),
        default="auto",
        help="map: trains the members one after another (on a CPU, bit-identical to separate runs); vmap: vectorises "
        "over them; auto: map on a CPU, else vmap",
    )
    return made


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the flags, trains the runs, and returns the exit code.

    The exit code of a member that failed or was stopped takes precedence over that of one that
    diverged.
    """
    args = parser().parse_args(arguments)
    given = [configs.load(str(folder / "config.json")) for folder in args.folders]
    resolved = [configs.resolve(config) for config in given]
    configs.check_one_program(resolved, args.folders)
    from zoo.training.runtime.allocator import keep_freed_memory

    keep_freed_memory()
    import jax

    from zoo.training.startup import RunRequest
    from zoo.training.trainer import train_runs

    executor = args.executor if args.executor != "auto" else "map" if jax.default_backend() == "cpu" else "vmap"
    if executor == "vmap" and resolved[0].training.dropout_generator == "rbg":
        raise ConfigError(
            "training.dropout_generator=rbg draws other masks in a vectorised population than in separate runs; "
            "use threefry, or --executor map"
        )
    print(f"a population of {len(given)} runs, by {executor}", flush=True)
    with ExitStack() as stack:
        requests = [
            RunRequest(config, folder, _writer(stack, folder))
            for config, folder in zip(given, args.folders, strict=True)
        ]
        outcomes = train_runs(requests, executor)
        for folder, outcome in zip(args.folders, outcomes, strict=True):
            if isinstance(outcome, Exception):
                _writer(stack, folder)(f"error: {outcome}")
    for error in sorted(
        (outcome for outcome in outcomes if isinstance(outcome, Exception)),
        key=lambda error: isinstance(error, Diverged),
    ):
        raise error
    return 0


def _writer(stack: ExitStack, folder: Path) -> Callable[[str], None]:
    """Returns a function that appends lines to a run's log.txt."""
    file = stack.enter_context((folder / "log.txt").open("a", encoding="utf-8", buffering=1))
    return lambda line: print(line, file=file)


if __name__ == "__main__":
    sys.exit(main())
