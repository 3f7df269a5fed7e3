"""Devices that are not here, and programs that their own compiler makes for them."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.resources import target_devices
from zoo.resources.target_devices import TARGETS, needed_temporaries, slice_shape, why_not_compiled
from zoo.training.runtime.device_peaks import DEVICES

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("kind", "devices", "shape"),
    [("v5e", 1, (1, 1)), ("v5e", 2, (2, 1)), ("v5e", 8, (2, 4)), ("v6e", 256, (16, 16)), ("v5p", 4, (2, 2, 1)),
     ("v5p", 16, (2, 2, 4)), ("v5p", 512, (8, 8, 8)), ("tpu7x", 2, (1, 1, 1)), ("tpu7x", 8, (2, 2, 1)),
     ("v5e", 6, None), ("tpu7x", 1, None)],
)  # fmt: skip
def test_slices_have_the_asked_number_of_devices(kind, devices, shape):
    assert slice_shape(kind, devices) == shape


@pytest.mark.parametrize(
    ("kind", "devices", "why"),
    [(None, 8, "without --device"), ("h100", 8, "no compiler for h100 is known here"),
     ("v5e", 6, "no slice of v5e has 6 devices"), ("v5e", 8, "")],
)  # fmt: skip
def test_the_reason_for_a_simulation_is_named(monkeypatch, kind, devices, why):
    monkeypatch.setattr(target_devices.importlib.util, "find_spec", lambda name: name)
    assert why_not_compiled(kind, devices) == why
    if not why:
        monkeypatch.setattr(target_devices.importlib.util, "find_spec", lambda name: None)
        assert why_not_compiled(kind, devices) == "libtpu is not installed (extra tpu)"


def test_compilers_allow_less_memory_than_a_device_has():
    assert all(
        0.9 * DEVICES[kind].memory < target.memory < 1.1 * DEVICES[kind].memory for kind, target in TARGETS.items()
    )


def test_needed_memory_is_read_from_a_compilers_error():
    text = "RESOURCE_EXHAUSTED: ... Ran out of memory in memory space hbm. Used 22.18G of 15.75G hbm. Exceeded hbm"
    assert needed_temporaries(ValueError(text), 2**30) == pytest.approx(21.18 * 2**30)
    text = (
        "RESOURCE_EXHAUSTED: ... the total memory required for HLO temporaries (512.5M) exceeds available HBM (15.75G)."
    )
    assert needed_temporaries(ValueError(text), 2**30) == 512.5 * 2**20
    assert needed_temporaries(ValueError("INTERNAL: something else"), 0) is None


@pytest.mark.aot(reason="programs for TPUs are compiled")
@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="needs libtpu")
class TestCompiled:
    @staticmethod
    def plan(*words):
        command = [
            sys.executable,
            "-c",
            "import sys; from zoo.cli.main import main; sys.exit(main(sys.argv[1:]))",
            "plan",
        ]
        completed = subprocess.run(
            [*command, *words, "--json"], capture_output=True, text=True, cwd=ROOT, env=os.environ, check=False
        )
        assert completed.returncode == 0, completed.stderr[-2000:]
        return json.loads(completed.stdout)

    def test_data_parallel_gradients_are_summed_once(self):
        untied = "--config.model.tie_embeddings=false"
        plan = self.plan("configs/gpt2.py:smoke", "--device", "v5e", "--devices", "4", untied)
        assert plan["simulated"] == ""
        (stage,) = plan["stages"]
        sent = stage["measured"]["wire"]
        assert sent.keys() == {"all-reduce"}
        # float32 gradients of all parameters, and a few numbers beside them.
        assert sent["all-reduce"] == pytest.approx(2 * 4 * plan["parameters"] * 3 / 4, rel=0.05)

    def test_a_scanned_stack_gathers_its_weights_in_each_layer(self):
        fields = {"model.scan_layers": "true", "mesh.fsdp": 4, "model.dim": 256, "model.vocab_size": 320}
        layers = {
            depth: self.plan(
                "configs/gpt2.py:smoke", "--device", "v5e", "--devices", "4", f"--config.model.num_layers={depth}",
                *(f"--config.{name}={value}" for name, value in fields.items()),
            )["stages"][0]["measured"]["wire"]
            for depth in (2, 4)
        }  # fmt: skip
        more = {kind: layers[4].get(kind, 0) - layers[2].get(kind, 0) for kind in layers[4]}
        # By the count by hand: weights of two layers more are gathered twice, in bfloat16 or before
        # that cast, and their float32 gradients scattered, or summed on all devices.
        sent = 2 * 12 * 256 * 256 * 3 / 4
        assert 2 * 2 * sent < more["all-gather"] < 1.01 * 2 * 4 * sent
        gradients = more.get("reduce-scatter", 0) + more["all-reduce"]
        assert 4 * sent < gradients < 1.01 * 2 * 4 * sent

    def test_a_program_that_does_not_fit_is_reported_with_its_size(self):
        plan = self.plan(
            "configs/gpt2.py:small", "--device", "v5e", "--devices", "4", "--config.training.microbatch_size=120"
        )
        assert plan["fits"] is False
        assert plan["memory"] > 15.75 * 2**30
        assert plan["stages"][0]["measured"]["complete"] is False
