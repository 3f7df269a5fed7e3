"""Peaks of accelerators, for estimates before a run and for the share of them that a run reaches."""

import re
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class DeviceKind:
    """Peak performance of one device, by its maker's data sheet.

    Attributes:
        platform: "gpu" or "tpu".
        bfloat16: matrix products in bfloat16 without sparsity, floating-point operations per second.
        float32: the same for float32 inputs at JAX's default precision: TF32 on an NVIDIA GPU, one
            product in bfloat16 on a TPU.
        memory: bytes.
        bandwidth: bytes per second from and to this memory.
        wire: bytes per second that a device can send to others of its node or pod.
        capability: compute capability of an NVIDIA GPU, (major, minor); else None.
    """

    platform: str
    bfloat16: float
    float32: float
    memory: float
    bandwidth: float
    wire: float
    capability: tuple[int, int] | None = None


GB = 1e9
# NVIDIA's data sheets of the B200, H100, H200, A100, L4 and the Ada architecture's white paper
# (NVLink and PCIe in one direction); Google Cloud's pages of TPU v4, v5e, v5p, v6e and TPU7x (ICI, all
# links of a chip).
DEVICES = {
    "b200": DeviceKind("gpu", 2250e12, 1125e12, 180 * GB, 7700 * GB, 900 * GB, (10, 0)),
    "h200": DeviceKind("gpu", 989e12, 494e12, 141 * GB, 4800 * GB, 450 * GB, (9, 0)),
    "h100": DeviceKind("gpu", 989e12, 494e12, 80 * GB, 3350 * GB, 450 * GB, (9, 0)),
    "a100": DeviceKind("gpu", 312e12, 156e12, 80 * GB, 2039 * GB, 300 * GB, (8, 0)),
    "l4": DeviceKind("gpu", 121e12, 60e12, 24 * GB, 300 * GB, 32 * GB, (8, 9)),
    "rtx4090": DeviceKind("gpu", 165e12, 83e12, 24 * GB, 1008 * GB, 32 * GB, (8, 9)),
    "v4": DeviceKind("tpu", 275e12, 275e12, 32 * GB, 1228 * GB, 300 * GB),
    "v5e": DeviceKind("tpu", 197e12, 197e12, 16 * GB, 819 * GB, 200 * GB),
    "v5p": DeviceKind("tpu", 459e12, 459e12, 95 * GB, 2765 * GB, 600 * GB),
    "v6e": DeviceKind("tpu", 918e12, 918e12, 32 * GB, 1640 * GB, 448 * GB),
    # One of the two devices of a chip.
    "tpu7x": DeviceKind("tpu", 1154e12, 1154e12, 96 * GB, 3690 * GB, 600 * GB),
}
# The names that JAX gives to the devices above. The PCIe and NVL models of H100 and H200 are slower,
# and not among them.
_NAMES = {
    "b200": "NVIDIA B200",
    "h200": "NVIDIA H200",
    "h100": "NVIDIA H100 80GB HBM3",
    "a100": "NVIDIA A100[- ](?!.*MIG).*",
    "l4": "NVIDIA L4",
    "rtx4090": "NVIDIA GeForce RTX 4090",
    "v4": "TPU v4",
    "v5e": "TPU v5( lite|e)",
    "v5p": "TPU v5p?",
    "v6e": "TPU v6( lite|e)",
    "tpu7x": "TPU7x",
}


def peak_flops(device_kind: str, dtype: str) -> float | None:
    """Returns the floating-point operations per second that one device can do in matrix products.

    Args:
        device_kind: `device_kind` of a JAX device.
        dtype: type of the activations.

    Returns:
        The peak in bfloat16; None for unknown devices, and for float32, which devices multiply in
        several precisions, by settings outside of the config.
    """
    if dtype != "bfloat16":
        return None
    return next((DEVICES[name].bfloat16 for name, kind in _NAMES.items() if re.fullmatch(kind, device_kind)), None)


class ComputeRate(NamedTuple):
    """Operations per token and their peak rate, from which MFU follows.

    Attributes:
        flops_per_token: floating-point operations of the model per token, without recomputation.
        peak: operations per second that all devices can do, or None.
    """

    flops_per_token: float
    peak: float | None = None

    @classmethod
    def on(cls, flops_per_token: float, device_kind: str, devices: int, dtype: str) -> "ComputeRate":
        """Returns the rate for a number of devices of a kind; see `peak_flops`."""
        peak = peak_flops(device_kind, dtype)
        return cls(flops_per_token, None if peak is None else peak * devices)

    def flops(self, tokens_per_second: float) -> float:
        """Returns the model's operations per second."""
        return self.flops_per_token * tokens_per_second

    def utilisation(self, tokens_per_second: float) -> float | None:
        """Returns the share of the peak that the model's operations are, its FLOPs utilisation (MFU;
        Chowdhery et al. 2022, appendix B); None without a known peak.
        """
        return None if self.peak is None else self.flops(tokens_per_second) / self.peak

    def describe(self, tokens_per_second: float) -> str:
        """Returns the operations per second and, with a known peak, the utilisation, e.g. "3.2
        TFLOP/s, MFU 38.1 %".
        """
        flops, share = self.flops(tokens_per_second), self.utilisation(tokens_per_second)
        scale, unit = next(
            ((scale, unit) for scale, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G")) if flops >= scale), (1e6, "M")
        )
        text = f"{flops / scale:,.3g} {unit}FLOP/s"
        return text if share is None else f"{text}, MFU {100 * share:.1f} %"
