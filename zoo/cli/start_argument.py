"""The argument with which another run starts from a run."""

import shlex
from pathlib import Path


def start_argument(folder: Path) -> str:
    """Returns the flag, quoted for a shell, e.g. `--config.training.start_from=runs/first`."""
    return f"--config.training.start_from={shlex.quote(str(folder))}"
