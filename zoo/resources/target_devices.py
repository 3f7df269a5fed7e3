"""Devices that this machine lacks, for which their own compiler can compile.

libtpu compiles for TPUs without one, where it is installed (`jax.experimental.topologies`).
"""

import importlib.util
import os
import re
from typing import NamedTuple

import jax


class Target(NamedTuple):
    """A kind of devices that a compiler of this machine can compile for.

    Attributes:
        dimensions: of the grid of a slice.
        devices_per_chip: JAX devices on a chip.
        memory: bytes that the compiler gives a program on a device.
    """

    dimensions: int
    devices_per_chip: int
    memory: float


GIB = 2**30
# The memory is the limit that libtpu 0.0.42 names when a program does not fit.
TARGETS = {
    "v5e": Target(2, 1, 15.75 * GIB),
    "v5p": Target(3, 1, 95.74 * GIB),
    "v6e": Target(2, 1, 31.25 * GIB),
    "tpu7x": Target(3, 2, 94.75 * GIB),
}
_UNITS = {"K": 2**10, "M": 2**20, "G": GIB, "T": 2**40}
# The first counts arguments too.
_NEEDED = re.compile(r"Used ([\d.]+)([KMGT]) of [\d.]+[KMGT] hbm")
_TEMPORARIES = re.compile(r"required for HLO temporaries \(([\d.]+)([KMGT])\) exceeds")


def slice_shape(kind: str, devices: int) -> tuple[int, ...] | None:
    """Returns the chips along each axis of the most compact slice with a number of devices, in two or
    three dimensions; None where no slice has as many.
    """
    target = TARGETS[kind]
    chips, rest = divmod(devices, target.devices_per_chip)
    if rest or chips < 1 or chips & (chips - 1):
        return None
    doublings, count = chips.bit_length() - 1, target.dimensions
    sizes = [2 ** ((doublings + count - 1 - axis) // count) for axis in range(count)]
    # The written form begins with the smallest size above 1: 2x4, 2x2x4, and 2x2x1.
    return tuple(sorted(sizes, key=lambda size: (size == 1, size)))


def why_not_compiled(kind: str | None, devices: int) -> str:
    """Returns why no compiler of this machine compiles for these devices; empty if one does.

    Args:
        kind: name in `zoo.training.runtime.device_peaks.DEVICES`, or None for no kind.
        devices: their number.
    """
    if kind is None:
        return "without --device"
    if kind not in TARGETS:
        return f"no compiler for {kind} is known here"
    if importlib.util.find_spec("libtpu") is None:
        return "libtpu is not installed (extra tpu)"
    if slice_shape(kind, devices) is None:
        return f"no slice of {kind} has {devices} devices"
    return ""


def target_devices(kind: str, devices: int) -> list[jax.Device]:
    """Returns devices that programs can be compiled for, and not run on.

    Args:
        kind: a name in `TARGETS` that `why_not_compiled` has nothing against.
        devices: their number.
    """
    # Without these libtpu asks the cloud for the machine, and allows one process at a time.
    for name, value in (("TPU_SKIP_MDS_QUERY", "1"), ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
                        ("TPU_WORKER_HOSTNAMES", "localhost"), ("TPU_ACCELERATOR_TYPE", "v5litepod-8")):  # fmt: skip
        os.environ.setdefault(name, value)
    from jax.experimental import topologies

    shape = slice_shape(kind, devices)
    host = tuple(min(2, size) for size in (*shape[:2], 1))
    name = f"{kind}:{'x'.join(map(str, shape))}"
    return list(topologies.get_topology_desc(name, "tpu", chips_per_host_bounds=host).devices)


def needed_temporaries(error: Exception, arguments: float) -> float | None:
    """Returns the bytes of temporaries of a program that does not fit, by its compiler's error; None
    of an error of another kind.

    Args:
        error: of the compilation.
        arguments: bytes of the program's arguments.
    """
    for pattern, beside in ((_NEEDED, arguments), (_TEMPORARIES, 0)):
        if found := pattern.search(str(error)):
            return float(found[1]) * _UNITS[found[2]] - beside
    return None
