"""Kernels of attention that versions of zoo choose differently, in the folder of a sweep."""

from collections.abc import Iterable
from pathlib import Path

from zoo.errors import listed
from zoo.lab.launch.sweep_folder import read_folder
from zoo.lab.planning.arm import PlannedRun
from zoo.training.records.record_faults import ignores_length_of_rows


def mixed_kernels(folder: Path, runs: Iterable[PlannedRun]) -> list[str]:
    """Returns a line if runs of a sweep were begun by a version that chose `rows` for rows of any
    length, and this one would compute others by `einsum` (`zoo.layers.platform.ROWS_FROM`).
    """
    earlier, new = [], []
    for run in runs:
        found = read_folder(folder / run.folder)
        if not found.meta or not (found.steps or found.state.finished):
            new.append(run)
        elif ignores_length_of_rows(found.meta):
            earlier.append(run.folder)
    if not earlier or not new:
        return []
    # Imported here because they import JAX, which few sweeps need before their processes start.
    from zoo.layers.platform import Platform
    from zoo.objectives.attention_kernels import attention_kernels

    by_length, before = Platform("cpu"), Platform("cpu", rows_from=0)
    changed = [
        run.folder for run in new if attention_kernels(run.config, by_length) != attention_kernels(run.config, before)
    ]
    if not changed:
        return []
    return [
        f"{listed(earlier, 1)} in {folder} computed attention by rows, as an earlier version of zoo chose, and "
        f"{listed(changed, 1)} would by einsum: their floating-point results differ, so they cannot be compared"
    ]
