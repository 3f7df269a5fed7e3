"""Devices that this machine lacks, for which their own compilers can compile.

libtpu compiles for TPUs without one, and the CUDA plugin of JAX for GPUs, where they are installed
(`jax.experimental.topologies`). A GPU has to be described to its compiler.
"""

import ctypes
import importlib.util
import os
import re
from pathlib import Path
from typing import NamedTuple

import jax

from zoo.training.runtime.device_peaks import DEVICES

KIB, MIB, GIB = 2**10, 2**20, 2**30


class Slice(NamedTuple):
    """A kind of TPUs, which come in slices of a grid.

    Attributes:
        dimensions: of the grid.
        devices_per_chip: JAX devices on a chip.
        memory: bytes that the compiler gives a program on a device.
    """

    dimensions: int
    devices_per_chip: int
    memory: float


class Gpu(NamedTuple):
    """A kind of GPUs, by NVIDIA's data sheets and the limits of its compute capability (CUDA C++
    Programming Guide, table of technical specifications).

    Attributes:
        name: that JAX gives it.
        cores: streaming multiprocessors.
        units: for float32, of a core.
        shared_memory: bytes of a core; a block can have all but one KiB.
        cache: bytes of the second level.
        clock: GHz.
    """

    name: str
    cores: int
    units: int
    shared_memory: int
    cache: int
    clock: float


# The memory is the limit that libtpu 0.0.42 names when a program does not fit.
SLICES = {
    "v5e": Slice(2, 1, 15.75 * GIB),
    "v5p": Slice(3, 1, 95.74 * GIB),
    "v6e": Slice(2, 1, 31.25 * GIB),
    "tpu7x": Slice(3, 2, 94.75 * GIB),
}
GPUS = {
    "a100": Gpu("NVIDIA A100-SXM4-80GB", 108, 64, 164 * KIB, 40 * MIB, 1.41),
    "h100": Gpu("NVIDIA H100 80GB HBM3", 132, 128, 228 * KIB, 50 * MIB, 1.98),
    "h200": Gpu("NVIDIA H200", 132, 128, 228 * KIB, 50 * MIB, 1.98),
    "b200": Gpu("NVIDIA B200", 148, 128, 228 * KIB, 126 * MIB, 1.965),
}
# Of every compute capability since 7.0.
_GPU_LIMITS = """threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
    threads_per_core_limit: 2048 registers_per_core_limit: 65536 registers_per_block_limit: 65536
    block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535"""
GPUS_OF_A_HOST = 8
# Without a GPU nothing can be timed, so the compiler must not choose kernels by their time.
GPU_OPTIONS: dict[str, str | bool] = {"xla_gpu_autotune_level": "0"}
_UNITS = {"K": KIB, "M": MIB, "G": GIB, "T": 2**40}
# libtpu's two errors; the first counts arguments too.
_NEEDED = re.compile(r"Used ([\d.]+)([KMGT]) of [\d.]+[KMGT] hbm")
_TEMPORARIES = re.compile(r"required for HLO temporaries \(([\d.]+)([KMGT])\) exceeds")


