"""Computes the measures of `zoo.lab.measures` for finished runs and saves them in their folders.

    python -m zoo.analysis.run_measures RUN [RUN ...] --measures residual_growth,spikes
    python -m zoo.analysis.run_measures SWEEP

For a sweep it computes the measures that its experiment requests and that are missing.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.analysis.measured_run import FUNCTIONS, MeasuredRun, function_of
from zoo.arguments import Parser
from zoo.config import plugins
from zoo.errors import ConfigError, ZooError, reported
from zoo.files import read_object_or_empty, write_json
from zoo.lab.measures import (
    INITIAL_SUFFIX,
    MEASURE_PREFIX,
    MEASURED_FILE,
    find_measure,
    known_measures,
    measure_provenance,
    missing_measures,
    requested_measures,
)
from zoo.lab.results.schema import as_words
from zoo.lab.results.sweep_results import load_sweep


def measure_run(folder: Path, names: Sequence[str]) -> dict[str, float]:
    """Measures a finished run and saves the values in its folder, with the texts of the plug-ins that
    computed them.

    Args:
        folder: the run's folder.
        names: names of measures (`find_measure`).

    Returns:
        {metric: value}.

    Raises:
        ConfigError: the run is not done, or does not have such a measure.
        DataError: its data cannot be read.
    """
    if not (folder / "status.json").exists():
        raise ConfigError(f"{folder} is not a run: it has no status.json")
    status = read_object_or_empty(folder / "status.json")
    if status.get("state") != "done":
        raise ConfigError(f"{folder} is {status.get('state')}; only runs that are done can be measured")
    measured, found = MeasuredRun(folder), {}
    for name in names:
        find_measure(name)
        values = function_of(name)(measured)
        if measured.started_elsewhere:
            values.pop(INITIAL_SUFFIX, None)
        found[name] = {f"{MEASURE_PREFIX}{name}{suffix}": value for suffix, value in values.items()}
    before = read_object_or_empty(folder / MEASURED_FILE)
    entries = {
        name: {
            "values": {metric: value if math.isfinite(value) else None for metric, value in values.items()},
            "from": measure_provenance(folder, status, name),
            **_store_plugin(folder, name),
        }
        for name, values in found.items()
    }
    write_json(folder / MEASURED_FILE, before | entries)
    return {metric: value for values in found.values() for metric, value in values.items()}


def _store_plugin(folder: Path, name: str) -> dict[str, str]:
    """Stores the plug-in that computes a measure; returns its reference, for the measure's record."""
    for plugin in plugins.loaded():
        if any(getattr(entry, "function", None) is FUNCTIONS.get(name, plugin) for entry in plugin.registrations):
            config = read_object_or_empty(folder / "config.json")
            used = [entry.rpartition(":")[0] for entry in as_words(config.get("plugins"))]
            # The text of a plug-in that the run was trained with stays.
            if plugin.name not in used:
                plugins.store(folder, [plugin.reference])
            return {"plugin": plugin.reference}
    return {}


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = Parser(prog="python -m zoo.analysis.run_measures", description=__doc__.partition("\n")[0])
    made.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders of runs or sweeps")
    made.add_argument(
        "--measures",
        metavar="A,B,...",
        help=f"measures of single runs: {', '.join(known_measures())} (default: all that apply)",
    )
    made.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return made


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Measures runs; returns 1 if a requested measure failed."""
    args = parser().parse_args(arguments)
    asked = args.measures.split(",") if args.measures else known_measures()
    if unknown := [name for name in asked if find_measure(name) is None]:
        raise ConfigError(f"--measures: {', '.join(unknown)} is not one of {', '.join(known_measures())}")
    if args.measures and (sweeps := [str(folder) for folder in args.folders if requested_measures(folder)[1]]):
        raise ConfigError(f"--measures is for single runs; give the folders of those in {', '.join(sweeps)}")
    failed = False
    for folder in args.folders:
        if (folder / "experiment.json").is_file():
            load_sweep(folder)  # It refuses a damaged sweep with a line for each problem.
        names, runs = requested_measures(folder)
        alone = not runs
        for run in runs or [folder]:
            left = asked if alone else missing_measures(run, names)
            # A measure that fails does not prevent the others.
            for name in left:
                try:
                    found = measure_run(run, [name])
                except ZooError as error:
                    failed = failed or not alone or bool(args.measures)
                    print(f"{run}: no {name}: {error}", file=sys.stderr)
                    continue
                if not args.quiet:
                    print(*(f"{run}  {metric}  {value:.6g}" for metric, value in found.items()), sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
