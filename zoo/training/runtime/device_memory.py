"""Memory of the devices of a process: what they have used, and whether a run fits."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import jax

from zoo.errors import ConfigError

CGROUPS, CGROUP_OF_PROCESS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
MEMORY_OF_MACHINE, MEMORY_OF_PROCESS = Path("/proc/meminfo"), Path("/proc/self/statm")
# Changes that reduce each need.
REMEDIES = {
    "parameters and optimizer": "a smaller model.dim, model.num_layers or model.vocab_size, or mesh.fsdp, which "
    "divides them over devices",
    "activations": "a smaller data.batch_size or data.sequence_length, or training.microbatch_size",
}


def peak_memory() -> int | None:
    """Returns the most bytes that any device of this process has had in use so far; None where
    devices do not count them, as CPUs.
    """
    found = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in jax.local_devices()]
    return max((size for size in found if size is not None), default=None)


def device_memory() -> int | None:
    """Returns the most bytes that each device of this process can have; None if that is unknown.

    The devices of a CPU divide the memory that the machine has left, or that its control group
    allows; what this process holds counts as left, because it may be freed before it is needed.
    """
    devices = jax.local_devices()
    if devices[0].platform != "cpu":
        limits = [(device.memory_stats() or {}).get("bytes_limit") for device in devices]
        return min((limit for limit in limits if limit), default=None)
    found = [size for size in (_left_on_machine(), _limit_of_control_group()) if size is not None]
    return min(found) // len(devices) if found else None


def _left_on_machine() -> int | None:
    try:
        fields = dict(re.findall(r"^(\w+): +(\d+) kB$", MEMORY_OF_MACHINE.read_text(), re.MULTILINE))
        held = int(MEMORY_OF_PROCESS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return 1024 * (int(fields["MemAvailable"]) + int(fields.get("SwapFree", 0))) + held
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _limit_of_control_group() -> int | None:
    """Returns the smallest limit of the process's control group and those around it, in version 2
    of control groups or in version 1.
    """
    try:
        lines = CGROUP_OF_PROCESS.read_text().splitlines()
    except OSError:
        return None
    limits = []
    for controllers, path in (line.split(":", 2)[1:] for line in lines if line.count(":") >= 2):
        if controllers in ("", "memory"):
            root, name = (CGROUPS, "memory.max") if not controllers else (CGROUPS / "memory", "memory.limit_in_bytes")
            group = root / path.lstrip("/")
            limits += [_number_in(folder / name) for folder in (group, *group.parents) if folder.is_relative_to(root)]
    return min((limit for limit in limits if limit is not None), default=None)


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # Without a limit it holds "max".
        return None


def check_memory(needed: Mapping[str, int]) -> None:
    """Checks that what a run needs at least fits into the memory of each device.

    Args:
        needed: bytes on a device, by what they are for.

    Raises:
        ConfigError: naming both numbers and what to change.
    """
    total, available = sum(needed.values()), device_memory()
    if available is None or total <= available:
        return
    cpu = jax.local_devices()[0].platform == "cpu"
    where = f"this machine has {_gib(available)} left for each" if cpu else f"a device has {_gib(available)}"
    parts = ", ".join(f"{_gib(size)} {name}" for name, size in needed.items())
    remedy = REMEDIES["activations" if needed.get("activations", 0) > total / 2 else "parameters and optimizer"]
    raise ConfigError(
        f"the run needs at least {_gib(total)} on a device ({parts}), and {where}: take {remedy}; zoo plan shows "
        "what fits on other devices"
    )


def _gib(size: float) -> str:
    return f"{size / 2**30:,.2f} GiB"
