"""Cells of what runs are for: tests on the device, populations, sweeps, generation, resumption."""

import json
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path
from typing import Any

from gpu_stages.measuring import Settings, Skipped, percentiles, rates, timed
from gpu_stages.training_steps import PADDED, ROOT

COUNTS = ("tests", "failures", "errors", "skipped")
# The model that a dry run trains in place of the decoder of that size.
SMALL = {"model.num_layers": 1, "model.dim": 16, "training.eval_batches": 1}


def test_cells(tiny: bool) -> dict[str, Settings]:
    """The tests that need an accelerator."""
    return {"pytest -m gpu": {"must_pass": 0 if tiny else 1}}


def run_tests(settings: Settings) -> dict[str, Any]:
    """Runs the tests in a process of their own, and counts them.

    Raises:
        Skipped: pytest or a package that the tests need is not installed.
        AssertionError: a test failed, or none ran.
    """
    try:
        import hypothesis  # noqa: F401
        import pytest  # noqa: F401
    except ImportError as error:
        raise Skipped(f"{error.name} is not installed") from error
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        command = [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-p", "no:cacheprovider", "tests/gpu"]
        done = subprocess.run([*command, f"--junitxml={report}"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        suites = ElementTree.parse(report).getroot().iter("testsuite") if report.is_file() else []
        count = Counter({name: int(number) for suite in suites for name, number in suite.items() if name in COUNTS})
    passed = count["tests"] - count["failures"] - count["errors"] - count["skipped"]
    print(done.stdout)
    if done.returncode or passed < settings["must_pass"]:
        raise AssertionError(f"{passed} tests of {count['tests']} passed: {done.stdout[-1500:]}")
    return {"tests_passed": passed, "tests_not_run": count["skipped"]}


def population_cells(tiny: bool) -> dict[str, Settings]:
    """The step of a run trained separately, and of populations by vmap."""
    sizes, numbers = (("tiny",), (0, 2)) if tiny else (("tiny", "small"), (0, 1, 4, 16))
    return {
        f"{size}, {f'N = {number}' if number else 'separately'}": {
            "size": size,
            "members": number,
            "changes": SMALL if tiny else {},
        }
        for size in sizes
        for number in numbers
    }


def population(settings: Settings) -> dict[str, Any]:
    """Times the step of a population; batches come from the host, as in a run."""
    from population import steppers

    from zoo import config as configs
    from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
    from zoo.lab.sizes import decoder

    number = settings["members"]
    found = steppers(settings["size"], "vmap", (number or 1,), settings["changes"])
    members, step = found[f"vmap, N = {number}" if number else "single"]
    config = configs.resolve(decoder(settings["size"], settings["changes"]), ByteTokenizer().vocab_size)
    times = timed(step)
    ms = times["ms"]["mean"]
    return times | rates(members * config.data.batch_size * config.data.sequence_length, ms) | {"ms_each": ms / members}


def sweep_cells(tiny: bool) -> dict[str, Settings]:
    """A sweep of 16 runs with rates of their own, as one program and as processes, by the steps of a run."""
    ways = {
        "as a population": {"together": True, "jobs": 1},
        "one after the other": {"together": False, "jobs": 1},
        "four at a time": {"together": False, "jobs": 4},
    }
    if tiny:
        shape = {"members": 2, "steps": 2, "changes": SMALL}
        return {name: {**shape, **way} for name, way in list(ways.items())[:2]}
    return {
        f"{name}, {steps:,} steps": {"members": 16, "steps": steps, "changes": {}, **way}
        for steps in (300, 3000)
        for name, way in ways.items()
    }


def sweep(settings: Settings) -> dict[str, Any]:
    """Times a whole `zoo run`, with its start, compilation, evaluation and checkpoints.

    This process starts no device before the sweep has ended, which needs the memory.
    """
    from population import sweep as timed_sweep

    from zoo import config as configs
    from zoo import data
    from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
    from zoo.lab.sizes import decoder

    # The tokens are in the cache for all alike.
    data.load(configs.resolve(decoder("tiny", {}), ByteTokenizer().vocab_size))
    members, how = settings["members"], (settings["together"], settings["jobs"])
    seconds = timed_sweep(members, *how, "tiny", settings["steps"], settings["changes"])
    return {"run_s": seconds, "run_s_each": seconds / members}


def decode_cells(tiny: bool) -> dict[str, Settings]:
    """Greedy generation with a cache, by GPT-2 124M and 1.6B."""
    models = {
        "124M": {"layers": 12, "width": 768, "heads": 12, "vocabulary": PADDED},
        "1.6B": {"layers": 48, "width": 1600, "heads": 25, "vocabulary": PADDED},
    }
    sizes = {"prompt": 64, "new_tokens": 128, "rounds": 8}
    if tiny:
        models = {"124M": {"layers": 2, "width": 32, "heads": 2, "vocabulary": 320}}
        sizes = {"prompt": 4, "new_tokens": 8, "rounds": 2}
    return {
        f"{name}, {rows} {'prompt' if rows == 1 else 'prompts'}": {"model": shape, "rows": rows, **sizes}
        for name, shape in models.items()
        for rows in (1, 32)
    }


def decode(settings: Settings) -> dict[str, Any]:
    """Times generation in bfloat16; a step's time is without that of reading the prompts."""
    import numpy as np
    from decode import zoo_caller

    shape, rows, new_tokens = settings["model"], settings["rows"], settings["new_tokens"]
    prompts = [
        [(7 * row + 3 * place) % shape["vocabulary"] for place in range(settings["prompt"])] for row in range(rows)
    ]
    call = zoo_caller(shape, prompts, {"model.dtype": "bfloat16"})

    def seconds(number: int) -> float:
        began = time.perf_counter()
        made = np.asarray(call(number))
        assert made.shape == (rows, number)
        return time.perf_counter() - began

    first = seconds(new_tokens) + seconds(1)
    whole, one = zip(*((seconds(new_tokens), seconds(1)) for _ in range(settings["rounds"])), strict=True)
    each = [1e3 * (all_of_it - start) / (new_tokens - 1) for all_of_it, start in zip(whole, one, strict=True)]
    return {
        "ms": {"mean": float(np.mean(each)), **percentiles(each)},
        "prompt_ms": float(1e3 * np.median(one)),
        "tokens_per_second": float(rows * new_tokens / np.median(whole)),
        "first_call_s": first,
    }


def resume_cells(tiny: bool) -> dict[str, Settings]:
    """A run that is stopped half-way, as devices compute by default and with deterministic operations, for
    which XLA of jaxlib 0.11.2 cannot compile cuDNN's attention.
    """
    shape = {"size": "small", "steps": 60, "changes": {}}
    if tiny:
        shape = {"size": "tiny", "steps": 4, "changes": SMALL}
    flag = {"XLA_FLAGS": "--xla_gpu_deterministic_ops=true"}
    einsum = shape["changes"] | {"model.attention.implementation": "einsum"}
    return {
        "default": shape,
        "deterministic operations": {**shape, "environment": flag},
        "deterministic operations, einsum": {**shape, "changes": einsum, "environment": flag},
    }


def resume(settings: Settings) -> dict[str, Any]:
    """Compares a run that was stopped and continued with one that was not, and that with its repetition.

    Returns:
        For each comparison whether the parameters are bit-equal in the end, and the largest relative
        difference of the losses of a step.
    """
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            name: _losses(settings, Path(folder) / name, name == "resumed") for name in ("whole", "again", "resumed")
        }
    losses, parameters, seconds = runs["whole"]
    found: dict[str, Any] = {"seconds_of_training": seconds}
    for name in ("again", "resumed"):
        other = runs[name][0]
        if losses.keys() != other.keys():
            raise AssertionError(f"{name}: {len(other)} steps in place of {len(losses)}")
        found |= {
            f"{name}_bit_equal": runs[name][1] == parameters,
            f"{name}_difference": max(abs(other[step] - loss) / abs(loss) for step, loss in losses.items()),
        }
    return found


def _losses(settings: Settings, workdir: Path, stop: bool) -> tuple[dict[int, float], str, float]:
    """Trains a run, which `stop` interrupts half-way and continues.

    Returns:
        (loss of every step, sha256 of the parameters in the end, seconds of the steps).
    """
    from zoo.errors import Preempted
    from zoo.lab.sizes import decoder
    from zoo.training.trainer import run

    steps = settings["steps"]
    config = decoder(
        settings["size"],
        {
            "model.dtype": "bfloat16",
            "training.steps": steps,
            "training.log_every": 1,
            "training.eval_every": 0,
            "training.eval_batches": 2,
            "training.checkpoint_every": 0,
            "training.trackers": (),
            **settings["changes"],
        },
    )

    def interrupt(text: str) -> None:
        if text.startswith(f"step {steps // 2}/"):
            signal.raise_signal(signal.SIGTERM)

    if stop:
        try:
            run(config, workdir, interrupt)
        except Preempted:
            pass
        else:
            raise AssertionError("the run was not stopped")
    status = run(config, workdir, lambda text: None)
    lines = [json.loads(text) for text in (workdir / "metrics.jsonl").read_text().splitlines()]
    training = [line for line in lines if "train/loss" in line]
    losses = {line["step"]: line["train/loss"] for line in training}
    return losses, status["parameters_sha256"], training[-1]["seconds"]
