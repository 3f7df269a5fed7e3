"""Devices that are not here, and programs that their own compiler makes for them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from zoo.layers.grouped_product import grouped_product
from zoo.layers.parameter import Linear, zeros
from zoo.layers.platform import Platform
from zoo.resources import target_devices
from zoo.resources.compiled_program import CompiledProgram
from zoo.resources.target_devices import GPUS, SLICES, needed_temporaries, slice_shape, why_not_compiled
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
    [(None, 8, "without --device"), ("l4", 8, "no compiler for l4 is known here"),
     ("v5e", 6, "no slice of v5e has 6 devices"), ("h100", 12, "no hosts of 8 have 12 GPUs"), ("v5e", 8, ""),
     ("h100", 8, "")],
)  # fmt: skip
def test_the_reason_for_a_simulation_is_named(monkeypatch, kind, devices, why):
    monkeypatch.setattr(target_devices.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(target_devices, "_cudnn", lambda: Path("libcudnn.so.9"))
    assert why_not_compiled(kind, devices) == why
    if not why:
        monkeypatch.setattr(target_devices.importlib.util, "find_spec", lambda name: None)
        missing = {
            "v5e": "libtpu is not installed (extra tpu)",
            "h100": "JAX's CUDA plugin is not installed (extra cuda)",
        }
        assert why_not_compiled(kind, devices) == missing[kind]


def test_compilers_allow_nearly_the_memory_of_a_device():
    for kind, target in SLICES.items():
        assert 0.9 * DEVICES[kind].memory < target.memory < 1.1 * DEVICES[kind].memory


@pytest.mark.parametrize("kind", GPUS)
def test_gpus_are_described_by_their_data_sheets(kind):
    text, peaks = target_devices._description(kind), DEVICES[kind]
    assert f"device_memory_size: {peaks.memory:.0f} " in text
    assert "cuda_compute_capability {{ major: {} minor: {} }}".format(*peaks.capability) in text


def test_needed_memory_is_read_from_a_compilers_error():
    text = "RESOURCE_EXHAUSTED: ... Ran out of memory in memory space hbm. Used 22.18G of 15.75G hbm. Exceeded hbm"
    assert needed_temporaries(ValueError(text), 2**30) == pytest.approx(21.18 * 2**30)
    text = (
        "RESOURCE_EXHAUSTED: ... the total memory required for HLO temporaries (512.5M) exceeds available HBM (15.75G)."
    )
    assert needed_temporaries(ValueError(text), 2**30) == 512.5 * 2**20
    assert needed_temporaries(ValueError("INTERNAL: something else"), 0) is None


def has_compiler_for(kind):
    """Skips a test where the compiler for a kind of devices is not installed."""
    return pytest.mark.skipif(bool(why_not_compiled(kind, 4)), reason=f"needs a compiler for {kind}")


@pytest.mark.aot(reason="a program for TPUs is compiled")
@has_compiler_for("v5p")
def test_weights_are_cast_before_they_are_gathered():
    """A wide matrix is gathered by permutations beside the product, in a loop unrolled by two. Of 16
    parts a device sends 15 and, as the last turn is whole, two more.
    """
    devices, tokens, rows, columns = 16, 2048, 4096, 11008
    mesh = Mesh(np.array(target_devices.target_devices("v5p", devices)), ("fsdp",))
    sharding = NamedSharding(mesh, PartitionSpec("fsdp"))
    graph, weights = nnx.split(Linear(rows, columns, ("embed", "mlp"), False, zeros))
    apply = jax.jit(
        lambda weights, x: nnx.merge(graph, weights)(x), in_shardings=(sharding, sharding), out_shardings=sharding
    )
    compiled = apply.lower(weights, jax.ShapeDtypeStruct((devices * tokens, rows), jnp.bfloat16)).compile()
    sent = CompiledProgram(compiled.as_text()).collectives()
    assert {each.kind for each in sent} == {"collective-permute"}
    part_in_bfloat16 = 2 * rows * columns / devices
    assert sum(each.wire_bytes for each in sent) == pytest.approx(17 * part_in_bfloat16, rel=1e-3)


@pytest.mark.aot(reason="programs for TPUs and GPUs are compiled")
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

    @has_compiler_for("v5e")
    def test_data_parallel_gradients_are_summed_once(self):
        untied = "--config.model.tie_embeddings=false"
        plan = self.plan("configs/gpt2.py:smoke", "--device", "v5e", "--devices", "4", untied)
        assert plan["simulated"] == ""
        (stage,) = plan["stages"]
        sent = stage["measured"]["wire"]
        assert sent.keys() == {"all-reduce"}
        # The all-reduces carry the float32 gradients of all parameters and a few scalars.
        assert sent["all-reduce"] == pytest.approx(2 * 4 * plan["parameters"] * 3 / 4, rel=0.05)

    @has_compiler_for("v5e")
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
        # Weights of two layers more are gathered twice, in bfloat16, and their float32 gradients
        # scattered.
        sent = 2 * 12 * 256 * 256 * 3 / 4
        assert more["all-gather"] == pytest.approx(2 * 2 * sent, rel=1e-3)
        assert more["reduce-scatter"] == pytest.approx(4 * sent, rel=1e-3)
        # What is left are biases and norms.
        assert more["all-reduce"] < 0.05 * sent

    @has_compiler_for("v5e")
    def test_a_program_that_does_not_fit_is_reported_with_its_size(self):
        plan = self.plan(
            "configs/gpt2.py:small", "--device", "v5e", "--devices", "4", "--config.model.num_layers=2",
            "--config.data.batch_size=1920", "--config.training.microbatch_size=480",
        )  # fmt: skip
        assert plan["fits"] is False
        assert plan["memory"] > 15.75 * 2**30
        assert plan["stages"][0]["measured"]["complete"] is False

    @has_compiler_for("h100")
    @pytest.mark.parametrize("head_dim", [32, 256])
    def test_attention_on_gpus_is_that_of_cudnn(self, head_dim):
        """cuDNN takes heads wider than 128 on an H100, which this process lacks."""
        fields = (
            "--config.model.dtype=bfloat16", "--config.model.tie_embeddings=false", "--config.model.num_layers=3",
            f"--config.model.attention.head_dim={head_dim}",
        )  # fmt: skip
        plan = self.plan("configs/gpt2.py:smoke", "--device", "h100", "--devices", "4", *fields)
        measured = plan["stages"][0]["measured"]
        assert measured["kernels"] == {"__cudnn$fmhaSoftmax": 3, "__cudnn$fmhaSoftmaxBackward": 3}
        # XLA sums the gradients of matrices as the products give them, in bfloat16.
        assert 2 * 2 * plan["parameters"] * 3 / 4 < measured["wire"]["all-reduce"] < 2 * 4 * plan["parameters"] * 3 / 4

    @has_compiler_for("v5e")
    @pytest.mark.parametrize(("remat", "forward"), [("products", 1), ("full", 2)])
    def test_attention_on_tpus_is_splash_attention(self, remat, forward):
        """Each of three layers has a forward kernel and two backward ones."""
        fields = {
            "model.scan_layers": "true", "model.num_layers": 3, "model.remat": remat, "mesh.fsdp": 2, "mesh.tensor": 2,
            "data.sequence_length": 256, "model.position.max_length": 256, "data.isolate_documents": "true",
        }  # fmt: skip
        words = [f"--config.{name}={value}" for name, value in fields.items()]
        plan = self.plan("configs/gpt2.py:smoke", "--device", "v5e", "--devices", "4", *words)
        assert plan["kernel"] == "splash"
        (stage,) = plan["stages"]
        counts = dict.fromkeys(("fwd", "dq", "dkv"), 0)
        for name, count in stage["measured"]["kernels"].items():
            counts[name.removeprefix("splash_mha_").partition("_")[0]] += count
        assert counts == {"fwd": 3 * forward, "dq": 3, "dkv": 3}

    @has_compiler_for("v5e")
    def test_a_tpu_multiplies_each_row_with_the_matrix_of_its_group_alone(self):
        """So do the two products of the gradients."""
        rows, groups, inputs, outputs = 2**13, 16, 256, 512
        device = SingleDeviceSharding(target_devices.target_devices("v5e", 1)[0])
        x, w, sizes = (
            jax.ShapeDtypeStruct(shape, dtype, sharding=device)
            for shape, dtype in (
                ((rows, inputs), jnp.bfloat16),
                ((groups, inputs, outputs), jnp.bfloat16),
                ((groups,), jnp.int32),
            )
        )

        def product(x, w, sizes):
            return grouped_product(x, w, sizes, Platform("tpu"))

        def loss(x, w, sizes):
            return product(x, w, sizes).astype(jnp.float32).sum()

        for function, products in ((product, 1), (jax.grad(loss, (0, 1)), 2)):
            compiled = target_devices.compile_for("tpu", jax.jit(function).lower(x, w, sizes))
            assert "ragged-dot" in compiled.as_text()
            operations = compiled.cost_analysis()["flops"]
            assert operations == pytest.approx(2 * products * rows * inputs * outputs, rel=0.1)

    @has_compiler_for("h100")
    def test_products_of_experts_are_no_products_of_all_rows_with_all_matrices(self):
        """On GPUs XLA would make an array of E x N x F for them, here 16 GiB."""
        fields = {
            "model.ffn.kind": "moe", "model.ffn.experts.number": 64, "model.ffn.experts.per_token": 2,
            "model.dim": 512, "model.ffn.hidden_dim": 2048, "model.num_layers": 1, "model.dtype": "bfloat16",
            "model.remat": "full", "data.sequence_length": 256, "model.position.max_length": 256,
            "data.batch_size": 128,
        }  # fmt: skip
        words = [f"--config.{name}={value}" for name, value in fields.items()]
        plan = self.plan("configs/gpt2.py:smoke", "--device", "h100", "--devices", "1", *words)
        (stage,) = plan["stages"]
        rows = 128 * 256 * 2
        assert stage["measured"]["temporaries"] < 2 * 64 * rows * 2048 / 4

    @has_compiler_for("h100")
    def test_experts_that_choose_equally_many_tokens_compile(self):
        """The numbers of rows are then constants."""
        platform, device = Platform("gpu", 1, (9, 0)), SingleDeviceSharding(target_devices.target_devices("h100", 1)[0])
        shapes = [jax.ShapeDtypeStruct(s, jnp.bfloat16, sharding=device) for s in ((2**15, 768), (8, 768, 2048))]

        def product(x, w):
            return grouped_product(x, w, jnp.full((8,), 2**12, jnp.int32), platform)

        compiled = target_devices.compile_for("gpu", jax.jit(product).lower(*shapes))
        assert "while" in compiled.as_text()
