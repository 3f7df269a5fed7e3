"""Models are compiled with the kernel of attention that compiles fastest."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def fastest_kernel(einsum_kernel):
    """Every module here uses `einsum_kernel`."""
