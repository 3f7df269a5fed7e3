"""Finds the NVIDIA GPUs of this machine without starting JAX, which would take their memory."""

import glob
import os
import re
import subprocess
from itertools import takewhile

LISTING_SECONDS = 30


def visible_gpus() -> tuple[str, ...]:
    """Returns the GPUs that JAX would use in this environment, as CUDA_VISIBLE_DEVICES names them.

    These are the ones that CUDA_VISIBLE_DEVICES lists, up to the first that does not exist, as CUDA
    reads it; without that variable all GPUs of the machine. Empty if there are none, or if
    JAX_PLATFORMS puts another platform first.
    """
    platform = os.environ.get("JAX_PLATFORMS", "").lower().partition(",")[0].strip()
    if platform not in ("", "cuda", "gpu"):
        return ()
    # Also with a list: the variable may be set where there is no GPU.
    number = _count_gpus()
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None or not number:
        return tuple(map(str, range(number)))
    names = [name.strip() for name in listed.split(",")]
    return tuple(dict.fromkeys(takewhile(lambda name: _exists(name, number), names)))


def _exists(name: str, number: int) -> bool:
    """Returns whether CUDA can find a GPU of this name among `number`; a UUID is taken on trust."""
    if re.fullmatch("[0-9]+", name):
        return int(name) < number
    return re.fullmatch(r"(GPU|MIG)-\S+", name) is not None


def _count_gpus() -> int:
    try:
        listing = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=LISTING_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        listing = None
    if listing is None or listing.returncode:
        return len(glob.glob("/dev/nvidia[0-9]*"))
    return len(re.findall("^GPU [0-9]+:", listing.stdout, re.MULTILINE))
