"""The compiler that runs use computes what the program says."""

import jax
import jax.numpy as jnp
import numpy as np


def test_compiled_sums_of_products_are_right():
    """jaxlib 0.10.2 fuses such a sum with its product, and computes other numbers on a CPU
    (github.com/jax-ml/jax/issues/39103).
    """
    rows = jnp.stack([jnp.arange(40_000.0), *2 * [jnp.zeros(40_000)]], axis=1)

    def squares(rows):
        return jax.vmap(lambda row: jnp.sum((jnp.eye(3) @ row) ** 2))(rows)

    np.testing.assert_array_equal(jax.jit(squares)(rows), np.arange(40_000, dtype=np.float32) ** 2)