def slice_shape(kind: str, devices: int) -> tuple[int, ...] | None:
    """Returns the chips along each axis of the most compact slice with a number of devices, in two or
    three dimensions; None where no slice has as many.
    """
    chips, rest = divmod(devices, SLICES[kind].devices_per_chip)
    if rest or chips < 1 or chips & (chips - 1):
        return None
    doublings, count = chips.bit_length() - 1, SLICES[kind].dimensions
    sizes = [2 ** ((doublings + count - 1 - axis) // count) for axis in range(count)]
    # The written form begins with the smallest size above 1: 2x4, 2x2x4, and 2x2x1.
    return tuple(sorted(sizes, key=lambda size: (size == 1, size)))


def why_not_compiled(kind: str | None, devices: int) -> str:
    """Returns why no compiler of this machine compiles for these devices; empty if one does.

    Args:
        kind: name in `zoo.training.runtime.device_peaks.DEVICES`, or None for no kind.
        devices: their number.
    """
    if kind is None:
        return "without --device"
    if kind in SLICES:
        if importlib.util.find_spec("libtpu") is None:
            return "libtpu is not installed (extra tpu)"
        return "" if slice_shape(kind, devices) else f"no slice of {kind} has {devices} devices"
    if kind in GPUS:
        if importlib.util.find_spec("jax_cuda13_plugin") is None or _cudnn() is None:
            return "JAX's CUDA plugin is not installed (extra cuda)"
        whole_hosts = devices <= GPUS_OF_A_HOST or devices % GPUS_OF_A_HOST == 0
        return "" if whole_hosts else f"no hosts of {GPUS_OF_A_HOST} have {devices} GPUs"
    return f"no compiler for {kind} is known here"


def target_devices(kind: str, devices: int) -> list[jax.Device]:
    """Returns devices that programs can be compiled for, and not run on.

    Args:
        kind: a name in `SLICES` or `GPUS` that `why_not_compiled` has nothing against.
        devices: their number.
    """
    from jax.experimental import topologies

    if kind in GPUS:
        # Attention is compiled by cuDNN, which the plugin looks for among loaded libraries.
        ctypes.CDLL(str(_cudnn()), ctypes.RTLD_GLOBAL)
        hosts = max(1, devices // GPUS_OF_A_HOST)
        return list(
            topologies.get_topology_desc(
                kind, "cuda", target_config=_description(kind), topology=f"1x{hosts}x{devices // hosts}"
            ).devices
        )
    # Without these libtpu asks the cloud for the machine, and allows one process at a time.
    for name, value in (("TPU_SKIP_MDS_QUERY", "1"), ("ALLOW_MULTIPLE_LIBTPU_LOAD", "1"),
                        ("TPU_WORKER_HOSTNAMES", "localhost"), ("TPU_ACCELERATOR_TYPE", "v5litepod-8")):  # fmt: skip
        os.environ.setdefault(name, value)
    shape = slice_shape(kind, devices)
    host = tuple(min(2, size) for size in (*shape[:2], 1))
    name = f"{kind}:{'x'.join(map(str, shape))}"
    return list(topologies.get_topology_desc(name, "tpu", chips_per_host_bounds=host).devices)


def _cudnn() -> Path | None:
    """Returns the library of the installed cuDNN, or None."""
    found = importlib.util.find_spec("nvidia.cudnn") if importlib.util.find_spec("nvidia") else None
    folders = [Path(folder) / "lib" for folder in found.submodule_search_locations or ()] if found else []
    return next((file for folder in folders for file in sorted(folder.glob("libcudnn.so.*"))), None)


def _description(kind: str) -> str:
    """Returns a kind of GPUs in the notation of XLA's `GpuTargetConfigProto`."""
    gpu, peaks = GPUS[kind], DEVICES[kind]
    major, minor = peaks.capability
    return f"""gpu_device_info {{ {_GPU_LIMITS}
    core_count: {gpu.cores} fpus_per_core: {gpu.units} clock_rate_ghz: {gpu.clock}
    shared_memory_per_core: {gpu.shared_memory} shared_memory_per_block_optin: {gpu.shared_memory - KIB}
    l2_cache_size: {gpu.cache} device_memory_size: {peaks.memory:.0f} memory_bandwidth: {peaks.bandwidth:.0f}
    cuda_compute_capability {{ major: {major} minor: {minor} }} }}
    platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 10 }} device_description_str: "{gpu.name}" """


def compile_for(platform: str, lowered: jax.stages.Lowered) -> jax.stages.Compiled:
    """Compiles a program for devices of a platform, which need not be here."""
    if platform != "gpu":
        return lowered.compile()
    try:
        return lowered.compile(GPU_OPTIONS)
    except jax.errors.JaxRuntimeError as error:
        if "output tile sizes" not in str(error):
            raise
        # XLA's Triton kernels cannot cut some products with dimensions that are no powers of two, such
        # as the 114 tokens of T5's targets. Where kernels are timed, cuBLAS takes their place.
        return lowered.compile(GPU_OPTIONS | {"xla_gpu_enable_triton_gemm": False})


def needed_temporaries(error: Exception, arguments: float) -> float | None:
    """Returns the bytes of temporaries of a program that does not fit, by its compiler's error; None
    of an error of another kind.

    Args:
        error: of the compilation.
        arguments: bytes of the program's arguments.
    """
    for pattern, beside in ((_NEEDED, arguments), (_TEMPORARIES, 0)):
        if found := pattern.search(str(error)):
            return float(found[1]) * _UNITS[found[2]] - beside
    return None
