"""What a run starts from: fresh values, or the parameters and statistics of another run."""

from pathlib import Path
from typing import Any, NamedTuple

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.config.fields import TASKS
from zoo.errors import ConfigError, DataError
from zoo.files import read_json
from zoo.training.checkpoints.checkpoint import Checkpoints, damage

WEIGHTS = ("params", "stats")


def check_start(config: ResolvedConfig) -> None:
    """Refuses a folder that nothing can be started from; looks at names only, and at how many
    layers there are.

    Raises:
        ConfigError: naming what is missing.
    """
    if not (folder := config.training.start_from):
        return
    check_run(folder, "training.start_from")
    if not (layers := config.training.start_layers):
        return
    there = configs.load(folder).model
    if there.architecture not in ("encoder", "decoder"):
        raise ConfigError(
            f"training.start_layers={','.join(map(str, layers))} are of one stack, and the model of training.start_from="
            f"{folder} is {there.architecture}"
        )
    if max(layers) >= there.num_layers:
        raise ConfigError(
            f"training.start_layers={','.join(map(str, layers))}: training.start_from={folder} has {there.num_layers} "
            f"layers, 0 to {there.num_layers - 1}"
        )


def check_teacher(config: ResolvedConfig) -> None:
    """Refuses a folder that nothing can be learnt from; looks at names only.

    Raises:
        ConfigError: naming what is missing.
    """
    if folder := config.objective.distillation.teacher:
        check_run(folder, "objective.distillation.teacher")


def check_run(folder: str, field: str) -> None:
    """Refuses a folder that is no run with parameters.

    Raises:
        ConfigError: naming what is missing.
    """
    for name, what in (
        ("config.json", "is not a run"),
        ("checkpoints", "has no checkpoints"),
        ("tokenizer.json", "has no tokenizer"),
    ):
        if not (Path(folder) / name).exists():
            raise ConfigError(f"{field}={folder} {what}: there is no {Path(folder) / name}")


def check_tokenizer(folder: str, field: str, tokenizer: data.Tokenizer) -> None:
    """Refuses other token ids than those that the parameters of the run in `folder` were trained
    with.

    Raises:
        ConfigError: saying how to take the other run's tokenizer.
    """
    if folder and data.load_tokenizer(folder).fingerprint != tokenizer.fingerprint:
        raise ConfigError(
            f"{field}={folder} was trained with another tokenizer; set data.tokenizer.kind=file and "
            f"data.tokenizer.path={folder}"
        )


class Heads(NamedTuple):
    """Parts of a model that a run need not find in the run that it starts from.

    Attributes:
        optional: taken from there where they fit, else fresh values.
        fresh: fresh values, whatever is there.
    """

    optional: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()


NONE = Heads()


def heads_of_its_own(config: ResolvedConfig, labels: tuple[str, ...]) -> Heads:
    """What a run makes itself: a task takes the body of whatever it starts from, and the pooler
    where there is one. It takes that run's classes too if that run has the same task with the same
    labels.

    Args:
        config: resolved.
        labels: of the run's examples.
    """
    if config.objective.kind not in TASKS:
        # A student has no use for what only the next sentence was predicted by, nor for segments
        # where its rows have one.
        return Heads(("pooler", "next_sentence", "segments")) if config.training.start_layers else NONE
    folder = Path(config.training.start_from)
    try:
        same = (
            read_json(folder / "config.json")["objective"]["kind"] == config.objective.kind
            and tuple(read_json(folder / "meta.json")["data"].get("labels", ())) == labels
        )
    except (OSError, ValueError, KeyError, TypeError):
        same = False
    return Heads(("head", "next_sentence", "pooler", "mix"), () if same else ("classifier",))


def read_weights(
    folder: Path, abstract: dict[str, Any], step: str = "latest", own: Heads = NONE
) -> tuple[dict[str, Any], int]:
    """Parameters and statistics of a run, and the step that they are of.

    Args:
        folder: the run's.
        abstract: {"params", "stats"} as they are wanted: shapes, types and shardings.
        step: as in `Checkpoints.find`.
        own: parts of the model that need not be there.

    Raises:
        ConfigError: for every parameter that is there and not wanted, wanted and not there, or of
            another shape.
        DataError: the checkpoint is damaged.
    """
    checkpoints = Checkpoints(folder / "checkpoints", 1, read_only=True)
    try:
        number = checkpoints.find(step)
        if (reason := damage(checkpoints.folder / str(number))) is not None:
            raise DataError(f"checkpoint {number} of {folder} is damaged: {reason}")
        try:
            return checkpoints.restore_weights(number, {name: abstract[name] for name in WEIGHTS}, *own), number
        except ConfigError as error:
            raise ConfigError([f"{folder}: {problem}" for problem in error.problems]) from error
        except Exception as error:  # Orbax raises many types for unreadable files
            reason = " ".join(str(error.__cause__ or error).split())[:200]
            raise DataError(f"checkpoint {number} of {folder} cannot be read: {reason}") from error
    finally:
        checkpoints.close()
