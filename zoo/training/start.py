"""What a run starts from: fresh values, or the parameters and statistics of another run."""

from pathlib import Path
from typing import Any

from zoo import data
from zoo.config import ResolvedConfig
from zoo.errors import ConfigError, DataError
from zoo.training.checkpoint import Checkpoints, damage

WEIGHTS = ("params", "stats")


def check_start(config: ResolvedConfig) -> None:
    """Refuses a folder that nothing can be started from; looks at names only.

    Raises:
        ConfigError: naming what is missing.
    """
    if not config.training.start_from:
        return
    folder = Path(config.training.start_from)
    for name, what in (("config.json", "is not a run"), ("checkpoints", "has no checkpoints"), ("tokenizer.json", "has no tokenizer")):
        if not (folder / name).exists():
            raise ConfigError(f"training.start_from={folder} {what}: there is no {folder / name}")


def check_tokenizer(config: ResolvedConfig, tokenizer: data.Tokenizer) -> None:
    """Refuses other token ids than those that the parameters were trained with.

    Raises:
        ConfigError: saying how to take the other run's tokenizer.
    """
    folder = config.training.start_from
    if folder and data.load_tokenizer(folder).fingerprint != tokenizer.fingerprint:
        raise ConfigError(f"training.start_from={folder} was trained with another tokenizer; set data.tokenizer.kind=file and "
                          f"data.tokenizer.path={folder}")


def read_weights(folder: Path, abstract: dict[str, Any], step: str = "latest") -> tuple[dict[str, Any], int]:
    """Parameters and statistics of a run, and the step that they are of.

    Args:
        folder: the run's.
        abstract: {"params", "stats"} as they are wanted: shapes, types and shardings.
        step: as in `Checkpoints.find`.

    Raises:
        ConfigError: for every parameter that is there and not wanted, wanted and not there, or of another shape.
        DataError: the checkpoint is damaged.
    """
    checkpoints = Checkpoints(folder / "checkpoints", 1, read_only=True)
    try:
        number = checkpoints.find(step)
        if (reason := damage(checkpoints.folder / str(number))) is not None:
            raise DataError(f"checkpoint {number} of {folder} is damaged: {reason}")
        try:
            return checkpoints.restore_weights(number, {name: abstract[name] for name in WEIGHTS}), number
        except ConfigError as error:
            raise ConfigError([f"{folder}: {problem}" for problem in error.problems]) from error
        except Exception as error:  # Orbax raises many types for unreadable files
            reason = " ".join(str(error.__cause__ or error).split())[:200]
            raise DataError(f"checkpoint {number} of {folder} cannot be read: {reason}") from error
    finally:
        checkpoints.close()

