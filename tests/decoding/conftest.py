"""Compiles the decoding programs with few optimizations and with the kernel of attention that compiles
fastest, because tests run them only a few times.
"""

import pytest

STATIC = {"prefill": ("decoder",), "sample": ("decoder", "buffer_size"), "search": ("decoder", "beams", "buffer_size")}


@pytest.fixture(autouse=True, scope="package")
def quick_programs():
    """Compiles the three decoding programs like `tests.support.building.compiled`."""
    # tests/conftest.py sets how JAX compiles, after this file is imported.
    import jax

    from tests.support.building import quick_compilation
    from zoo.decoding import beam_search, decode_loop, generator

    with pytest.MonkeyPatch.context() as patch:
        for name, static in STATIC.items():
            module = beam_search if name == "search" else decode_loop
            program = jax.jit(
                getattr(module, name).__wrapped__, static_argnames=static, compiler_options=quick_compilation()
            )
            patch.setattr(module, name, program)
            patch.setattr(generator, name, program)
        yield


@pytest.fixture(autouse=True, scope="module")
def fastest_kernel(einsum_kernel):
    """Every module here uses `einsum_kernel`."""
