"""Time of the products of experts: groups of unequal sizes, each with a matrix of its own, take turns with
one dense product of as many rows.

  python benchmarks/expert_products.py [--layer] [--tokens N] [--experts N] [--per-token N] [--dim N] [--hidden N] \\
      [--dtype NAME] [--rounds N] [--calls N]

Printed are medians and least times, forward and forward with backward, of the product that zoo makes here,
of products by blocks on a GPU, of `jax.lax.ragged_dot`, and of each implementation of tokamax where that is
installed, and their ratios to the dense product. With `--layer` whole layers take turns: a mixture of
experts, router and sorting included, with a dense SwiGLU of as many active products. Besides the time that
passes, the processor time of all threads is printed, which other programs disturb less. A turn has
`--calls` calls, which do not wait for each other.
"""

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from zoo import config as configs
from zoo.checks.small_models import random_values, with_values
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.layers.grouped_product import _block_size, _by_blocks, grouped_product


def functions(args: argparse.Namespace) -> dict[str, tuple[Callable, tuple]]:
    """Returns the compiled functions and their arguments, by name."""
    generator = np.random.default_rng(0)
    rows = args.tokens * args.per_token
    # From about a tenth of the mean load to twice it.
    loads = generator.uniform(0.1, 2, args.experts)
    sizes = np.floor(loads / loads.sum() * rows).astype(np.int32)
    sizes[-1] += rows - sizes.sum()
    sizes = jnp.asarray(sizes)
    x = jnp.asarray(generator.standard_normal((rows, args.dim)), args.dtype)
    w = jnp.asarray(generator.standard_normal((args.experts, args.dim, args.hidden)), args.dtype)
    products = {
        "dense": (lambda x, w: x @ w, (x, w[0])),
        "zoo": (lambda x, w: grouped_product(x, w, sizes), (x, w)),
        "ragged_dot": (lambda x, w: jax.lax.ragged_dot(x, w, sizes), (x, w)),
    }
    if jax.default_backend() == "gpu":
        size = _block_size(rows, args.experts)
        products["blocks"] = lambda x, w: _by_blocks(x, w, sizes, size), (x, w)
    if importlib.util.find_spec("tokamax"):
        import tokamax
        from absl import flags

        # It reads flags of its own from the command line, and stops at those it does not know.
        flags.FLAGS(["benchmark"])
        for kind in ("triton", "mosaic"):
            products[f"tokamax {kind}"] = partial(_tokamax, tokamax.ragged_dot, kind, sizes), (x, w)
    found = {}
    for name, (product, arguments) in products.items():
        squares = jax.grad(lambda x, w, product=product: jnp.square(product(x, w)).sum(dtype=jnp.float32), (0, 1))
        found[f"{name}, forward"] = jax.jit(product), arguments
        found[f"{name}, both"] = jax.jit(squares), arguments
    return found


def _tokamax(ragged_dot: Callable, kind: str, sizes: jax.Array, x: jax.Array, w: jax.Array) -> jax.Array:
    return ragged_dot(x, w, sizes, implementation=kind, preferred_element_type=x.dtype)


def layers(args: argparse.Namespace) -> dict[str, tuple[Callable, tuple]]:
    """Returns the same of whole layers."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((1, args.tokens, args.dim)), args.dtype)
    common = {"model.dim": args.dim, "model.ffn.bias": False, "data.sequence_length": args.tokens}
    common["model.dtype"] = args.dtype
    kinds = {
        "dense": {"model.ffn.kind": "swiglu", "model.ffn.hidden_dim": args.hidden * args.per_token},
        "zoo": {
            "model.ffn.kind": "moe",
            "model.ffn.hidden_dim": args.hidden,
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": args.experts,
            "model.ffn.experts.per_token": args.per_token,
        },
    }
    found = {}
    for name, kind in kinds.items():
        layer = make_feed_forward(configs.resolve(configs.override(configs.default(), common | kind)).model)

        def output(values, x, layer=layer):
            context = Context(jnp.zeros((1, x.shape[1]), jnp.int32), training=True)
            return with_values(layer, values)(x, context)

        squares = jax.grad(lambda values, x, output=output: jnp.square(output(values, x)).sum(), (0, 1))
        arguments = random_values(layer, 1), x
        found[f"{name}, forward"] = jax.jit(output), arguments
        found[f"{name}, both"] = jax.jit(squares), arguments
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("tokens", 4096),
        ("experts", 8),
        ("per-token", 2),
        ("dim", 256),
        ("hidden", 512),
        ("rounds", 15),
        ("calls", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--layer", action="store_true", help="whole layers")
    args = parser.parse_args()
    timed = layers(args) if args.layer else functions(args)
    for name, (function, arguments) in list(timed.items()):
        try:
            jax.block_until_ready(function(*arguments))
        except Exception as error:
            print(f"{name}: cannot be computed here: {str(error).splitlines()[0][:200]}")
            del timed[name]
    seconds: dict[str, list[float]] = {name: [] for name in timed}
    processor: dict[str, list[float]] = {name: [] for name in timed}
    for _ in range(args.rounds):
        for name, (function, arguments) in timed.items():
            began, used = time.perf_counter(), time.process_time()
            jax.block_until_ready([function(*arguments) for _ in range(args.calls)])
            seconds[name].append((time.perf_counter() - began) / args.calls)
            processor[name].append((time.process_time() - used) / args.calls)
    for what, times in (("time", seconds), ("processor", processor)):
        for name, values in times.items():
            dense = times[f"dense, {name.partition(', ')[2]}"]
            median, least = statistics.median(values), min(values)
            print(
                f"{what:10s}{name:22s} median {1e3 * median:8.2f} ms ({median / statistics.median(dense):5.2f} of dense), "
                f"least {1e3 * least:8.2f} ms ({least / min(dense):5.2f})"
            )


if __name__ == "__main__":
    main()
