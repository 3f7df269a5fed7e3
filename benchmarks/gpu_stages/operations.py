"""Cells that time single operations: a matrix product, attention, the loss."""

import shutil
import subprocess
from typing import Any

from gpu_stages.measuring import Settings, Skipped, timed
from gpu_stages.training_steps import PADDED, PUBLISHED

SMI_FIELDS = (
    "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.max.memory,clocks_throttle_reasons.active"
)


def probe_cells(tiny: bool) -> dict[str, Settings]:
    """The product of two square matrices."""
    return {"matrix product": {"size": 128 if tiny else 8192}}


def probe(settings: Settings) -> dict[str, Any]:
    """Times the product in bfloat16, and reads what the device says of itself."""
    import jax
    import jax.numpy as jnp

    from zoo.training.runtime.device_peaks import peak_flops

    size, device = settings["size"], jax.devices()[0]
    x, y = (jax.random.normal(jax.random.key(seed), (size, size), jnp.bfloat16) for seed in (0, 1))
    product = jax.jit(jnp.matmul)
    found = timed(lambda: product(x, y))
    flops, peak = 2e3 * size**3 / found["ms"]["mean"], peak_flops(device.device_kind, "bfloat16")
    return found | {
        "tflops": flops / 1e12,
        "share_of_peak": None if peak is None else flops / peak,
        "memory": (device.memory_stats() or {}).get("bytes_limit"),
        "capability": str(getattr(device, "compute_capability", "")),
        "nvidia_smi": _nvidia_smi(),
    }


def _nvidia_smi() -> dict[str, str]:
    """Returns what NVIDIA's tool says of the first GPU; empty without it."""
    if not (tool := shutil.which("nvidia-smi")):
        return {}
    command = [tool, f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    values = done.stdout.partition("\n")[0].split(", ")
    return dict(zip(SMI_FIELDS.split(","), values, strict=False)) if done.returncode == 0 else {}


def attention_cells(tiny: bool) -> dict[str, Settings]:
    """Returns every kernel on the same number of tokens, by its mask and by the length of a row."""
    tokens, lengths, window = (256, (256,), 16) if tiny else (65536, (1024, 4096), 256)
    sorts = {
        "causal": {},
        "encoder, full rows": {"causal": False},
        "GQA 4:1": {"key_heads": 3},
        f"window of {window}": {"window": window},
    }
    shape = {"heads": 12, "key_heads": 12, "head_dim": 64, "causal": True, "window": 0}
    return {
        f"{sort}, T {length}, {kernel}": {**shape, **own, "kernel": kernel, "rows": tokens // length, "length": length}
        for sort, own in sorts.items()
        for length in lengths
        for kernel in ("cudnn", "einsum", "xla")
    }


def attention(settings: Settings) -> dict[str, Any]:
    """Times a kernel forwards and backwards in bfloat16.

    A window that the kernel does not skip by itself is computed in blocks, as layers do it.

    Raises:
        Skipped: there is no GPU for cuDNN's kernel.
    """
    import jax
    import jax.numpy as jnp

    from zoo.layers.attention.kernels.banded import banded_attention, block_length
    from zoo.layers.attention.kernels.kernel_choice import FUSED, KernelChoice
    from zoo.layers.attention.kernels.products import KERNELS
    from zoo.layers.attention.kernels.scoring import Scoring
    from zoo.layers.context import Context

    name, causal, window = settings["kernel"], settings["causal"], settings["window"]
    if name == FUSED["gpu"] and jax.default_backend() != "gpu":
        raise Skipped("cuDNN's kernel needs an NVIDIA GPU")
    rows, length, width = settings["rows"], settings["length"], settings["head_dim"]
    heads = [settings["heads"], settings["key_heads"], settings["key_heads"], settings["heads"]]
    *arrays, cotangent = (
        jax.random.normal(jax.random.key(seed), (rows, length, number, width), jnp.bfloat16)
        for seed, number in enumerate(heads)
    )
    context = Context(jnp.arange(length)[None], causal=causal, in_order=True, no_padding=True)
    scoring, kernel = Scoring(width**-0.5, window), KERNELS[name]
    block = 0 if name == FUSED["gpu"] else block_length(length, window, causal)

    @jax.jit
    def gradients(q, k, v, cotangent):
        def weighted(q, k, v):
            attend = (q, k, v, context, scoring)
            output = banded_attention(kernel, block, *attend) if block else kernel(*attend)
            return jnp.sum(output * cotangent, dtype=jnp.float32)

        return jax.value_and_grad(weighted, argnums=(0, 1, 2))(q, k, v)

    # The gradients' memory is free again at once: only the sum is kept until all is done.
    found = timed(lambda: gradients(*arrays, cotangent)[0])
    return found | {"attention_kernel": [KernelChoice(name, block).name]}


def loss_cells(tiny: bool) -> dict[str, Settings]:
    """The loss of 64 rows by the size of its chunks, with GPT-2's vocabulary and with a multiple of 64."""
    sizes, shape = (8192, 1024, 2048, 4096, 16384, 0), {"rows": 64, "length": 1024, "dim": 768}
    vocabularies = {PUBLISHED: PUBLISHED, PADDED: PADDED}
    if tiny:
        sizes, shape = (16, 64, 0), {"rows": 2, "length": 64, "dim": 32}
        vocabularies = {PUBLISHED: 301, PADDED: 320}
    return {
        f"V {told}, {f'chunks of {size}' if size else 'one chunk'}": {**shape, "vocabulary": actual, "chunk": size}
        for told, actual in vocabularies.items()
        for size in sizes
    }


def loss(settings: Settings) -> dict[str, Any]:
    """Times the cross-entropy and its gradients in the hidden states and in the head."""
    import jax
    import jax.numpy as jnp

    from zoo.models.head import LogitFactors
    from zoo.objectives.cross_entropy import cross_entropy

    shape = settings["rows"], settings["length"]
    hidden = jax.random.normal(jax.random.key(0), (*shape, settings["dim"]), jnp.bfloat16)
    head = 0.02 * jax.random.normal(jax.random.key(1), (settings["vocabulary"], settings["dim"]))
    targets = jax.random.randint(jax.random.key(2), shape, 0, settings["vocabulary"])

    @jax.jit
    def gradients(hidden, head, targets):
        def total(hidden, head):
            factors = LogitFactors(hidden, head, None, 0.0)
            return cross_entropy(factors, targets, jnp.ones(shape), settings["chunk"])[0]

        return jax.value_and_grad(total, argnums=(0, 1))(hidden, head)

    return timed(lambda: gradients(hidden, head, targets)[0])
