"""The steps of the checkpoints in a folder, by the names of its sub-folders."""

import re
from pathlib import Path

STEP_NAME = re.compile(r"0|[1-9][0-9]*", re.ASCII)


def checkpoint_steps(folder: Path) -> list[int]:
    """Returns the steps of the checkpoints in `folder`, in ascending order; none without a folder.

    Other names, also those that Python regards as digits ("²", "007"), are no checkpoints.
    """
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if STEP_NAME.fullmatch(path.name) and path.is_dir())
