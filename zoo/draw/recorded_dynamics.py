"""The statistics of layers that a run recorded, from its dynamics.jsonl."""

from pathlib import Path
from typing import Any

from zoo.errors import ConfigError, DataError
from zoo.files import read_json_lines


def recorded_dynamics(folder: Path, statistic: str) -> list[dict[str, Any]]:
    """Returns the records of a run that have a statistic, in the order of the updates.

    Raises:
        ConfigError: nothing was recorded.
        DataError: the file is damaged.
    """
    path = folder / "dynamics.jsonl"
    if not path.is_file():
        raise ConfigError(f"{folder} has no dynamics.jsonl; train it with --config.training.dynamics_every=N")
    records = [record for _, record in read_json_lines(path)]
    if None in records:
        raise DataError(f"{path} is damaged: {records.count(None)} of its lines cannot be read")
    return [record for record in records if statistic in record]
