"""Starting from the parameters and statistics of another run."""

from pathlib import Path
from typing import Any

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.data.tokenizers.tokenizer import SOURCE_TOKENIZER_FILE
from zoo.errors import ConfigError, DataError, one_line
from zoo.files import read_json
from zoo.training.checkpoints.checkpoint import Checkpoints
from zoo.training.checkpoints.integrity import find_damage
from zoo.training.checkpoints.tree_differences import NOTHING_REPLACEABLE, ReplaceableParts
from zoo.training.checkpoints.upcycling import check_upcycling
from zoo.training.records.record_faults import config_edit, lost_checkpoint
from zoo.training.records.run_folder import RunFolder

WEIGHTS = ("params", "stats")
# How often the newest checkpoint is read that a run in training replaces meanwhile.
_LOOKS = 5


def check_start_from(config: ResolvedConfig) -> None:
    """Checks that `training.start_from` is a run, and has the layers that are taken from it.

    Reads only file names and the other run's config.

    Raises:
        ConfigError: naming what is missing.
    """
    if not (folder := config.training.start_from):
        return
    check_trained_run(folder, "training.start_from")
    if (Path(folder) / SOURCE_TOKENIZER_FILE).exists() and not data.load_tokenizer(folder).has_source_side:
        raise ConfigError(
            f"training.start_from={folder}: its encoder reads the vocabulary of {SOURCE_TOKENIZER_FILE} and its "
            "decoder that of tokenizer.json, and training reads both sides with one"
        )
    check_upcycling(config)
    if not (layers := config.training.start_layers):
        return
    source, listed = configs.load(folder).model, ",".join(map(str, layers))
    if source.architecture not in ("encoder", "decoder"):
        raise ConfigError(
            f"training.start_layers={listed} needs a model with one stack of layers, and training.start_from={folder} "
            f"has model.architecture={source.architecture}"
        )
    if source.layers.distinct:
        raise ConfigError(
            f"training.start_layers={listed} chooses among layers with weights of their own, and training.start_from="
            f"{folder} has model.layers.distinct={source.layers.distinct}; leave training.start_layers empty"
        )
    if max(layers) >= source.num_layers:
        raise ConfigError(
            f"training.start_layers={listed}: training.start_from={folder} has {source.num_layers} layers, 0 to "
            f"{source.num_layers - 1}"
        )


def check_teacher(config: ResolvedConfig) -> None:
    """Checks that `objective.distillation.teacher` is a run; reads only file names.

    Raises:
        ConfigError: naming what is missing.
    """
    if folder := config.objective.distillation.teacher:
        check_trained_run(folder, "objective.distillation.teacher")


def check_trained_run(folder: str, field: str) -> None:
    """Checks that a folder holds a run with parameters, and with the config that it was trained with.

    Raises:
        ConfigError: naming the field and what is missing; config.json was edited.
    """
    for name, problem in (
        ("config.json", "is not a run"),
        ("checkpoints", "has no checkpoints"),
        ("tokenizer.json", "has no tokenizer"),
    ):
        if not (Path(folder) / name).exists():
            raise ConfigError(f"{field}={folder} {problem}: there is no {Path(folder) / name}")
    if line := config_edit(RunFolder(Path(folder), strict=False)):
        raise ConfigError(f"{field}={folder}: {line}")


def check_same_tokenizer(folder: str, field: str, tokenizer: data.Tokenizer) -> None:
    """Checks that the run in `folder`, if one is named, was trained with the same token ids.

    Raises:
        ConfigError: saying how to use the other run's tokenizer.
    """
    if folder and data.load_tokenizer(folder).fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"{field}={folder} was trained with another tokenizer; set data.tokenizer.kind=file and "
            f"data.tokenizer.path={folder}"
        )


def replaceable_parts(config: ResolvedConfig, labels: tuple[str, ...]) -> ReplaceableParts:
    """Returns the parts of the model that need not be found in the run that it starts from.

    A task takes over the body, and the pooler where there is one; it takes over the classifier too
    if the other run has the same task with the same labels.

    Args:
        config: the resolved config.
        labels: names of the classes in this run's data.
    """
    if config.objective.kind not in TASKS:
        # A student may lack the head for the next sentence, and segments where its rows have one.
        student = ReplaceableParts(optional=("pooler", "next_sentence", "segments"))
        return student if config.training.start_layers else NOTHING_REPLACEABLE
    folder = Path(config.training.start_from)
    try:
        same_task = (
            read_json(folder / "config.json")["objective"]["kind"] == config.objective.kind
            and tuple(read_json(folder / "meta.json")["data"].get("labels", ())) == labels
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        same_task = False
    return ReplaceableParts(
        optional=("head", "next_sentence", "discriminator", "generator", "pooler", "mix"),
        fresh=() if same_task else ("classifier",),
    )


def read_weights(
    folder: Path, abstract: dict[str, Any], step: str = "latest", replaceable: ReplaceableParts = NOTHING_REPLACEABLE
) -> tuple[dict[str, Any], int]:
    """Reads the parameters and statistics of a run.

    Args:
        folder: the run's folder.
        abstract: {"params", "stats"} to restore: shapes, types and shardings.
        step: as in `Checkpoints.resolve_step`.
        replaceable: parts of the model that need not be found.

    Returns:
        ({"params", "stats"}, the step of the checkpoint).

    Raises:
        ConfigError: for every parameter that is missing, unexpected or of another shape; the latest
            checkpoint is wanted of a run that is done, and the one of its end is gone.
        DataError: the checkpoint is damaged.
    """
    for _ in range(_LOOKS - 1):
        newest = RunFolder(folder, strict=False).newest
        try:
            return _read_step(folder, abstract, step, replaceable)
        except DataError:
            # A run in training removes checkpoints, while they are read, for newer ones.
            if RunFolder(folder, strict=False).newest == newest:
                raise
    return _read_step(folder, abstract, step, replaceable)


def _read_step(
    folder: Path, abstract: dict[str, Any], step: str, replaceable: ReplaceableParts
) -> tuple[dict[str, Any], int]:
    """Reads the checkpoint that is now the wanted one. Raises as `read_weights`."""
    checkpoints = Checkpoints(folder / "checkpoints", 1, read_only=True)
    try:
        number = checkpoints.resolve_step(step)
        if step == "latest" and (line := lost_checkpoint(RunFolder(folder, strict=False))):
            raise ConfigError(f"{line}, or take the older one by --step {number} where a command has it")
        if (reason := find_damage(checkpoints.folder / str(number))) is not None:
            raise DataError(f"checkpoint {number} of {folder} is damaged: {reason}")
        try:
            wanted = {name: abstract[name] for name in WEIGHTS}
            return checkpoints.restore_weights(number, wanted, replaceable), number
        except ConfigError as error:
            raise ConfigError([f"{folder}: {problem}" for problem in error.problems]) from error
        except Exception as error:  # Orbax raises many types for unreadable files.
            reason = one_line(error.__cause__ or error)
            raise DataError(f"checkpoint {number} of {folder} cannot be read: {reason}") from error
    finally:
        checkpoints.close()
