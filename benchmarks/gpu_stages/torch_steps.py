"""Cells that time the same model in PyTorch: compiled, with fused attention and a fused AdamW."""

import importlib.util
import itertools
import time
from typing import Any

from gpu_stages.measuring import CALLS, WARMUP, Settings, Skipped, percentiles, rates
from gpu_stages.training_steps import cell, distinct, gpt2, resolved


def cells(tiny: bool) -> dict[str, Settings]:
    """GPT-2 124M with the numbers of rows that it is measured with here."""
    return distinct({f"{rows} rows": cell("configs/gpt2.py:small", gpt2(rows, False), tiny) for rows in (64, 32, 12)})


def measure(settings: Settings) -> dict[str, Any]:
    """Times the step of PyTorch for the model and the batch of a config.

    Raises:
        Skipped: PyTorch is not installed, or its build has no CUDA where JAX has a GPU.
    """
    if importlib.util.find_spec("torch") is None:
        raise Skipped("PyTorch is not installed")
    import jax
    import torch

    from zoo.models import cost

    if jax.default_backend() == "gpu" and not torch.cuda.is_available():
        raise Skipped("PyTorch sees no GPU")
    if jax.default_backend() not in ("gpu", "cpu"):
        raise Skipped(f"PyTorch does not run on a {jax.default_backend().upper()}")
    config, found = resolved(settings), timed_steps(settings)
    tokens = config.data.batch_size * config.data.sequence_length
    # Both sides are counted alike.
    flops = cost.summary(config).flops_per_token
    return found | rates(tokens, found["ms"]["mean"], flops, "bfloat16")


def timed_steps(settings: Settings) -> dict[str, Any]:
    """Returns times as `gpu_stages.measuring.timed` does; on a GPU those of single steps are the times
    between events on it, for which nothing waits until all are done.

    Raises:
        MemoryError: the device has too little memory.
    """
    import torch

    step, on_gpu = stepper(settings), torch.cuda.is_available()

    def wait() -> float:
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter()

    def mark() -> Any:
        if not on_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    warmup, calls = settings.get("warmup", WARMUP), settings.get("calls", CALLS)
    try:
        began = wait()
        step()
        first = wait() - began
        for _ in range(warmup - 1):
            step()
        began, marks = wait(), [mark()]
        for _ in range(calls):
            step()
            marks.append(mark())
        seconds = (wait() - began) / calls
    except torch.OutOfMemoryError as error:
        raise MemoryError(f"out of memory: {error}") from error
    each = [start.elapsed_time(end) if on_gpu else 1e3 * (end - start) for start, end in itertools.pairwise(marks)]
    return {
        "ms": {"mean": 1e3 * seconds, **percentiles(each)},
        "first_call_s": first,
        "compile_s": max(0.0, first - seconds),
        "peak_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        "attention_kernel": ["PyTorch's scaled_dot_product_attention"],
    }


def stepper(settings: Settings) -> Any:
    """Returns a function that dispatches a step of the same model and batch in PyTorch: float32
    parameters, bfloat16 activations by autocast.
    """
    import torch
    from step_time import torch_model
    from torch.nn import functional

    config = resolved(settings)
    model, device = config.model, "cuda" if torch.cuda.is_available() else "cpu"
    shape = {
        "layers": model.num_layers,
        "width": model.dim,
        "heads": model.attention.num_heads,
        "length": config.data.sequence_length,
    }
    torch.set_float32_matmul_precision("high")
    gpt = torch_model(model.vocab_size, shape, "tanh").to(device)
    # On a CPU, which is for a dry run, only the capture of the graph is tried.
    compiled = torch.compile(gpt, backend="inductor" if device == "cuda" else "eager")
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    rows = torch.randint(0, model.vocab_size, (config.data.batch_size, shape["length"] + 1), device=device)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            logits = compiled(rows[:, :-1])
            loss = functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    return step
