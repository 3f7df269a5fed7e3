"""P12: RoPE by elements, as products with blocks, and as a product with a sparse matrix."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import sparse

from claims.measured_claim import Judgement, MeasuredClaim, Plot
from claims.turns import Row, Settings, take_turns, timing_columns
from zoo.layers.position.rope import plain_frequencies, rotate_pairs

HEADS, WIDTH = 8, 64


def forms(length: int) -> dict[str, tuple[Callable[..., jax.Array], tuple]]:
    """Returns each form as a function of queries [1, T, H, K] and its other arguments."""
    frequencies = plain_frequencies(10_000.0, WIDTH)
    positions = jnp.arange(length)[None]
    angles = np.arange(length)[:, None] * frequencies
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    even = np.arange(0, WIDTH, 2)
    dense = np.zeros((length, WIDTH, WIDTH), np.float32)
    dense[:, even, even], dense[:, even, even + 1] = cos, -sin
    dense[:, even + 1, even], dense[:, even + 1, even + 1] = sin, cos
    return {
        "elementwise": (lambda x, places: rotate_pairs(x, places, frequencies, "interleaved"), (positions,)),
        "sparse product": (
            lambda x, matrix: (
                (matrix @ x[0].transpose(0, 2, 1).reshape(length * WIDTH, HEADS))
                .reshape(length, WIDTH, HEADS)
                .transpose(0, 2, 1)[None]
            ),
            (_block_diagonal(dense),),
        ),
        "dense product": (lambda x, matrix: jnp.einsum("tij,bthj->bthi", matrix, x), (jnp.asarray(dense),)),
    }


def _block_diagonal(blocks: np.ndarray) -> sparse.BCSR:
    """Returns [T K, T K] with the blocks [T, K, K] on its diagonal, two entries a row."""
    place, row, column = np.nonzero(blocks)
    size = len(blocks) * WIDTH
    counts = np.bincount(place * WIDTH + row, minlength=size)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    columns = (place * WIDTH + column).astype(np.int32)
    return sparse.BCSR((jnp.asarray(blocks[place, row, column]), columns, starts), shape=(size, size))


def _wait_for(program: Callable[..., jax.Array], *arguments) -> None:
    jax.block_until_ready(program(*arguments))


def measure(settings: Settings) -> list[Row]:
    """Measures the rotation of the queries of a layer, and the memory of its program."""
    rows = []
    for length in (8, 16) if settings.smoke else (128, 512, 2048):
        queries = jax.random.normal(jax.random.key(0), (1, length, HEADS, WIDTH))
        runs, memory, results = {}, {}, {}
        for name, (form, others) in forms(length).items():
            program = jax.jit(form).lower(queries, *others).compile()
            analysis = program.memory_analysis()
            memory[name] = (analysis.temp_size_in_bytes + analysis.argument_size_in_bytes - queries.nbytes) / 2**20
            results[name] = program(queries, *others)

            runs[name] = partial(_wait_for, program, queries, *others)
        for name, result in results.items():
            # Angles of thousands of radians are exact to some 1e-4 in float32.
            np.testing.assert_allclose(result, results["elementwise"], atol=2e-3, err_msg=name)
        times = take_turns(runs, settings)
        rows += [
            {"length": length, "form": name, **timing_columns(times, name, "elementwise"), "MiB": memory[name]}
            for name in runs
        ]
    return rows


def judge(rows: Sequence[Row]) -> Judgement:
    """Compares both products with the elementwise form at every length."""
    by_elements = {row["length"]: row["MiB"] for row in rows if row["form"] == "elementwise"}
    products = [row for row in rows if row["form"] != "elementwise"]
    holds = all(row["ratio_low"] > 1 and row["MiB"] > by_elements[row["length"]] for row in products)
    longest = max(by_elements)
    figures = ", ".join(
        f"{row['form']} {row['ratio']:.1f} times as long and {row['MiB']:,.0f} MiB"
        for row in products
        if row["length"] == longest
    )
    return Judgement.of(
        holds,
        f"at {longest:,} tokens: {figures}; elementwise {by_elements[longest]:.1f} MiB",
        f"All three give the same numbers. At {longest:,} tokens the others take, against the elementwise form: {figures}; "
        f"the elementwise form needs {by_elements[longest]:.1f} MiB.",
    )


CLAIM = MeasuredClaim(
    id="P12",
    name="rope_forms",
    title="RoPE by elements is the form to compute",
    method=(
        f"The queries of one layer ({HEADS} heads of width {WIDTH}, one row, float32) are rotated by elements (Su et al. "
        "2021, eq. 34), as in the models here; by a sparse matrix with two entries a row (eq. 15); and by dense blocks, "
        "one for each position. Memory is what the program needs beside the queries and the result: matrices and "
        "temporaries."
    ),
    rule=(
        "at every length, both products take longer than the elementwise form (lower quartiles of the ratio above 1) and "
        "need more memory."
    ),
    doubts=(
        "the elementwise form computes its sines and cosines each time, where the matrices are given; and JAX's sparse "
        "products on a CPU are not the fastest there are."
    ),
    measure=measure,
    judge=judge,
    columns={"length": "tokens", "form": "form", "ms": "ms", "ratio": "ratio to elementwise", "MiB": "MiB"},
    plot=Plot("length", "ms", ("form",), "tokens of a row", "ms for the queries of a layer"),
)
