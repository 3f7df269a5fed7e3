"""Memory that the devices of a process have used."""

import jax


def peak_memory() -> int | None:
    """Returns the most bytes that any device of this process has had in use so far; None where
    devices do not count them, as CPUs.
    """
    found = [(device.memory_stats() or {}).get("peak_bytes_in_use") for device in jax.local_devices()]
    return max((size for size in found if size is not None), default=None)
