"""Products of experts on a GPU against one product for each group (`pytest -m gpu`)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from zoo.layers.grouped_product import grouped_product

GROUPS, ROWS, INPUTS, OUTPUTS = 8, 2**15, 768, 2048


@pytest.mark.gpu
@pytest.mark.parametrize("known", [False, True], ids=["sizes are an argument", "sizes are constants"])
def test_blocks_of_rows_equal_a_product_by_group_with_its_gradients(known):
    if jax.default_backend() != "gpu":
        pytest.skip("no GPU")
    generator = np.random.default_rng(0)
    sizes = np.full(GROUPS, ROWS // GROUPS) if known else np.array([100, 20_000, 0, 1, 0, 0, 128, ROWS - 20_229])
    x, w, c = (
        jnp.asarray(generator.standard_normal(shape), jnp.bfloat16)
        for shape in ((ROWS, INPUTS), (GROUPS, INPUTS, OUTPUTS), (ROWS, OUTPUTS))
    )

    def ours(x, w, sizes):
        return grouped_product(x, w, sizes)

    def by_group(x, w, sizes):
        ends = np.cumsum(sizes)
        return jnp.concatenate([x[end - size : end] @ w[n] for n, (end, size) in enumerate(zip(ends, sizes))])

    def with_gradients(product, *given):
        def total(x, w):
            y = product(x, w, *given)
            return (y * c).sum(dtype=jnp.float32), y

        return jax.value_and_grad(total, (0, 1), has_aux=True)

    if known:
        function, arguments = with_gradients(ours, jnp.asarray(sizes, jnp.int32)), (x, w)
        found = jax.jit(function)(*arguments)
    else:
        found = jax.jit(lambda x, w, n: with_gradients(ours, n)(x, w))(x, w, jnp.asarray(sizes, jnp.int32))
    expected = jax.jit(with_gradients(by_group, sizes))(x, w)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        one, other = (np.asarray(leaf, np.float32) for leaf in (one, other))
        np.testing.assert_allclose(one, other, atol=2e-2 * np.abs(other).max())
