"""Timing: calls are dispatched one after the other, and nothing waits in between."""

import importlib.metadata
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

WARMUP, CALLS = 5, 20
OUT_OF_MEMORY = ("RESOURCE_EXHAUSTED", "out of memory")
# Where the CUDA plugin and its libraries are packages, they decide the speed.
PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "libtpu", "torch")

Settings = Mapping[str, Any]
"""The values in which a cell differs from the others of its stage, as written in its line."""


class Skipped(Exception):
    """A cell cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Stage:
    """A group of measurements of one sort.

    Attributes:
        meaning: what is measured, in a few words.
        limit: seconds that a cell may take, with the start of its process.
        cells: (whether the small version is asked for) -> settings of each cell by its name.
        measure: settings -> the fields of the cell's line. Raises `Skipped` where it cannot be
            measured; anything else that it raises is a failure.
        together: the cells are so small that they share a process.
        environment: variables of the process.
    """

    meaning: str
    limit: float
    cells: Callable[[bool], Mapping[str, Settings]]
    measure: Callable[[Settings], dict[str, Any]]
    together: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: {"XLA_CLIENT_MEM_FRACTION": ".92"})


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Returns the percentiles 10, 50 and 90 of times."""
    import numpy as np

    return {f"p{percent}": float(np.percentile(milliseconds, percent)) for percent in (10, 50, 90)}


def timed(step: Callable[[], Any], warmup: int = WARMUP, calls: int = CALLS) -> dict[str, Any]:
    """Measures a step that returns at once, while its device still computes.

    The steps that are timed are dispatched without waiting for any of them. Another thread waits for
    their results in turn and notes when each is there, which holds nothing up.

    Args:
        step: returns arrays that are there when the step is done, and whose memory no later step takes
            over.
        warmup: steps before, at least 1; the first compiles.
        calls: steps that are timed.

    Returns:
        "ms": {"mean": of all, "p10", "p50", "p90": of the times from one step's end to the next's};
        "first_call_s"; "compile_s": what the first call took longer than a later one; "from_cache":
        whether a compiled program was read from disk for it.
    """
    import jax

    hits: list[str] = []
    jax.monitoring.register_event_listener(
        lambda event, **_: hits.append(event) if event.endswith("/cache_hits") else None
    )
    began = time.perf_counter()
    last = jax.block_until_ready(step())
    first, from_cache = time.perf_counter() - began, bool(hits)
    for _ in range(warmup - 1):
        last = step()
    jax.block_until_ready(last)

    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    ends: list[float] = []
    watcher = threading.Thread(target=_note_ends, args=(iter(results.get, None), ends))
    watcher.start()
    try:
        began = time.perf_counter()
        for _ in range(calls):
            last = step()
            results.put(last)
        jax.block_until_ready(last)
        seconds = (time.perf_counter() - began) / calls
    finally:
        results.put(None)
        watcher.join()
    each = [1e3 * (end - start) for start, end in zip([began, *ends], ends, strict=False)]
    return {
        "ms": {"mean": 1e3 * seconds, **percentiles(each)},
        "first_call_s": first,
        "compile_s": max(0.0, first - seconds),
        "from_cache": from_cache,
    }


def _note_ends(results: Iterable[Any], ends: list[float]) -> None:
    import jax

    for result in results:
        try:
            jax.block_until_ready(result)
        except Exception:
            # The thread that dispatches meets the same error, and reports it.
            return
        ends.append(time.perf_counter())


def rates(tokens: int, ms: float, flops_per_token: float | None = None, dtype: str = "bfloat16") -> dict[str, Any]:
    """Returns tokens per second, and how much of the device the model's operations use.

    Args:
        tokens: tokens of a step.
        ms: milliseconds of a step.
        flops_per_token: see `zoo.models.cost.summary`, where causal attention counts as the half that
            it is; None for tokens per second alone.
        dtype: type of the activations.
    """
    import jax

    from zoo.training.runtime.device_peaks import ComputeRate

    found: dict[str, Any] = {"tokens": tokens, "tokens_per_second": 1e3 * tokens / ms}
    if flops_per_token is None:
        return found
    rate = ComputeRate.on(flops_per_token, jax.devices()[0].device_kind, jax.device_count(), dtype)
    pace = found["tokens_per_second"]
    return found | {
        "flops_per_token": flops_per_token,
        "tflops": rate.flops(pace) / 1e12,
        "mfu": rate.utilisation(pace),
    }


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error says that a device has too little memory."""
    return any(text in str(error) for text in OUT_OF_MEMORY)


def surroundings() -> dict[str, Any]:
    """Returns versions, devices and commit, as a run records them, with those of the device's plugins."""
    from zoo.training.records.run_record import environment

    found = environment()
    for name in PLUGINS:
        try:
            found["versions"][name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
