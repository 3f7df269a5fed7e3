"""The argument with which another run starts from a run."""

from pathlib import Path

from zoo.terminal import shell_line


def start_argument(folder: Path) -> str:
    """Returns the flag, quoted for a shell, e.g. `--config.training.start_from=runs/first`."""
    return f"--config.training.start_from={shell_line([str(folder)])}"
