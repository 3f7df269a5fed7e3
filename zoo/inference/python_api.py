"""The functions of the top level of `zoo`, besides `load`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_collections

from zoo import config as configs
from zoo.inference.loaded_model import LoadedModel, load
from zoo.lab.results.comparison import load_comparison
from zoo.lab.results.sweep_results import SweepResults, load_sweep

if TYPE_CHECKING:
    import pandas


def load_config(spec: str | Path, changes: Mapping[str, Any] | None = None) -> ml_collections.ConfigDict:
    """Loads a config and sets fields of it.

    Args:
        spec: FILE[:ARGUMENT], the folder of a run, or its config.json. A file is executed as Python.
        changes: {"model.dim": 128, ...}.

    Returns:
        The config, not resolved; `zoo.config.resolve` derives what is left open.

    Raises:
        ConfigError: a file or a field that does not exist.
    """
    return configs.override(configs.load(str(spec)), changes or {})


def train(config: Mapping[str, Any], workdir: str | Path, verbose: bool = True) -> LoadedModel:
    """Trains a config in this process, or continues the run in `workdir`.

    Args:
        config: from `load_config`, or any config that is not resolved.
        workdir: the run's folder.
        verbose: print the progress.

    Returns:
        The trained model.

    Raises:
        ConfigError, DataError, Diverged, Preempted: as `zoo.training.trainer.run`.
    """
    from zoo.training.trainer import run

    run(configs.override(config, {}), Path(workdir), print if verbose else lambda line: None)
    return load(workdir)


def compare(folders: str | Path | Sequence[str | Path], curves: bool = False) -> "pandas.DataFrame":
    """Returns the metrics of runs as a data frame.

    Args:
        folders: the folder of a sweep, or the folders of runs.
        curves: a row for every line of metrics.jsonl; otherwise a row for every run, with the last
            value of each metric.

    Returns:
        Columns "arm", "seed", "state", "step", "tokens", "seconds", and the metrics; NaN where one
        was not written. `attrs["caveats"]` lists what makes the comparison doubtful.

    Raises:
        ConfigError: a folder that is no run and no sweep, or is damaged.
    """
    import pandas

    from zoo.lab.results.caveats import sweep_caveats

    sweep = _read(folders)
    names = sweep.metrics()
    rows = []
    for run in sweep.runs:
        common = {"arm": sweep.arm(run.arm).label, "seed": run.seed, "state": run.state}
        if curves:
            rows += [common | row for row in run.rows]
            continue
        last = run.rows[-1] if run.rows else {}
        values = {name: run.series(name).value[-1] for name in names if any(name in row for row in run.rows)}
        rows.append(common | {name: last.get(name) for name in ("step", "tokens", "seconds")} | values)
    frame = pandas.DataFrame(rows, columns=["arm", "seed", "state", "step", "tokens", "seconds", *names])
    frame.attrs["caveats"] = sweep_caveats(sweep)
    return frame


def _read(folders: str | Path | Sequence[str | Path]) -> SweepResults:
    if isinstance(folders, str | Path):
        if (Path(folders) / "experiment.json").exists():
            return load_sweep(folders)
        folders = [folders]
    return load_comparison(list(folders))
