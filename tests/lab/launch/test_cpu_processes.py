"""Processes and threads of a sweep on a CPU: results do not depend on the number of cores."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo.files import write_json
from zoo.lab.launch import cpu_processes
from zoo.lab.launch.cpu_processes import CpuProcesses, plan_processes
from zoo.training.records.threads import compute_threads

SMALL, LARGE = 2_000_000, 2_000_001


def runs(*sizes):
    return [
        SimpleNamespace(folder=f"run{number}", arm=SimpleNamespace(parameters={"total": size}))
        for number, size in enumerate(sizes)
    ]


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Sets the number of cores and the free memory: machine(cores, GiB)."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    for name in ("PJRT_NPROC", "NPROC"):
        monkeypatch.delenv(name, raising=False)

    def of(cores, free=100):
        monkeypatch.setattr(cpu_processes, "available_cores", lambda: cores)
        monkeypatch.setattr(cpu_processes, "_fitting", lambda: free)

    of(4)
    return of


@pytest.mark.parametrize(
    ("sizes", "jobs", "expected"),
    [
        ((SMALL,) * 8, None, (4, 1)),
        ((SMALL,) * 3, None, (3, 1)),
        ((SMALL,) * 8, 2, (2, 1)),
        ((SMALL,) * 8, 1, (1, 1)),
        ((SMALL, LARGE), None, (1, None)),
        ((SMALL, LARGE), 2, (2, None)),
    ],
)
def test_small_models_have_one_thread_and_all_cores(tmp_path, sizes, jobs, expected):
    assert plan_processes(tmp_path, runs(*sizes), len(sizes), jobs) == expected


def test_the_default_leaves_memory_and_populations_as_they_are(tmp_path, machine):
    machine(16, free=3)
    assert plan_processes(tmp_path, runs(*[SMALL] * 8), 8, None).jobs == 3
    machine(16, free=0)
    assert plan_processes(tmp_path, runs(*[SMALL] * 8), 8, None).jobs == 1
    machine(16)
    assert plan_processes(tmp_path, runs(*[SMALL] * 8), 8, None, one_by_default=True) == (1, 1)
    # Nothing is left to train.
    assert plan_processes(tmp_path, runs(SMALL), 0, None).jobs == 1


def test_neither_an_accelerator_nor_threads_of_the_user_are_changed(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("JAX_PLATFORMS", "cuda")
        assert [plan_processes(tmp_path, runs(SMALL), 8, jobs) for jobs in (None, 3)] == [(1, None), (3, None)]
    monkeypatch.setenv("PJRT_NPROC", "3")
    assert plan_processes(tmp_path, runs(SMALL), 8, None) == (4, None)


@pytest.mark.parametrize(("recorded", "size", "threads"), [
    ([8, 8], SMALL, 8), ([8, 8], LARGE, 8), ([8, 4], SMALL, 1), ([8, 4], LARGE, None), (["8", "8"], SMALL, 1), ([None, None], LARGE, None),
])  # fmt: skip
def test_a_sweep_keeps_its_number_of_threads(tmp_path, recorded, size, threads):
    for number, cpu_threads in enumerate(recorded):
        device = {"platform": "cpu", "cpu_threads": cpu_threads}
        (tmp_path / f"run{number}" / "checkpoints" / "3").mkdir(parents=True)
        write_json(tmp_path / f"run{number}" / "meta.json", {"device": device})
    assert plan_processes(tmp_path, runs(size, size, size), 1, None).threads == threads
    # A run without a checkpoint starts anew, and one on another platform says nothing.
    (tmp_path / "run0" / "checkpoints" / "3").rmdir()
    write_json(tmp_path / "run1" / "meta.json", {"device": {"platform": "gpu", "cpu_threads": 9}})
    assert plan_processes(tmp_path, runs(size, size, size), 1, None).threads == (1 if size == SMALL else None)


def test_a_line_says_how_many_processes_there_are():
    assert CpuProcesses(2, 1).describe() == "CPU: 2 processes at a time, each with one thread"
    assert CpuProcesses(2, 8).describe() == "CPU: 2 processes at a time, each with 8 threads"
    assert CpuProcesses(1, 1).describe() == CpuProcesses(2).describe() == ""


def test_xla_has_the_threads_that_the_environment_gives_it(monkeypatch):
    """A product that sums over 4,096 rows is split among the threads, which changes its last bits;
    with one thread they are those of a process that has one core.
    """
    if not hasattr(os, "sched_setaffinity"):
        pytest.skip("the cores of a process cannot be set here")
    program = """
import os, sys
if sys.argv[1] == "one core": os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
import hashlib, jax, numpy as np
x = np.random.default_rng(0).standard_normal((4096, 128), np.float32)
print(hashlib.sha256(np.asarray(jax.jit(lambda x: x.T @ x)(x))).hexdigest())
"""
    bits = [
        subprocess.run(
            [sys.executable, "-c", program, where],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for where, variables in (
            ("one core", {}),
            ("all cores", CpuProcesses(2, 1).variables()),
            ("all cores", CpuProcesses(2, 4).variables()),
        )
    ]
    assert bits[0] == bits[1] != bits[2]
    monkeypatch.setenv("NPROC", "3")
    assert compute_threads() == 3
    monkeypatch.setenv("PJRT_NPROC", "2")
    assert compute_threads() == 2


def test_the_free_memory_of_this_machine_has_room(monkeypatch):
    monkeypatch.undo()
    if Path("/proc/meminfo").exists():
        assert 0 <= cpu_processes._fitting() < 2**20
