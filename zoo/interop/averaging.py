"""Checkpoint averaging: a run whose parameters are the mean of another run's checkpoints."""

import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np

from zoo.config import plugins
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE
from zoo.errors import ConfigError
from zoo.files import read_object_or_empty, write_json
from zoo.interop.output_folder import atomic_folder
from zoo.nested import flatten
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.optimization.weight_average import averaged, averages
from zoo.training.records.run_record import parameters_sha256
from zoo.training.trained_run import TrainedRun, load_trained


def average_run(run: Path, last: int, out: Path) -> list[int]:
    """Writes a run with the mean of the parameters of a run's newest checkpoints.

    The method is that of Vaswani et al. 2017, section 6.1. Means are taken in float64. Statistics
    (of BatchNorm, of Performer's features) are those of the newest checkpoint.

    Args:
        run: folder of a run.
        last: number of newest checkpoints to average.
        out: folder to write, which must not exist or be empty.

    Returns:
        the steps of the checkpoints.

    Raises:
        ConfigError: no such run, too few checkpoints, or `out` is in use.
        DataError: a damaged checkpoint.
    """
    if last < 1:
        raise ConfigError(f"--last {last} must be at least 1")
    trained = load_trained(run)
    # The best checkpoint may be an older one, which is kept besides.
    kept = Checkpoints(run / "checkpoints", 1, read_only=True).steps()[-trained.config.training.keep_checkpoints :]
    if len(kept) < last:
        raise ConfigError(
            f"--last {last}: {run} has kept {len(kept)} of its newest checkpoints, of the steps "
            f"{', '.join(map(str, kept))}; with training.keep_checkpoints={last} a run keeps that many"
        )
    steps = kept[-last:]
    total = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float64), trained.params)
    for step in steps:
        weights, _ = read_weights(run, trained.program.abstract_state, str(step))
        total = jax.tree.map(
            lambda sum_, leaf: sum_ + np.asarray(jax.device_get(leaf), np.float64), total, weights["params"]
        )
    params = jax.tree.map(lambda sum_, leaf: (sum_ / last).astype(leaf.dtype), total, trained.params)
    _write_run(run, out, trained, params, steps)
    return steps


def kept_average_run(run: Path, name: str, out: Path) -> int:
    """Writes a run with an average that a run keeps of its parameters.

    Args:
        run: folder of a run.
        name: "ema", the moving average (`optimizer.ema_steps`), or "tail", that of the last updates
            (`optimizer.tail_average`).
        out: as in `average_run`.

    Returns:
        the step of the checkpoint that the average is taken from, the newest one.

    Raises:
        ConfigError: no such run, one without this average, or `out` is in use.
        DataError: a damaged checkpoint.
    """
    trained = load_trained(run)
    called, field = {
        "ema": ("moving average", "optimizer.ema_steps"),
        "tail": ("average of its last updates", "optimizer.tail_average"),
    }[name]
    if not flatten(trained.config)[field]:
        raise ConfigError(f"--{name}: {run} has no {called}; train it with {field} above 0")
    if made := next(
        (word for word in ("averaged", "imported") if word in read_object_or_empty(run / "meta.json")), None
    ):
        raise ConfigError(f"--{name}: {run} was {made} and not trained, and keeps no {called}; name the run that was")
    checkpoints = Checkpoints(run / "checkpoints", 1, read_only=True)
    step = checkpoints.steps()[-1]
    if name not in averages(trained.config, step):
        raise ConfigError(f"--{name}: {run} is at step {step}, before the {called} begins; train it further")
    state, _ = checkpoints.restore(step, trained.program.abstract_state)
    _write_run(run, out, trained, jax.device_get(averaged(state, name)["params"]), [step])
    return step


def _write_run(run: Path, out: Path, trained: TrainedRun, params: Any, steps: list[int]) -> None:
    """Writes a run like another one, with other parameters."""
    with atomic_folder(out) as folder:
        for name in ("config.json", "tokenizer.json", SOURCE_TOKENIZER_FILE):
            if (run / name).is_file():
                shutil.copyfile(run / name, folder / name)
        plugins.store(folder, trained.config.plugins)
        meta = read_object_or_empty(run / "meta.json")
        write_json(folder / "meta.json", meta | {"averaged": {"folder": str(run), "steps": steps}})
        checkpoints = Checkpoints(folder / "checkpoints", 1, zero_copy=True)
        checkpoints.save(
            steps[-1],
            {"step": np.array(steps[-1], np.int32), "params": params, "stats": jax.device_get(trained.stats)},
            {"tokens": 0, "evaluated": False, "seconds": 0.0},
            None,
        )
        checkpoints.close()
        write_json(
            folder / "status.json",
            {
                "state": "done",
                "step": steps[-1],
                "steps": steps[-1],
                "reason": None,
                "parameters_sha256": parameters_sha256(params),
            },
        )
