"""The name of this machine's processor, with the details that tell generations apart."""

import platform
from pathlib import Path


def processor_name() -> str:
    """Returns e.g. "AMD EPYC, family 25, model 17, avx512f"; the architecture where Linux tells no
    more.
    """
    name = _cpuinfo("model name")
    if not name:
        return platform.processor() or platform.machine()
    numbers = [f"{what} {number}" for what, field in _NUMBERS.items() if (number := _cpuinfo(field))]
    return ", ".join([name, *numbers, *vector_instructions()[:1]])


def vector_instructions() -> list[str]:
    """Returns which of AVX-512, AVX2 and AMX it has, by the names of Linux."""
    flags = set(_cpuinfo("flags").split())
    return [name for name in ("avx512f", "avx2", "amx_tile") if name in flags]


_NUMBERS = {"family": "cpu family", "model": "model\t"}


def _cpuinfo(field: str) -> str:
    """Returns a field of the first processor in /proc/cpuinfo; empty if there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")
