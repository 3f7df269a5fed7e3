"""The devices that a program is compiled for."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
from jax.sharding import Mesh

ROWS_FROM = 2**17
"""Scores of a row, H T S, from which attention by `rows` is faster on a CPU than by `einsum`.

Below it the loop over rows costs more than is saved by scores that stay in the cache and by scores
that blocks of queries leave out (docs/performance.md has the measurements). It is the same for any
number of threads, so that the choice does not depend on the number of cores.
"""


class Platform(NamedTuple):
    """The devices that a program is compiled for.

    Attributes:
        name: "cpu", "gpu" or "tpu".
        devices: number of devices.
        capability: compute capability of an NVIDIA GPU, (major, minor); None for other devices.
        rows_from: number of scores of a row from which `rows` is chosen on a CPU; 0 for a run that
            was begun by a version that chose it for all rows.
    """

    name: str
    devices: int = 1
    capability: tuple[int, int] | None = None
    rows_from: int = ROWS_FROM

    @classmethod
    def here(cls) -> "Platform":
        """Returns the platform of this process."""
        return cls._of(jax.devices())

    @classmethod
    def of(cls, mesh: Mesh, rows_from: int = ROWS_FROM) -> "Platform":
        """Returns the platform of a mesh, whose devices need not be those of this process."""
        return cls._of(list(mesh.devices.flat))._replace(rows_from=rows_from)

    @classmethod
    def _of(cls, devices: Sequence[jax.Device]) -> "Platform":
        name, capability = devices[0].platform, None
        # AMD's GPUs give a name in place of two numbers.
        parts = str(getattr(devices[0], "compute_capability", "")).split(".") if name == "gpu" else []
        if len(parts) == 2 and all(part.isdigit() for part in parts):
            capability = int(parts[0]), int(parts[1])
        return cls(name, len(devices), capability)
