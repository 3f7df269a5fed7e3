"""A trained run, loaded read-only on the devices of this machine."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
from flax import nnx

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data.tokenizers.run_frame import frame_of_run
from zoo.data.tokenizers.text_frame import TextFrame
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE, Tokenizer
from zoo.data.tokenizers.tokenizer_registry import read_pretrained
from zoo.errors import ConfigError
from zoo.files import read_object_or_empty
from zoo.models.architectures import make_model
from zoo.models.functional import Params, Stats, initialise, initialise_statistics
from zoo.objectives import Objective, make_objective
from zoo.training.checkpoints.warm_start import read_weights
from zoo.training.mesh import make_mesh
from zoo.training.records.record_faults import check_unedited
from zoo.training.records.run_folder import RunFolder
from zoo.training.runtime.compilation_cache import use_compilation_cache
from zoo.training.state import constrained
from zoo.training.step import Program, make_program

TRAINED, INITIAL = "trained", "at initial values"


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run read from its folder: config, parameters, model and tokenizer.

    Attributes:
        config: the resolved config.
        step: updates that the parameters have had.
        params, stats: nested dicts of arrays.
        model: the abstract model, to be called with `params` and `stats`.
        objective: what the model predicts and how it is scored.
        program: as in training.
        tokenizer: the run's tokenizer.
        source_tokenizer: the tokenizer of the encoder's texts, if it is another one (imported
            translation models).
        trained_length: of an imported run, the largest number of tokens of a row in its training, as
            its file says; infinite if it does not. None if the run was trained here.
        text_frame: of an imported run, the special tokens around its texts; None if the run was
            trained here or its files do not tell.
    """

    config: ResolvedConfig
    step: int
    params: Params
    stats: Stats
    model: nnx.Module
    objective: Objective
    program: Program
    tokenizer: Any
    source_tokenizer: Any = None
    trained_length: float | None = None
    text_frame: TextFrame | None = None

    @cached_property
    def frame(self) -> TextFrame:
        """The special tokens around a text that the model reads on its own."""
        return frame_of_run(self.config, self.tokenizer, self.source_tokenizer, self.text_frame)


def read_settings(folder: Path) -> tuple[ResolvedConfig, Tokenizer]:
    """Returns the resolved config and the tokenizer of a run, without a device; a student's config
    has no teacher.

    Raises:
        ConfigError: there is no such run, it has no checkpoints yet, or its config.json was edited.
    """
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
    check_unedited(RunFolder(folder))
    tokenizer = data.load_tokenizer(folder)
    config = configs.without_teacher(configs.load(str(folder / "config.json")))
    needed = tokenizer.model_vocab_size(config.objective, config.data.row_format)
    return configs.resolve(config, needed), tokenizer


def load_trained(folder: Path, step: str = "latest") -> TrainedRun:
    """Loads a run; a student is loaded without its teacher.

    Args:
        folder: the run's folder.
        step: "latest", "best" (lowest evaluation loss of the checkpoints that were kept), or a
            number.

    Raises:
        ConfigError: there is no such run or checkpoint.
        DataError: the checkpoint is damaged.
    """
    use_compilation_cache()
    config, tokenizer = read_settings(folder)
    try:
        mesh = make_mesh(config)
    except ConfigError:  # Trained on other devices than this machine has: one is enough to read it.
        config = configs.resolve(configs.override(config, {f"mesh.{axis}": 1 for axis in config.mesh}))
        mesh = make_mesh(config, jax.devices()[:1])
    model, objective = make_model(config), make_objective(config, tokenizer)
    program = make_program(config, model, objective, mesh)
    weights, number = read_weights(folder, program.abstract_state, step)
    imported = _imported(folder)
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
        source_tokenizer=source,
        trained_length=_imported_length(imported),
        text_frame=TextFrame.from_record(imported.get("text_frame")),
    )


def imported_frame(folder: Path) -> TextFrame | None:
    """Returns the special tokens around a text that an import has recorded; None if there are none.

    Raises:
        DataError: the record is damaged.
    """
    return TextFrame.from_record(_imported(folder).get("text_frame"))


def _imported(folder: Path) -> Mapping[str, Any]:
    """Returns what the import of a run recorded; empty if it was trained here."""
    record = read_object_or_empty(folder / "meta.json").get("imported")
    return record if isinstance(record, dict) else {}


def _imported_length(imported: Mapping[str, Any]) -> float | None:
    if "trained_length" not in imported:
        return None
    length = imported["trained_length"]
    return math.inf if length is None else length


def trained_and_initial(run: TrainedRun) -> dict[str, tuple[Params, Stats]]:
    """Returns {TRAINED: (params, stats), INITIAL: the values that the run was initialised with}."""
    model, seed = run.model, run.config.seed
    params = constrained(run.config, model, initialise(model, seed))
    return {TRAINED: (run.params, run.stats), INITIAL: (params, initialise_statistics(model, seed))}
