"""Folders of untrained runs, for tests that only read a run."""

from pathlib import Path

import jax
import numpy as np

from tests.support.building import random_statistics, random_values
from zoo import config as configs
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.files import write_json
from zoo.models.architectures import make_model
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.records.run_record import parameters_sha256


def untrained(folder: Path, config, seed=0) -> Path:
    """Writes the folder of a byte-level run with random parameters, recorded as trained to step 2,
    without compiling anything.
    """
    resolved = configs.resolve(config)
    model = make_model(resolved)
    params = random_values(model, seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", configs.to_plain(resolved))
    write_json(folder / "status.json", {"state": "done", "step": 2, "parameters_sha256": parameters_sha256(params)})
    ByteTokenizer().save(folder)
    checkpoints = Checkpoints(folder / "checkpoints", 1)
    state = {"step": np.array(2, np.int32), "params": params, "stats": random_statistics(model, seed)}
    checkpoints.save(2, jax.tree.map(np.asarray, state), {"tokens": 0, "seconds": 0.0, "evaluated": False}, None)
    checkpoints.close()
    return folder
