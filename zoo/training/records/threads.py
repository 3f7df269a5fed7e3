"""The number of threads with which XLA computes on a CPU."""

import os

THREADS = "PJRT_NPROC"
USER_THREADS = (THREADS, "NPROC")
"""Variables of the environment that XLA's CPU client reads when it starts, the first that is set."""


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compute_threads() -> int:
    """Returns the number of threads of XLA's CPU client: by the environment, or one for each core."""
    for name in USER_THREADS:
        if (value := os.environ.get(name, "")).isdigit() and int(value) > 0:
            return int(value)
    return available_cores()
