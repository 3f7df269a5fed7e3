"""`benchmarks/gpu_suite.py`: interrupted suites resume, failed cells are retried, and every stage
runs.
"""

import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def suite(benchmark_module):
    return benchmark_module("gpu_suite")


@pytest.fixture
def run_fake_suite(suite, monkeypatch, tmp_path, lines_of):
    """Returns a function call(behaviours, ...) that runs the suite in this process, with one stage of
    fake cells. A behaviour is a cell's result or its error; the function returns (exit code, measured
    cells, lines).
    """
    monkeypatch.setattr(suite, "surroundings", lambda: {"device": {"kind": "none", "platform": "cpu", "count": 1}})
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def call(behaviours, *flags, together=False, start=None):
        measured = []

        def measure(settings):
            measured.append(settings["name"])
            behaviour = behaviours[settings["name"]]
            if isinstance(behaviour, BaseException):
                raise behaviour
            return behaviour

        cells = {name: {"name": name} for name in behaviours}
        stage = suite.Stage("cells", 10, lambda tiny: cells, measure, together)
        monkeypatch.setattr(suite, "STAGES", {"cells": stage})

        def work(name, names, own, seconds, options):
            suite.work(name, names, options.tiny, options.out)
            return ""

        monkeypatch.setattr(suite, "obstacle", lambda tiny: "")
        monkeypatch.setattr(suite, "start", start or work)
        code = suite.main(["--out", str(tmp_path), "--stages=cells", *flags])
        return code, measured, lines_of(tmp_path)

    return call


def test_cells_with_results_are_skipped(run_fake_suite):
    code, measured, lines = run_fake_suite({"a": {"x": 1}, "b": {"x": 2}})
    assert (code, measured) == (0, ["a", "b"])
    assert [(line["stage"], line["cell"], line["config"], line["x"]) for line in lines] == [
        ("cells", "a", {"name": "a"}, 1),
        ("cells", "b", {"name": "b"}, 2),
    ]
    code, measured, lines = run_fake_suite({"a": {"x": 3}, "b": {"x": 3}, "c": {"x": 3}})
    assert (code, measured, len(lines)) == (0, ["c"], 3)


def test_dry_runs_do_not_count_as_results(run_fake_suite):
    run_fake_suite({"a": {"x": 1}}, "--tiny")
    assert run_fake_suite({"a": {"x": 2}})[1] == ["a"]
    assert run_fake_suite({"a": {"x": 2}}, "--tiny")[1] == []


def test_failed_cells_are_retried_and_do_not_stop_others(run_fake_suite):
    code, measured, lines = run_fake_suite({"bad": ValueError("a typo"), "good": {"x": 1}})
    assert (code, measured) == (1, ["bad", "good"])
    assert [line.get("error") for line in lines] == ["ValueError: a typo", None]
    code, measured, lines = run_fake_suite({"bad": {"x": 1}, "good": {"x": 1}})
    assert (code, measured, len(lines)) == (0, ["bad"], 3)
    assert run_fake_suite({"bad": {"x": 1}, "good": {"x": 1}})[1] == []


def test_skipped_cells_give_a_reason(run_fake_suite, suite):
    code, _, (line,) = run_fake_suite({"a": suite.Skipped("PyTorch is not installed")})
    assert (code, line["skipped"]) == (0, "PyTorch is not installed")
    assert run_fake_suite({"a": {"x": 1}})[1] == ["a"]


