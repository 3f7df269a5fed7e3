"""Plans for eight simulated devices against compilations of the whole program."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from jax._src.cudnn import fused_attention_stablehlo as jax_cudnn

from zoo import config as configs
from zoo.cli.main import main
from zoo.cli.plan_resources import as_json, as_lines
from zoo.data.pipeline.buckets import bucket_shapes
from zoo.errors import ConfigError
from zoo.layers.platform import Platform
from zoo.models import cost
from zoo.nested import unflatten
from zoo.resources import resource_plan
from zoo.resources.abstract_run import abstract_batch
from zoo.resources.resource_plan import Measured, ResourcePlan, Stage, config_for, make_plan, suggest

SMALL = {
    "model.dim": 64, "model.num_layers": 6, "model.attention.num_heads": 8, "model.vocab_size": 512,
    "data.batch_size": 32, "data.sequence_length": 32, "data.tokenizer.kind": "bytes",
}  # fmt: skip
CASES = {
    "unrolled": (SMALL | {"mesh.fsdp": 4, "mesh.tensor": 2}, None),
    "scanned, microbatches": (SMALL | {"model.scan_layers": True, "mesh.fsdp": 4, "training.microbatch_size": 2}, None),
    "fused": (SMALL | {"model.dtype": "bfloat16", "data.sequence_length": 256, "model.scan_layers": True}, "h200"),
    "indivisible": (SMALL | {"model.vocab_size": 509, "mesh.tensor": 8, "data.batch_size": 2}, "a100"),
}


@pytest.fixture(scope="module")
def plans():
    environment = os.environ | {"JAX_NUM_CPU_DEVICES": "8", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, Path(__file__).with_name("plans.py"), json.dumps(list(CASES.values()))]
    completed = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert completed.returncode == 0, completed.stderr[-3000:]
    return dict(zip(CASES, json.loads(completed.stdout.splitlines()[-1]), strict=True))


@pytest.mark.promise(reason="programs for several devices are compiled")
@pytest.mark.parametrize("name", ["unrolled", "scanned, microbatches"])
def test_memory_and_collectives_match_the_full_compilation(plans, name):
    plan, found = plans[name]["plan"], plans[name]
    (stage,) = plan["stages"]
    assert plan["memory"] == pytest.approx(found["memory"], rel=0.15)
    assert stage["measured"]["wire"].keys() == found["wire"].keys()
    for kind, sent in found["wire"].items():
        assert stage["measured"]["wire"][kind] == pytest.approx(sent, rel=1e-3), kind
    assert plan["parts"] == (1 if name == "unrolled" else 2)
    # Parameters and two moments are float32; all but norms and biases are sharded over eight devices.
    assert 12 * plan["parameters"] / 8 < plan["state"] < 1.2 * 12 * plan["parameters"] / plan["mesh"]["fsdp"]


@pytest.mark.promise(reason="programs for several devices are compiled")
def test_plans_for_gpus_use_fused_attention(plans):
    plan = plans["fused"]["plan"]
    assert plan["kernel"] == "cudnn"
    assert plan["device"] == "h200"
    scores = 6 * 4 * 8 * 256 * 256 * 2
    (stage,) = plan["stages"]
    assert stage["measured"]["temporaries"] < 6 * scores
    assert set(stage["seconds"]) == {"compute", "memory", "wire"}
    assert all(stage["seconds"].values())
    assert plan["attention"] == ["cudnn (all layers)"]
    text = "\n".join(plans["fused"]["lines"])
    assert "fits in" in text
    assert "at least" in text


@pytest.mark.promise(reason="programs for several devices are compiled")
def test_warnings_of_a_plan(plans):
    first, second = plans["indivisible"]["plan"]["warnings"]
    assert "model.vocab_size=509 is not divisible by mesh.tensor=8" in first
    assert "model.vocab_multiple=8 would pad it to 512 rows" in first
    assert "the loss works on 64 tokens of a device" in second


SHALLOW = SMALL | {"model.num_layers": 2}
# Rows x length: 64 x 8, 128 x 8, 32 x 32.
STAGES = {"data.batch_stages": (16, 30), "data.length_stages": (8, 50), "training.steps": 100}


def test_tokens_flops_and_time_are_summed_over_stages(monkeypatch):
    """Each stage equals a config with its batch size and sequence length."""

    def measure(config, devices):
        return Measured(1e9 / config.data.sequence_length, {}, {}, ((1e6, ""),), ())

    monkeypatch.setattr(resource_plan, "measure", measure)
    plan = make_plan(configs.resolve(unflatten(SHALLOW | STAGES)), "l4")
    shapes = [(stage.steps, stage.rows, stage.length) for stage in plan.stages]
    assert shapes == [(30, 64, 8), (20, 128, 8), (50, 32, 32)]
    assert (plan.steps, plan.tokens) == (100, 30 * 512 + 70 * 1024)
    flops = seconds = 0
    for steps, rows, length in shapes:
        shape = {"data.batch_size": rows, "data.sequence_length": length, "model.position.max_length": 32}
        stage_config = configs.resolve(unflatten(SHALLOW | shape))
        flops += steps * rows * length * cost.summary(stage_config).flops_per_token
        seconds += steps * max(make_plan(stage_config, "l4").whole.seconds.values())
    assert plan.flops == pytest.approx(flops)
    assert plan.run_seconds() == pytest.approx(seconds)
    whole = make_plan(configs.resolve(unflatten(SHALLOW | {"training.steps": 100})), "l4")
    assert plan.flops < 0.99 * whole.flops
    # With this stub, short rows have the largest temporaries.
    assert plan.memory - plan.state == 1e9 / 8
    assert as_json(plan)["run"]["tokens"] == plan.tokens
    assert "stage        30 steps of 512 tokens: 64 rows of 8" in as_lines(plan)
    assert "attention    einsum (all layers), not fused: float32 activations" in as_lines(plan)


def test_a_plan_says_what_decoding_keeps(monkeypatch):
    monkeypatch.setattr(resource_plan, "measure", lambda config, devices: Measured(0.0, {}, {}, (), ()))

    def line(changes):
        plan = make_plan(configs.resolve(configs.override(configs.default(), SHALLOW | changes)))
        return next((line for line in as_lines(plan) if line.startswith("decoding")), None)

    state = {
        "model.layers.kinds.state.attention.kind": "gated_delta",
        "model.layers.kinds.full.attention.kind": "softmax",
    }
    hybrid = state | {"model.layers.pattern": ("state", "full"), "model.position.kind": "none"}
    # Keys and values of 64 numbers; 8 matrices of 8 x 8; 3 tokens before each of three convolutions.
    matrices, convolutions = 4 * 8 * 8 * 8, 4 * 3 * 3 * 64
    texts = f"{matrices + convolutions:,} bytes of each text, whatever its length"
    assert line({}) == "decoding     keeps 1,024 bytes of each token"
    assert line(hybrid) == f"decoding     keeps 512 bytes of each token and {texts}"
    alone = {"model.attention.kind": "gated_delta", "model.position.kind": "none"}
    assert line(alone) == f"decoding     keeps {2 * (matrices + convolutions):,} {texts.partition(' ')[2]}"
    assert line({"model.architecture": "encoder", "objective.kind": "masked"}) is None


@pytest.mark.parametrize(("placement", "compiled"), [("pre", [2, 3]), ("depth_attention", [12]), ("unet", [12])])
def test_layers_that_read_earlier_outputs_are_compiled_in_full(monkeypatch, placement, compiled):
    """What they keep grows with the square of the depth, which two depths do not tell."""
    depths = []

    def measured(config, devices):
        depths.append(config.model.num_layers)
        return Measured(float(config.model.num_layers), {}, {}, (), ())

    monkeypatch.setattr(resource_plan, "_measure", measured)
    deep = {"model.num_layers": 12, "model.norm.placement": placement, "model.scan_layers": False}
    config = configs.resolve(configs.override(configs.default(), SHALLOW | deep))
    assert resource_plan.measure(config, []).temporaries == 12
    assert depths == compiled


@pytest.mark.parametrize("error", [jax.errors.JaxRuntimeError, NotImplementedError])
def test_a_compiler_that_fails_is_replaced_by_the_simulation(monkeypatch, error):
    def measure(config, devices):
        if devices == ["accelerator"]:
            raise error("INTERNAL: no such layout\nand more")
        return Measured(1.0, {}, {}, (), ())

    program = resource_plan.abstract_program
    monkeypatch.setattr(resource_plan, "measure", measure)
    monkeypatch.setattr(resource_plan, "why_not_compiled", lambda device, devices: "")
    monkeypatch.setattr(resource_plan, "target_devices", lambda device, devices: ["accelerator"])
    monkeypatch.setattr(resource_plan, "abstract_program", lambda config, devices: program(config))
    plan = make_plan(configs.resolve(unflatten(SHALLOW)), "v5e")
    assert plan.simulated == "the compiler for v5e failed: INTERNAL: no such layout"
    assert plan.fits


def test_jax_is_told_of_the_gpus_that_are_planned_for():
    own = jax_cudnn.check_compute_capability
    for capability, allowed in (((9, 0), [True, True]), ((8, 9), [True, False])):
        with resource_plan._planned_kernels(Platform("gpu", 1, capability)):
            assert [jax_cudnn.check_compute_capability(least) for least in ("8.0", "9.0")] == allowed
    assert jax_cudnn.check_compute_capability is own


def test_translation_is_planned_in_its_widest_batches_and_tasks_are_not():
    config = configs.resolve(configs.load("translation:multi30k"))
    widest = bucket_shapes(config.data.sequence_length, config.data.batch_size, config.data.buckets)[-1]
    shapes = {name: each.shape for name, each in abstract_batch(config).items()}
    assert shapes == dict.fromkeys(("source", "targets"), (widest.rows, widest.width))
    task = configs.resolve(configs.load("finetune/regression:tiny"))
    with pytest.raises(ConfigError, match=r"objective.kind=regression cannot be planned"):
        abstract_batch(task)


def plan_of(config, memory) -> ResourcePlan:
    stage = Stage(steps=1, rows=1, length=1, measured=Measured(memory, {}, {}, (), ()), flops=1.0, seconds={})
    return ResourcePlan(
        devices=8, device="l4", simulated="no compiler", mesh={"data": 8, "fsdp": 1, "expert": 1, "tensor": 1}, parts=1, kernel="einsum", parameters=1,
        state=0.0, stages=(stage,), warnings=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fits", "expected"),
    [
        (lambda model, training, mesh: training.microbatch_size == 2, {"training.microbatch_size": 2}),
        (lambda model, training, mesh: model.remat == "full", {"model.remat": "full"}),
        (lambda model, training, mesh: mesh.fsdp == 4, {"mesh.fsdp": 4}),
        (
            lambda model, training, mesh: mesh.fsdp == 8 and model.remat == "full",
            {"mesh.fsdp": 8, "model.remat": "full"},
        ),
    ],
)
def test_the_smallest_change_that_fits_is_suggested(fits, expected):
    config = configs.resolve(unflatten(SMALL))

    def make(changed):
        return plan_of(changed, 1.0 if fits(changed.model, changed.training, changed.mesh) else 1e15)

    change, plan = suggest(config, plan_of(config, 1e15), make)
    assert expected.items() <= change.items()
    assert plan.fits
    assert suggest(config, plan_of(config, 1e15), lambda changed: plan_of(changed, 1e15)) is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["configs/gpt2.py:tiny", "--devices", "0"], "--devices=0 must be at least 1"),
        (
            ["configs/gpt2.py:tiny", "--devices", "1000000000"],
            "--devices=1000000000 must be at least 1 and at most 2,048",
        ),
        (["configs/gpt2.py:tiny", "--suggest"], "--suggest needs --device"),
        (["configs/gpt2.py:tiny", "--device", "h900"], "h900"),
        (["configs/nothing.py"], "configs/nothing.py"),
    ],
)
def test_bad_arguments_are_rejected_before_compilation(arguments, problem, capsys):
    assert main(["plan", *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_wide_heads_are_fused_only_on_gpus_that_support_them():
    wide = SMALL | {"model.dtype": "bfloat16", "model.attention.head_dim": 256}
    config = configs.resolve(unflatten(wide))
    kernels = [config_for(config, device).model.attention.implementation for device in ("h100", "a100", "l4")]
    assert kernels == ["cudnn", "einsum", "einsum"]


@pytest.mark.promise(reason="programs for several devices are compiled")
def test_a_dry_run_plans_every_arm():
    command = [sys.executable, "-c", "import sys; from zoo.cli.main import main; sys.exit(main(sys.argv[1:]))", "run"]
    flags = ["--config=configs/gpt2.py:smoke", "--vary", "optimizer.learning_rate=1e-3,1e-2", "--dry-run"]
    completed = subprocess.run(
        [*command, *flags, "--devices", "2", "--device", "l4"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert completed.returncode == 0, completed.stderr
    assert "on 2 x l4" in completed.stdout
    assert completed.stdout.count("of it state), fits; ") == 2


@pytest.mark.parametrize(
    ("flags", "problem"),
    [(["--devices", "2"], "needs --dry-run"), (["--device", "l4", "--dry-run"], "needs --devices")],
)
def test_device_flags_need_a_dry_run(flags, problem, capsys):
    experiment = ["run", "--config=configs/gpt2.py:smoke", "--vary", "model.norm.kind=rmsnorm,layernorm"]
    assert main([*experiment, *flags]) == 2
    assert problem in capsys.readouterr().err
