"""Peaks of accelerators, for estimates before a run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceKind:
    """What one device can do at best, by its maker's data sheet.

    Attributes:
        platform: "gpu" or "tpu".
        bfloat16: matrix products in bfloat16 without sparsity, floating-point operations per second.
        float32: the same for float32 inputs: TF32 on an NVIDIA GPU; on a TPU the three bfloat16
            products that XLA makes of one with `high` precision.
        memory: bytes.
        bandwidth: bytes per second from and to this memory.
        wire: bytes per second that a device can send to others of its node or pod.
    """

    platform: str
    bfloat16: float
    float32: float
    memory: float
    bandwidth: float
    wire: float


GB = 1e9
# NVIDIA's data sheets of the H100, H200, A100, L4 and the Ada architecture's white paper (NVLink and
# PCIe in one direction); Google Cloud's pages of TPU v4, v5e, v5p and v6e (ICI, all links of a chip).
DEVICES = {
    "h200": DeviceKind("gpu", 989e12, 494e12, 141 * GB, 4800 * GB, 450 * GB),
    "h100": DeviceKind("gpu", 989e12, 494e12, 80 * GB, 3350 * GB, 450 * GB),
    "a100": DeviceKind("gpu", 312e12, 156e12, 80 * GB, 2039 * GB, 300 * GB),
    "l4": DeviceKind("gpu", 121e12, 60e12, 24 * GB, 300 * GB, 32 * GB),
    "rtx4090": DeviceKind("gpu", 165e12, 83e12, 24 * GB, 1008 * GB, 32 * GB),
    "v4": DeviceKind("tpu", 275e12, 92e12, 32 * GB, 1228 * GB, 300 * GB),
    "v5e": DeviceKind("tpu", 197e12, 66e12, 16 * GB, 819 * GB, 200 * GB),
    "v5p": DeviceKind("tpu", 459e12, 153e12, 95 * GB, 2765 * GB, 600 * GB),
    "v6e": DeviceKind("tpu", 918e12, 306e12, 32 * GB, 1640 * GB, 448 * GB),
}
