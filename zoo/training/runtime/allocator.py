"""Keeps freed memory in the process on a CPU, instead of handing it back to the system.

XLA's CPU client allocates the temporaries of every step anew. With glibc's defaults they are mapped,
zeroed by the kernel and unmapped each time: for small models up to a third of a step.
"""

import ctypes
import glob
import os
import sys

# Parameters of mallopt(3).
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX, M_ARENA_MAX = -1, -2, -4, -8
TOP_PAD_BYTES = 256 << 20
VARIABLE = "ZOO_KEEP_FREED_MEMORY"


def keeps_freed_memory() -> bool:
    """Returns whether `keep_freed_memory` changes anything in this environment."""
    if os.environ.get(VARIABLE) == "0" or not sys.platform.startswith("linux"):
        return False
    # Somebody who chose an allocator or its settings knows better.
    if os.environ.get("LD_PRELOAD") or any(name.startswith("MALLOC_") for name in os.environ):
        return False
    return not has_accelerator()


def has_accelerator() -> bool:
    """Returns whether JAX would start with an accelerator here, without starting it."""
    platforms = os.environ.get("JAX_PLATFORMS", "").lower()
    accelerators = glob.glob("/dev/nvidia[0-9]*") + glob.glob("/dev/accel*")
    return platforms != "cpu" and bool(platforms or accelerators)


def keep_freed_memory() -> bool:
    """Tells glibc's allocator to keep freed memory; returns whether it does.

    Call it before JAX starts. This process reuses the freed memory and gives it back when it ends.
    Nothing happens with an accelerator, whose memory is managed by JAX, with another allocator or
    settings of one in the environment, with ZOO_KEEP_FREED_MEMORY=0, and where the C library is not
    glibc. Results do not change.
    """
    if not keeps_freed_memory():
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    settings = ((M_ARENA_MAX, 1), (M_MMAP_MAX, 0), (M_TRIM_THRESHOLD, 2**31 - 1), (M_TOP_PAD, TOP_PAD_BYTES))
    return all(mallopt(parameter, value) for parameter, value in settings)