def test_out_of_memory_is_a_result(run_fake_suite):
    code, _, (line,) = run_fake_suite({"a": RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate")})
    assert (code, line["out_of_memory"]) == (0, True)
    assert run_fake_suite({"a": {"x": 1}})[1] == []


def test_cells_after_a_crash_run_in_a_new_process(run_fake_suite, suite):
    started = []

    def start(name, names, own, seconds, options):
        started.append((list(names), seconds))
        if names[0] == "a":
            suite.lines.append(options.out, suite.heading(name, "a", {}, options.tiny) | {"seconds": 1.0})
            return "the process ended with exit code -9"
        suite.work(name, names, options.tiny, options.out)
        return ""

    code, _, lines = run_fake_suite({name: {"x": 1} for name in "abcd"}, together=True, start=start)
    assert (code, started) == (1, [(["a", "b", "c", "d"], 40), (["c", "d"], 20)])
    assert [line["cell"] for line in lines] == ["a", "b", "c", "d"]
    assert lines[1]["error"] == "the process ended with exit code -9"


def test_cells_that_may_exceed_the_time_limit_are_not_started(run_fake_suite, capsys):
    # The stage allows 10 seconds per cell.
    code, measured, lines = run_fake_suite({"a": {"x": 1}, "b": {"x": 1}}, "--limit=9")
    assert (code, measured, lines) == (1, [], [])
    assert "no time is left for a" in capsys.readouterr().out
    assert run_fake_suite({name: {"x": 1} for name in "abc"}, "--limit=25", together=True)[1] == ["a", "b", "c"]


def test_without_an_accelerator_only_dry_runs_start(suite, tmp_path, capsys, lines_of):
    assert suite.main(["--out", str(tmp_path)]) == 2
    assert "--tiny" in capsys.readouterr().err
    assert lines_of(tmp_path) == []


def test_a_missing_package_is_one_line_and_not_a_failure_of_every_cell(suite, monkeypatch, tmp_path, capsys, lines_of):
    (tmp_path / "zstandard.py").write_text("raise ModuleNotFoundError(\"No module named 'zstandard'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert suite.main(["--tiny", "--out", str(tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("zoo cannot be imported: ")
    assert printed.endswith("No module named 'zstandard'\n")
    assert printed.count("\n") == 1
    assert lines_of(tmp_path) == []


def test_processes_are_stopped_at_their_time_limit(suite, tmp_path):
    options = Namespace(out=tmp_path, tiny=True)
    assert suite.start("probe", ["matrix product"], {}, 0.2, options) == "not done after its limit of 0 s"


def test_failed_processes_report_their_output(suite, tmp_path):
    problem = suite.start("probe", ["no such cell"], {}, 60, Namespace(out=tmp_path, tiny=True))
    assert problem.startswith("the process ended with exit code 1")
    assert "KeyError: 'no such cell'" in problem


def test_a_truncated_line_does_not_affect_others(benchmark_module, tmp_path):
    lines = benchmark_module("gpu_stages.lines")
    first, second = ({"stage": "s", "cell": cell, "tiny": False} for cell in "ab")
    lines.append(tmp_path, first)
    with open(tmp_path / lines.FILE, "a") as file:
        file.write('{"stage": "s", "cel')
    lines.append(tmp_path, second)
    assert lines.read(tmp_path / lines.FILE) == [first, second]


def test_the_environment_of_a_worker(suite, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--one")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    for name in suite.MEMORY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    own = {"XLA_CLIENT_MEM_FRACTION": ".92", "XLA_FLAGS": "--two"}
    found = suite.environment(own, tiny=False)
    assert found["XLA_FLAGS"] == "--one --two"
    assert found["PYTHONPATH"] == f"{ROOT}:/elsewhere"
    assert found["XLA_CLIENT_MEM_FRACTION"] == ".92"
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")
    assert "XLA_CLIENT_MEM_FRACTION" not in suite.environment(own, tiny=False)


def test_cells_with_environment_variables_run_in_separate_processes(suite):
    cells = {"a": {}, "b": {"environment": {"X": "1"}}, "c": {}}
    stage = suite.Stage("cells", 1, lambda tiny: cells, dict, together=True, environment={"Y": "2"})
    assert list(suite.processes(stage, list(cells), False)) == [(["a", "c"], {"Y": "2"}), (["b"], {"Y": "2", "X": "1"})]


def test_timed_runs_warmup_and_measured_calls(benchmark_module):
    import jax.numpy as jnp

    calls = []
    found = benchmark_module("gpu_stages.measuring").timed(lambda: calls.append(1) or jnp.zeros(()), 3, 7)
    assert len(calls) == 10
    assert set(found["ms"]) == {"mean", "p10", "p50", "p90"}
    assert found["ms"]["p10"] <= found["ms"]["p50"] <= found["ms"]["p90"]


PARAMETERS = {
    "as shipped, one part of 12 rows": 124_439_808 + 47 * 768,
    "350M, 32 rows, unrolled": 354_823_168 + 47 * 1024,
    "1.6B, 16 rows, scanned, remat=dots": 1_557_611_200 + 47 * 1600,
}


def training_cells(benchmark_module):
    steps = benchmark_module("gpu_stages.training_steps")
    stages = (steps.small_model_cells, steps.ladder_cells, steps.variant_cells, steps.length_cells)
    return steps, {name: cell for cells in stages for name, cell in cells(False).items()}


def test_full_size_configs_resolve(benchmark_module):
    from zoo.models import cost

    steps, cells = training_cells(benchmark_module)
    configs = {name: steps.resolved(settings) for name, settings in cells.items()}
    assert {name: cost.summary(configs[name]).parameters["total"] for name in PARAMETERS} == PARAMETERS
    assert configs["as shipped, whole update of 480 rows"].data.batch_size == 480
    assert configs["1.3B, 16 rows, scanned"].model.remat == "none"


CALLS = [
    '%a = (bf16[2,4]) custom-call(%x), custom_call_target="__cudnn$fmhaSoftmax", metadata={}',
    '%b = (bf16[2,4]) custom-call(%a), custom_call_target="__cudnn$fmhaSoftmaxBackward"',
    '%c = f32[4] custom-call(%b), custom_call_target="__cublas$gemm"',
]


@pytest.fixture
def compiled_attention(benchmark_module, monkeypatch):
    """Returns a function call(kernel, lines) that measures a cell whose program has these lines."""
    from zoo.objectives import attention_kernels
    from zoo.resources import abstract_run

    steps = benchmark_module("gpu_stages.training_steps")

    def call(kernel, program_lines):
        layer = attention_kernels.LayerKernel("all layers", kernel, "" if kernel == "cudnn" else "no GPU or TPU")
        compiled = Namespace(as_text=lambda: "\n".join(program_lines))
        lowered = Namespace(compile=lambda: compiled)
        monkeypatch.setattr(attention_kernels, "attention_kernels", lambda config, platform: [layer])
        monkeypatch.setattr(abstract_run, "abstract_program", lambda config: None)
        monkeypatch.setattr(abstract_run, "lowered_step", lambda config, program: lowered)
        return steps.compiled_attention(steps.fused_cells(False)["plain"])

    return call


def test_calls_of_fused_attention_are_counted(compiled_attention):
    found = compiled_attention("cudnn", 2 * CALLS)
    assert found["fused_calls"] == {"__cudnn$fmhaSoftmax": 2, "__cudnn$fmhaSoftmaxBackward": 2}
    assert found["attention_kernel"] == ["cudnn (all layers)"]
    assert compiled_attention("einsum", CALLS[2:])["fused_calls"] == {}


@pytest.mark.parametrize(
    ("kernel", "program_lines"), [("cudnn", CALLS), ("cudnn", 2 * CALLS[:1]), ("cudnn", []), ("einsum", 2 * CALLS)]
)
def test_a_program_without_the_attention_that_was_chosen_is_an_error(compiled_attention, kernel, program_lines):
    with pytest.raises(AssertionError, match="but the program calls"):
        compiled_attention(kernel, program_lines)


@pytest.mark.slow(reason="every benchmark is traced or run")
def test_full_size_training_steps_can_be_traced(benchmark_module):
    from zoo.resources.abstract_run import abstract_program, lowered_step

    steps, cells = training_cells(benchmark_module)
    # These cells of GPT-2 124M differ only in numeric settings.
    redundant = [name for name in steps.small_model_cells(False) if name.endswith(" V 50257") or "chunks" in name]
    for settings in (settings for name, settings in cells.items() if name not in redundant):
        config = steps.resolved(settings)
        batch, lowered = steps.random_batch(config), lowered_step(config, abstract_program(config))
        shapes = {name: (x.shape, x.dtype) for name, x in lowered.args_info[0][1].items()}
        assert {name: (x.shape, x.dtype) for name, x in batch.items()} == shapes


def dry_run(folder, *flags):
    command = [sys.executable, ROOT / "benchmarks" / "gpu_suite.py", "--tiny", "--out", folder, *flags]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.promise(reason="benchmarks are run in other processes")
def test_a_dry_run_of_two_stages(tmp_path, lines_of):
    completed = dry_run(tmp_path, "--stages=loss,probe")
    lines = lines_of(tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert [line["stage"] for line in lines] == ["probe", *["loss"] * 6]
    for line in lines:
        assert line["ms"]["p10"] > 0
        assert line["device"]["platform"] == "cpu"
        assert line["versions"]["jax"]
        assert line["compile_s"] >= 0
    again = dry_run(tmp_path, "--stages=loss,probe")
    assert (again.returncode, again.stdout, lines_of(tmp_path)) == (0, "", lines)


@pytest.mark.slow(reason="every benchmark is traced or run")
@pytest.mark.timeout(3600)
def test_a_dry_run_of_everything(suite, tmp_path, lines_of):
    completed = dry_run(tmp_path)
    assert completed.returncode == 0, completed.stdout + completed.stderr + (tmp_path / suite.LOG).read_text()[-5000:]
    lines = lines_of(tmp_path)
    assert {line["stage"] for line in lines} == set(suite.STAGES)
    assert not [line for line in lines if "error" in line]
    # cuDNN's kernel needs a GPU, and PyTorch may not be installed.
    without = [line["skipped"] for line in lines if "skipped" in line]
    assert set(without) <= {"cuDNN's kernel needs an NVIDIA GPU", "PyTorch is not installed"}
    steps = [line for line in lines if line["stage"] in ("step124", "ladder", "variants")]
    for line in steps:
        assert line["tokens_per_second"] > 0
        assert line["flops_per_token"] > 0
        assert line["attention_kernel"]
    assert all(line["resumed_bit_equal"] for line in lines if line["stage"] == "resume")
