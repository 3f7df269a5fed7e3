"""Time of LayerNorm and of RMSNorm: a norm alone, forwards and backwards, and a whole training step
with it.

    python benchmarks/norm_time.py
    python benchmarks/norm_time.py --tokens 65536 --dim 1024 --size small

The two take turns, so that what else the machine does falls on both. Printed are the medians, the
quartiles, and the ratio in neighbouring turns.
"""

import argparse
import statistics
import time
from collections.abc import Callable


def norm_alone(kind: str, tokens: int, dim: int) -> Callable[[], None]:
    """Computes a norm and its gradients, and waits for them."""
    import jax
    import jax.numpy as jnp

    from zoo.layers.norm import layer_norm, rms_norm

    x, scale, bias = jax.random.normal(jax.random.key(0), (tokens, dim)), jnp.ones(dim), jnp.zeros(dim)

    @jax.jit
    def gradients(x, scale, bias):
        def loss(x, scale, bias):
            y = layer_norm(x, scale, bias, 1e-5) if kind == "layernorm" else rms_norm(x, scale, 1e-5)
            return jnp.sum(jnp.sin(y))

        return jax.grad(loss, argnums=(0, 1, 2) if kind == "layernorm" else (0, 1))(x, scale, bias)

    return lambda: jax.block_until_ready(gradients(x, scale, bias))


def whole_step(kind: str, size: str) -> Callable[[], None]:
    """Does a step of the experiment's decoder, and waits for it."""
    import jax
    import numpy as np

    from zoo import config
    from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
    from zoo.lab.sizes import decoder
    from zoo.models.architectures import make_model
    from zoo.objectives import make_objective
    from zoo.training.mesh import make_mesh
    from zoo.training.step import make_program

    tokenizer = ByteTokenizer()
    resolved = config.resolve(decoder(size, {"model.norm.kind": kind}), tokenizer.vocab_size)
    program = make_program(resolved, make_model(resolved), make_objective(resolved, tokenizer), make_mesh(resolved))
    state, constants = program.initial_state(0), program.constants(0)
    rows = np.random.default_rng(0).integers(
        0, 256, (resolved.data.batch_size, resolved.data.sequence_length + 1), np.int32
    )

    def step() -> None:
        nonlocal state
        state, metrics = program.train_step(state, program.put_batch({"tokens": rows}), constants)
        jax.block_until_ready(metrics)

    return step


def compare(what: str, functions: list[Callable[[], None]], turns: int, calls: int) -> None:
    """Lets two functions take turns, and prints what they took."""
    seconds: list[list[float]] = [[] for _ in functions]
    for turn in range(turns + 1):
        for function, taken in zip(functions, seconds, strict=True):
            start = time.perf_counter()
            for _ in range(calls):
                function()
            if turn:  # The first one compiles.
                taken.append((time.perf_counter() - start) / calls)
    for kind, taken in zip(("LayerNorm", "RMSNorm"), seconds, strict=True):
        low, middle, high = statistics.quantiles(taken, n=4)
        print(f"{what}, {kind}: {1000 * middle:.3f} ms (quartiles {1000 * low:.3f} to {1000 * high:.3f})")
    low, middle, high = statistics.quantiles([rms / layer for layer, rms in zip(*seconds, strict=True)], n=4)
    print(f"{what}: RMSNorm takes {middle:.3f} of LayerNorm's time (quartiles {low:.3f} to {high:.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=4096, help="rows of the norm alone")
    parser.add_argument("--dim", type=int, default=512, help="width of the norm alone")
    parser.add_argument("--size", default="tiny", help="of the decoder of the whole step")
    parser.add_argument("--turns", type=int, default=41)
    arguments = parser.parse_args()
    kinds = ("layernorm", "rmsnorm")
    compare(
        f"norm of {arguments.tokens} x {arguments.dim}",
        [norm_alone(kind, arguments.tokens, arguments.dim) for kind in kinds],
        arguments.turns,
        20,
    )
    compare(
        f"step of the {arguments.size} decoder",
        [whole_step(kind, arguments.size) for kind in kinds],
        arguments.turns,
        5,
    )


if __name__ == "__main__":
    main()
