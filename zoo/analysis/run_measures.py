"""Computes the measures of `zoo.lab.measures` for finished runs and saves them in their folders.

    python -m zoo.analysis.run_measures RUN [RUN ...] --measures residual_growth,spikes
    python -m zoo.analysis.run_measures SWEEP

For a sweep it computes the measures that its experiment requests and that are missing.
"""

import argparse
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from zoo.analysis.activations import record_activations
from zoo.analysis.position_similarity import cosines_of_run, mean_by_distance
from zoo.analysis.probes import probe
from zoo.data.sources.synthetic import SYNTHETIC_TASKS
from zoo.errors import ConfigError, ZooError, reported
from zoo.files import is_step, read_json, read_json_lines, read_object_or_empty, write_json
from zoo.lab.measures import (
    INITIAL_SUFFIX,
    MEASURE_PREFIX,
    MEASURED_FILE,
    MEASURES,
    measure_provenance,
    missing_measures,
    requested_measures,
    tasks_in,
)
from zoo.lab.results.run_records import load_run
from zoo.lab.results.sweep_results import load_sweep
from zoo.training.trained_run import INITIAL as AT_INITIAL_VALUES
from zoo.training.trained_run import TRAINED, TrainedRun, load_trained, trained_and_initial

ROWS, NEAR = 8, 4
SUFFIX = {TRAINED: "", AT_INITIAL_VALUES: INITIAL_SUFFIX}


class MeasuredRun:
    """A run to be measured; what several measures need is read only once."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The lines of dynamics.jsonl.

        Raises:
            ConfigError: nothing was recorded.
        """
        path = self.folder / "dynamics.jsonl"
        if not path.exists():
            raise ConfigError(f"{self.folder} has no dynamics.jsonl; train it with training.dynamics_every")
        found = [row for _, row in read_json_lines(path)]
        damaged = [row for row in found if row is None or not is_step(row.get("step"))]
        if damaged or not found:
            raise ConfigError(f"{path} is damaged: {len(damaged)} of its {len(found)} lines cannot be read")
        return found

    @cached_property
    def trained(self) -> TrainedRun:
        return load_trained(self.folder)

    @cached_property
    def started_elsewhere(self) -> bool:
        """Whether its initial values come from another run instead of its seed."""
        return bool(read_json(self.folder / "config.json")["training"]["start_from"])

    def recorded(self, statistic: str) -> dict[str, dict[str, float]]:
        """Returns {"" and INITIAL_SUFFIX: rows of a statistic} of the last and the first update.

        Raises:
            ConfigError: the statistic was not recorded.
        """
        found = [record for record in self.records if statistic in record]
        if not found:
            raise ConfigError(f"{self.folder}: dynamics.jsonl has no {statistic}")
        return {"": found[-1][statistic], **({INITIAL_SUFFIX: found[0][statistic]} if found[0]["step"] == 1 else {})}


def residual_growth(measured: MeasuredRun) -> dict[str, float]:
    """Returns the growth of the residual stream from the first layer to the last."""

    def growth(rows: dict[str, float]) -> float:
        layers = [_number(value) for label, value in rows.items() if label.startswith("layer ")]
        return layers[-1] / layers[0]

    return {which: growth(rows) for which, rows in measured.recorded("residual_rms").items()}


def gradient_kept(measured: MeasuredRun) -> dict[str, float]:
    """Returns the gradient norm of the first layer relative to the last layer's."""

    def kept(rows: dict[str, float]) -> float:
        layers: dict[str, float] = {}
        for label, value in rows.items():
            if label.startswith("layer ") and label.endswith((" attention", " feed-forward")):
                layer = label.rpartition(" ")[0]
                layers[layer] = layers.get(layer, 0.0) + _number(value) ** 2
        squares = list(layers.values())
        return math.sqrt(squares[0] / squares[-1]) if squares[-1] else math.nan

    return {which: kept(rows) for which, rows in measured.recorded("gradient_norm").items()}


def spikes(measured: MeasuredRun) -> dict[str, float]:
    """Returns the number of loss spikes."""
    return {"": float(sum("spikes" in record for record in measured.records))}


def position_locality(measured: MeasuredRun) -> dict[str, float]:
    """Returns how much more similar near positions are than far ones, within a row's length."""
    pair = cosines_of_run(measured.trained, measured.trained.config.data.sequence_length)[""]

    def difference(similar: Float[np.ndarray, "P P"]) -> float:
        means = mean_by_distance(similar)
        far = len(means) // 2
        return float(means[1 : NEAR + 1].mean() - _mean_from(similar, far))

    return {SUFFIX[which]: difference(similar) for which, similar in pair.items()}


def _mean_from(similar: Float[np.ndarray, "P P"], distance: int) -> float:
    """Returns the mean over all pairs at this distance or more."""
    one, other = np.triu_indices(len(similar), distance)
    return similar[one, other].mean()


def offset_gap(measured: MeasuredRun) -> dict[str, float]:
    """Returns the loss half-way between the training offsets, minus that at the offsets."""
    from zoo.analysis.loss_gaps import gap_between_offsets

    return {"": gap_between_offsets(measured.trained, measured.folder)}


def code_gap(measured: MeasuredRun) -> dict[str, float]:
    """Returns the loss on code, minus that on the text of the run."""
    from zoo.analysis.loss_gaps import gap_to_code

    return {"": gap_to_code(measured.trained)}


