"""How many threads LAPACK uses on a CPU, where JAX calls the one that SciPy brings."""

import os

VARIABLE = "OPENBLAS_NUM_THREADS"


def use_one_thread() -> None:
    """Lets each call of LAPACK use one thread, unless the environment says how many.

    XLA runs several calls at a time itself. With OpenBLAS's own threads beside them, which wait
    without sleeping, a QR decomposition on two busy cores took over a hundred times as long.
    Works until SciPy's linear algebra is loaded, which JAX does at the first call.
    """
    os.environ.setdefault(VARIABLE, "1")
