"""Functions that measure a finished run, by the names of `zoo.lab.measures`.

Plug-ins add their functions to `FUNCTIONS`; `zoo.analysis.run_measures` calls them.
"""

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from zoo.analysis.activations import record_activations
from zoo.analysis.probes import probe
from zoo.data.sources.synthetic import SYNTHETIC_TASKS
from zoo.errors import ConfigError
from zoo.files import is_step, read_json, read_json_lines
from zoo.harness.task_names import TaskMetric
from zoo.lab.measures import INITIAL_SUFFIX, tasks_in
from zoo.lab.results.run_records import load_run
from zoo.training.trained_run import INITIAL as AT_INITIAL_VALUES
from zoo.training.trained_run import TRAINED, TrainedRun, load_trained, trained_and_initial

ROWS = 8
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
    for function in (residual_growth, gradient_kept, spikes, pretraining_loss, head_divergence)
} | {f"probe_{task}": probe_of(task) for task in SYNTHETIC_TASKS}


def function_of(name: str) -> Callable[[MeasuredRun], dict[str, float]]:
    """Returns the function of a measure by its name."""
    if (task := TaskMetric.parse(name)) is None:
        return FUNCTIONS[name]
    # It needs what a machine without tasks of the harness lacks.
    from zoo.harness.evaluation import measured as score

    return lambda measured: {"": score(measured.folder, measured.trained, task)}