def probe_of(task: str) -> Callable[[MeasuredRun], dict[str, float]]:
    """Returns the measure of a synthetic task's answers, the mean over the data's entries with it."""

    def answered(measured: MeasuredRun) -> dict[str, float]:
        run, data = measured.trained, measured.trained.config.data
        found = [probe(run, one).accuracy for one in tasks_in(data.source, data.mixture) if one.name == task]
        if not found:
            raise ConfigError(f"{measured.folder}: data.source={data.source} has no synthetic:{task}")
        return {"": float(np.mean(found))}

    return answered


def pretraining_loss(measured: MeasuredRun) -> dict[str, float]:
    """Returns the last held-out loss of the run that this one started from.

    Raises:
        ConfigError: it started from no run, or that run is gone or was not evaluated at its end.
    """
    if not measured.started_elsewhere:
        raise ConfigError(f"{measured.folder} started from no other run (training.start_from)")
    start = Path(read_json(measured.folder / "config.json")["training"]["start_from"])
    if (loss := load_run(start).final("eval/loss")) is None:
        raise ConfigError(f"{start}, from which {measured.folder} started, has no eval/loss of its end")
    return {"": loss}


def head_divergence(measured: MeasuredRun) -> dict[str, float]:
    """Returns the mean divergence of the attention of two heads."""
    from zoo import data

    run = measured.trained
    # The fewest batches that have `ROWS` rows; batches are spread over the text.
    batches = data.load(run.config).evaluation_batches(limit_batches=-(-ROWS // run.config.data.batch_size))
    inputs = np.concatenate([np.asarray(run.objective.inputs(batch)) for batch in batches])
    rows = inputs[:: max(1, len(inputs) // ROWS)][:ROWS]
    found = {}
    for which, (params, stats) in trained_and_initial(run).items():
        activations = record_activations(run.config, run.model, params, stats, rows)[""]
        layers = [
            pairwise_divergence(maps, rows >= 0) for maps in activations.probabilities["attention"] if maps is not None
        ]
        found[SUFFIX[which]] = float(np.mean(layers))
    return found


def pairwise_divergence(maps: Float[np.ndarray, "B H T S"], filled: np.ndarray) -> float:
    """Returns the mean Jensen-Shannon divergence of two heads, H((p + q) / 2) - (H(p) + H(q)) / 2.

    Args:
        maps: probabilities over the keys.
        filled: bool [B, T], False for padding. Queries that see a single key are left out, because
            all heads agree there.

    Returns:
        Nats; NaN with fewer than two heads.
    """
    if maps.shape[1] < 2:
        return math.nan
    maps = maps.astype(np.float64)
    counted = filled & ((maps > 0).any(axis=1).sum(axis=-1) > 1)
    own = _entropy(maps)
    pairs = [
        _entropy((maps[:, one] + maps[:, other]) / 2) - (own[:, one] + own[:, other]) / 2
        for one, other in itertools.combinations(range(maps.shape[1]), 2)
    ]
    return float(np.mean([pair[counted].mean() for pair in pairs]))


def _entropy(p: Float[np.ndarray, "*N S"]) -> Float[np.ndarray, "*N"]:
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


FUNCTIONS = {
    function.__name__: function
    for function in (
        residual_growth,
        gradient_kept,
        spikes,
        position_locality,
        offset_gap,
        code_gap,
        pretraining_loss,
        head_divergence,
    )
} | {f"probe_{task}": probe_of(task) for task in SYNTHETIC_TASKS}


def measure_run(folder: Path, names: Sequence[str]) -> dict[str, float]:
    """Measures a finished run and saves the values in its folder.

    Args:
        folder: the run's folder.
        names: names of measures.

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
        values = FUNCTIONS[name](measured)
        if measured.started_elsewhere:
            values.pop(INITIAL_SUFFIX, None)
        found[name] = {f"{MEASURE_PREFIX}{name}{suffix}": value for suffix, value in values.items()}
    before = read_object_or_empty(folder / MEASURED_FILE)
    entries = {
        name: {
            "values": {metric: value if math.isfinite(value) else None for metric, value in values.items()},
            "from": measure_provenance(folder, status, name),
        }
        for name, values in found.items()
    }
    write_json(folder / MEASURED_FILE, before | entries)
    return {metric: value for values in found.values() for metric, value in values.items()}


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m zoo.analysis.run_measures", description=__doc__.partition("\n")[0], allow_abbrev=False
    )
    made.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders of runs or sweeps")
    made.add_argument(
        "--measures",
        metavar="A,B,...",
        help=f"measures of single runs: {', '.join(MEASURES)} (default: all that apply)",
    )
    made.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return made


@reported
def main(arguments: Sequence[str] | None = None) -> int:
    """Measures runs; returns 1 if a requested measure failed."""
    args = parser().parse_args(arguments)
    asked = args.measures.split(",") if args.measures else list(MEASURES)
    if unknown := [name for name in asked if name not in MEASURES]:
        raise ConfigError(f"--measures: {', '.join(unknown)} is not one of {', '.join(MEASURES)}")
    failed = False
    for folder in args.folders:
        if (folder / "experiment.json").is_file():
            load_sweep(folder)  # Also loads the plug-ins that define its measures.
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
