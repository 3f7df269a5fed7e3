"""QR and eigendecompositions of stacked matrices, which on a CPU take one matrix at a time.

Given a batch, jaxlib's CPU kernels hand its matrices to the threads that also run the program, and
wait for them. When as many batches are decomposed at once as there are threads, all of them wait for
ever (jaxlib 0.10.2: two batches of 4 matrices of width 128, on two cores).
"""

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# Number of threads for one matrix in SciPy's LAPACK, which JAX calls.
LAPACK_THREADS = "OPENBLAS_NUM_THREADS"


def qr(matrices: Float[Array, "*B I I"]) -> tuple[Float[Array, "*B I I"], Float[Array, "*B I I"]]:
    """Returns Q and R of square matrices."""
    return _each_matrix(lambda stack: tuple(jnp.linalg.qr(stack)), matrices)


def eigenvectors(matrices: Float[Array, "*B I I"]) -> Float[Array, "*B I I"]:
    """Returns the eigenvectors of symmetric matrices, as columns, by rising eigenvalues."""
    return _each_matrix(lambda stack: jnp.linalg.eigh(stack)[1], matrices)


def _each_matrix(decompose: Callable[[Array], Any], matrices: Array) -> Any:
    # XLA runs several calls at a time itself. OpenBLAS's own threads wait without sleeping, and two
    # busy cores took over a hundred times as long with them. Read when SciPy's linear algebra is
    # loaded, which JAX does when it compiles the first call.
    os.environ.setdefault(LAPACK_THREADS, "1")

    def in_turns(stack: Array) -> Any:
        mapped = jax.custom_batching.sequential_vmap(decompose)
        for _ in stack.shape[:-2]:
            mapped = jax.vmap(mapped)
        return mapped(stack)

    return jax.lax.platform_dependent(matrices, cpu=in_turns, default=decompose)
