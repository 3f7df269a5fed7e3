"""Freed memory is kept by the process for reuse."""

import os
import subprocess
import sys

import pytest

from zoo.training.runtime import allocator

# Counts page faults while 64 MB are allocated, written and freed ten times.
SCRIPT = """
import resource
from zoo.training.runtime.allocator import keep_freed_memory
print(keep_freed_memory())
import numpy as np
np.ones(8 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(8 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**changes):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MALLOC_") and name != allocator.VARIABLE
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment | {"JAX_PLATFORMS": "cpu"} | changes,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    kept, count = done.stdout.split()
    return kept == "True", int(count)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_freed_memory_is_reused_without_page_faults():
    kept, few = faults()
    given_back, many = faults(ZOO_KEEP_FREED_MEMORY="0")
    assert (kept, given_back) == (True, False)
    assert few < 1000
    assert many > 10 * few


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"JAX_PLATFORMS": "cpu"}, True),
        ({"JAX_PLATFORMS": "cuda"}, False),
        ({"JAX_PLATFORMS": "cpu", "ZOO_KEEP_FREED_MEMORY": "0"}, False),
        ({"JAX_PLATFORMS": "cpu", "MALLOC_ARENA_MAX": "2"}, False),
        ({"JAX_PLATFORMS": "cpu", "LD_PRELOAD": "libtcmalloc.so"}, False),
    ],
)
def test_allocator_is_unchanged_with_an_accelerator_or_user_settings(monkeypatch, variables, expected):
    for name in [*os.environ]:
        if name.startswith("MALLOC_") or name in ("LD_PRELOAD", "ZOO_KEEP_FREED_MEMORY"):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert allocator.keeps_freed_memory() is (expected and sys.platform.startswith("linux"))
    monkeypatch.setenv("JAX_PLATFORMS", "")
    monkeypatch.setattr(allocator.glob, "glob", lambda pattern: ["/dev/nvidia0"] if "nvidia" in pattern else [])
    assert allocator.keeps_freed_memory() is False
