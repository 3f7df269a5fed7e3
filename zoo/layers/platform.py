"""The devices that a program is compiled for."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
from jax.sharding import Mesh


class Platform(NamedTuple):
    """The devices that a program is compiled for.

    Attributes:
        name: "cpu", "gpu" or "tpu".
        devices: number of devices.
        capability: compute capability of an NVIDIA GPU, (major, minor); None for other devices.
    """

    name: str
    devices: int = 1
    capability: tuple[int, int] | None = None

    @classmethod
    def here(cls) -> "Platform":
        """Returns the platform of this process."""
        return cls._of(jax.devices())

    @classmethod
    def of(cls, mesh: Mesh) -> "Platform":
        """Returns the platform of a mesh, whose devices need not be those of this process."""
        return cls._of(list(mesh.devices.flat))

    @classmethod
    def _of(cls, devices: Sequence[jax.Device]) -> "Platform":
        name, capability = devices[0].platform, None
        # AMD's GPUs give a name in place of two numbers.
        parts = str(getattr(devices[0], "compute_capability", "")).split(".") if name == "gpu" else []
        if len(parts) == 2 and all(part.isdigit() for part in parts):
            capability = int(parts[0]), int(parts[1])
        return cls(name, len(devices), capability)
