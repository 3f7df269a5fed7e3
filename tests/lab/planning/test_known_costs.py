"""The time of a plan is that of archived runs of models as large, on processors like this one."""

import pytest

from zoo.lab.planning import known_costs
from zoo.lab.planning.known_costs import throughput_of, time_lines

ENTRIES = tuple(
    {
        "size": size,
        "instructions": instructions,
        "parameters": parameters,
        "flops": flops,
        "sweeps": 3,
        "flops_per_second": throughputs,
    }
    for size, parameters, flops in (("tiny", 1e5, 1e11), ("rung1", 1e5, 1e12), ("medium", 1e6, 1e12))
    for instructions, throughputs in (("avx2", [1e9, 2e9, 4e9]), ("avx512f", [1e10, 2e10, 4e10]))
)


@pytest.fixture(autouse=True)
def record(monkeypatch):
    """The record has three sizes and two kinds of processors; this one has AVX2."""
    monkeypatch.setattr(known_costs, "recorded_costs", lambda: ENTRIES)
    monkeypatch.setattr(known_costs, "vector_instructions", lambda: ["avx2"])


def test_the_nearest_size_of_the_same_processors_counts():
    assert throughput_of(2e5, 1e11, "avx2").entry["size"] == "tiny"
    assert throughput_of(5e5, 1e11, "avx2").entry["size"] == "medium"
    assert throughput_of(2e5, 1e11, "avx512f").median == 2e10
    assert throughput_of(2e5, 1e11, "amx_tile") is None


def test_of_sizes_with_as_many_parameters_the_one_with_runs_as_long_counts():
    assert throughput_of(2e5, 8e11, "avx2").entry["size"] == "rung1"
    assert throughput_of(2e5, 2e11, "avx2").entry["size"] == "tiny"
    (line,) = time_lines(10, 1e5, 1e13, tuning=False)
    assert "of the size rung1" in line


def test_time_is_that_of_two_cores_in_the_fastest_and_the_slowest_sweep():
    # 10 runs of 4.8e10 FLOPs: 240 seconds of two cores in the slowest sweep.
    (line,) = time_lines(10, 1e5, 48e10, tuning=False)
    assert line == (
        "training of 10 runs takes 1 to 4 minutes on two cores of a CPU, without evaluation and compilation, at the "
        "throughput of 3 archived sweeps of the size tiny with AVX2 (the fastest and the slowest)"
    )
    # One run has one core, and long sweeps take hours; of three, one core has two.
    (line,) = time_lines(1, 1e5, 48e12, tuning=True)
    assert line.startswith("training of 1 run, the fewest with tuning, takes 3 to 13 hours")
    (line,) = time_lines(3, 1e5, 3e10, tuning=False)
    assert line.startswith("training of 3 runs takes 5 to 20 seconds")


def test_nothing_is_said_of_models_far_larger_or_other_processors(monkeypatch):
    assert list(time_lines(10, 1e7, 1e20, tuning=False)) != []
    assert list(time_lines(10, 1.1e7, 1e20, tuning=False)) == []
    assert list(time_lines(0, 1e5, 0.0, tuning=False)) == []
    monkeypatch.setattr(known_costs, "vector_instructions", list)
    assert list(time_lines(10, 1e5, 1e12, tuning=False)) == []
