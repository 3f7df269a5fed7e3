"""The functions of the top level of `zoo` that load configs and train."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_collections

from zoo import config as configs
from zoo.errors import user_path
from zoo.inference.loaded_model import LoadedModel, load


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

    workdir = user_path(workdir)
    run(configs.override(config, {}), workdir, print if verbose else lambda line: None)
    return load(workdir)
