"""The attention kernels that variants get on each platform, and why they are not the fused ones."""

from collections.abc import Iterator, Mapping
from typing import Any

from zoo.errors import ConfigError
from zoo.layers.platform import Platform
from zoo.objectives.attention_kernels import attention_kernels
from zoo.variants.table import VARIANTS
from zoo.variants.variant import BASELINES, SIZE, is_architecture
from zoo.variants.variant_cost import resolved

PLATFORMS = {"TPU": Platform("tpu", 8), "GPU": Platform("gpu", 8, (9, 0)), "CPU": Platform("cpu")}
"""TPUs, GPUs of compute capability 9.0 (Hopper), and a CPU."""
PARTS = ("attention", "position", "architecture", "objective")
# What is no variant of a model and decides about kernels.
SETTINGS: dict[str, dict[str, Any]] = {
    "packed documents kept apart": {"data.isolate_documents": True},
    "documents and a window": {"data.isolate_documents": True, "model.attention.window": 256},
    "rows that begin at other positions": {"data.position_offsets": (0, 8)},
    "dropout on probabilities": {"model.attention.dropout": 0.1},
    "float32 activations": {"model.dtype": "float32"},
    "heads of 20": {"model.attention.head_dim": 20},
    "heads of 256": {"model.attention.head_dim": 256},
    "rows of 64 tokens": {"data.sequence_length": 64},
}


def kernels_by_platform(changes: Mapping[str, Any]) -> dict[str, str]:
    """Returns {platform: kernels, each with the reason if it is not the fused one} of a GPT-2 small in
    bfloat16 with changes; empty without a choice of kernels.

    Raises:
        ConfigError: changes that cannot be combined.
    """
    sizes = {path: value for path, value in SIZE.items() if path not in changes}
    config = resolved({"model.dtype": "bfloat16", **changes}, sizes)
    found: dict[str, str] = {}
    for name, platform in PLATFORMS.items():
        layers = attention_kernels(config, platform)
        if not layers or any(each.reason.startswith("model.attention.kind=") for each in layers):
            return {}
        # A CPU has no fused kernel that a variant could miss.
        shown = (each.kernel + f" ({each.reason})" * bool(each.reason and name != "CPU") for each in layers)
        found[name] = " and ".join(dict.fromkeys(shown))
    return found


def _cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for variant in VARIANTS:
        if variant.part in PARTS:
            base = {} if is_architecture(variant) else BASELINES[variant.baseline]
            yield variant.name, {**base, **variant.changes}
    yield from SETTINGS.items()


def kernel_table() -> dict[tuple[str, ...], list[str]]:
    """Returns {kernels on each of `PLATFORMS`: variants and settings}, those of most first."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, changes in _cases():
        try:
            kernels = kernels_by_platform(changes)
        except ConfigError:
            continue
        if kernels:
            found.setdefault(tuple(kernels.values()), []).append(name)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))
