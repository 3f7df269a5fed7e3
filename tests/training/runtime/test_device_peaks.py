"""The use of the devices, from tokens per second."""

import pytest

from zoo.training.runtime.device_peaks import ComputeRate, peak_flops
from zoo.training.training_run import progress_line

# Of the data sheets, dense bfloat16.
PEAKS = {
    "NVIDIA H200": 989e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100 80GB PCIe": 312e12,
    "NVIDIA L4": 121e12,
    "NVIDIA GeForce RTX 4090": 165e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5p": 459e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
}
# Slower models with names like these, a part of a device, and devices that are not known.
UNKNOWN = ("cpu", "NVIDIA L40S", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL", "NVIDIA GH200 480GB",
           "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA GeForce RTX 4090 D", "TPU v4 lite", "TPU v7x")  # fmt: skip


@pytest.mark.parametrize("kind", [*PEAKS, *UNKNOWN])
def test_the_peak_of_a_device_is_that_of_its_data_sheet(kind):
    assert peak_flops(kind, "bfloat16") == PEAKS.get(kind)
    assert peak_flops(kind, "float32") is None


def test_the_share_is_of_the_peak_of_all_devices():
    rate = ComputeRate.on(6e9, "NVIDIA H100 80GB HBM3", 8, "bfloat16")
    assert rate.flops(500_000) == 3e15
    assert rate.utilisation(500_000) == pytest.approx(3e15 / (8 * 989e12))
    assert rate.describe(500_000) == "3 PFLOP/s, MFU 37.9 %"


@pytest.mark.parametrize(("flops", "text"), [
    (7.4e5, "0.74 MFLOP/s"), (2.345e8, "234 MFLOP/s"), (1.5e9, "1.5 GFLOP/s"), (1.234e12, "1.23 TFLOP/s")
])  # fmt: skip
def test_without_a_known_peak_there_are_operations_alone(flops, text):
    rate = ComputeRate.on(flops / 1000, "cpu", 1, "bfloat16")
    assert rate.utilisation(1000) is None
    assert rate.describe(1000) == text


def test_progress_line_shows_flops_and_utilisation():
    values = {"train/loss": 2.5, "train/gradient_norm": 1.0}
    compute = ComputeRate(1e6, 1e12)
    assert "FLOP" not in progress_line(1, 11, 1000.0, values, compute)
    line = progress_line(1, 11, 1000.0, values | {"train/tokens_per_second": 1e5}, compute)
    assert line == "step 1/11  loss 2.5000  gradient norm 1  100,000 tokens/s  100 GFLOP/s, MFU 10.0 %  0:00:00 left"
