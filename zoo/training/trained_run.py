"""A trained run, loaded to be looked at: read-only, on whatever devices there are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError
from zoo.models.architectures import make_model
from zoo.models.functional import Params, Stats, initialise, initialise_statistics
from zoo.objectives import Objective, make_objective
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.mesh import make_mesh, rows_per_device_group
from zoo.training.step import Program, make_program
from zoo.training.trainer import use_compilation_cache

TRAINED, INITIAL = "trained", "at initial values"


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """What a run's folder holds.

    Attributes:
        config: resolved.
        step: updates that the parameters have had.
        params, stats: nested dicts of arrays.
        model: abstract; it is called with `params` and `stats`.
        objective, program: as in training.
        tokenizer: the one that the run was trained with.
        rows: a batch's rows must be a multiple of this.
        source_tokenizer: that of what the encoder reads, where it is another one: the run is an
            imported translation model.
    """

    config: ResolvedConfig
    step: int
    params: Params
    stats: Stats
    model: nnx.Module
    objective: Objective
    program: Program
    tokenizer: Any
    rows: int
    source_tokenizer: Any = None


def load_trained(folder: Path, step: str = "latest") -> TrainedRun:
    """Loads a run; a student without its teacher.

    Args:
        folder: the run's workdir.
        step: "latest", "best" (lowest evaluation loss among the checkpoints that were kept), or a
            number.

    Raises:
        ConfigError: if there is no such run or checkpoint.
        DataError: if the checkpoint is damaged.
    """
    use_compilation_cache()
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder} is not a run: it has no config.json")
    if not (folder / "checkpoints").is_dir() and any(folder.glob("*.safetensors")):
        raise ConfigError(
            f"{folder} is a checkpoint of another library; zoo import hf:{folder} --out DIR makes a run of it"
        )
    if not (folder / "checkpoints").is_dir():
        raise ConfigError(f"{folder} has no checkpoints yet")
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(f"{folder} has no tokenizer.json")
    tokenizer = data.load_tokenizer(folder)
    config = configs.without_teacher(configs.load(str(folder / "config.json")))
    needed = tokenizer.model_vocab_size(config.objective, config.data.row_format)
    config = configs.resolve(config, needed)
    try:
        mesh = make_mesh(config)
    except ConfigError:  # Trained on other devices than there are now: one is enough to look at it.
        config = configs.resolve(configs.override(config, {"mesh.data": 1, "mesh.fsdp": 1, "mesh.tensor": 1}), needed)
        mesh = make_mesh(config, jax.devices()[:1])
    model, objective = make_model(config), make_objective(config, tokenizer)
    program = make_program(config, model, objective, mesh)
    weights, number = read_weights(folder, program.abstract_state, step)
    source = read_pretrained(folder / SOURCE_TOKENIZER_FILE) if (folder / SOURCE_TOKENIZER_FILE).is_file() else None
    return TrainedRun(
        config=config,
        step=number,
        params=weights["params"],
        stats=weights["stats"],
        model=model,
        objective=objective,
        program=program,
        tokenizer=tokenizer,
        rows=rows_per_device_group(mesh),
        source_tokenizer=source,
    )


def values_of(run: TrainedRun) -> dict[str, tuple[Params, Stats]]:
    """{TRAINED: (params, stats), INITIAL: those that the run's seed gives to a fresh model}."""
    model, seed = run.model, run.config.seed
    return {TRAINED: (run.params, run.stats), INITIAL: (initialise(model, seed), initialise_statistics(model, seed))}
