"""Time and memory of attention in ever longer rows: FAVOR+, a window of 129 keys, full attention,
causal and in both directions, and layers with a state.

    python benchmarks/linear_attention.py
    python benchmarks/linear_attention.py --only 'gated delta' 'full, causal' --lengths 1024,2048,4096,8192
    python benchmarks/linear_attention.py --only 'gated delta' 'window, causal' 'full, causal' --set model.dim=32 \\
        --set model.num_layers=1 --lengths 1024,4096,16384,32768 --longest 2 --processor-time --foreign 1

One row through a model of 2 layers, width 128, 4 heads, RoPE, float32: forward and backward pass,
up to the hidden states. All variants of a length are compiled side by side in one process and take
turns, so that what else the machine does falls on all of them. A turn in which other processes used
more than `--foreign` of the machine's processor time is thrown away. With `--processor-time` seconds
are those of all processors that the process used, which other work changes less. Printed are the median of the
turns, what the compiled program needs beside its inputs and outputs, and both relative to the
length before: 2 is linear where the length doubles, 4 quadratic. A variant whose pass took longer than
`--longest` seconds is left out of longer rows. The last lines fit time and memory by a power of the
length, without the shortest of more than two lengths: 1 is linear, 2 quadratic.
"""

import argparse
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from claims.turns import Settings, take_turns
from flax import nnx

from zoo import config as configs
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, initialise_statistics, split

MODEL = {"model.dim": 128, "model.num_layers": 2, "model.attention.num_heads": 4, "model.position.kind": "rope", "model.vocab_size": 258,
         "data.tokenizer.kind": "bytes", "data.batch_size": 1}  # fmt: skip
BOTH_DIRECTIONS = {"model.architecture": "encoder", "objective.kind": "masked"}
KINDS = {"performer": {"model.attention.kind": "performer"}, "window": {"model.attention.window": 129}, "full": {}}
VARIANTS = {f"{name}{suffix}": fields | more for name, fields in KINDS.items()
            for suffix, more in ((", causal", {}), (", both directions", BOTH_DIRECTIONS))}  # fmt: skip
STATES = {"gated delta": "gated_delta", "kimi delta": "kimi_delta", "gated linear": "gated_linear", "mamba2": "mamba2",
          "rwkv7": "rwkv7"}  # fmt: skip
VARIANTS |= {name: {"model.attention.kind": kind, "model.position.kind": "none"} for name, kind in STATES.items()}


def compiled(overrides: dict, length: int, sets: list[str], processor_time: bool):
    """Returns a function that runs forward and backward pass once and waits for it, and its bytes
    of temporary memory. The function returns the seconds of processors if they are asked for.
    """
    given = configs.parse_overrides([f"--config.{text}" for text in sets])
    config = configs.resolve(
        configs.override(configs.default(), MODEL | overrides | {"data.sequence_length": length} | given)
    )
    model = make_model(config)
    graph = split(model)[0]
    params, stats = initialise(model, 0), initialise_statistics(model, 0)
    tokens = np.random.default_rng(0).integers(0, 256, (1, length), np.int32)
    context = Context(jnp.arange(length)[None], causal=config.model.architecture == "decoder", in_order=True)

    def loss(params, stats, tokens):
        return jnp.square(nnx.merge(graph, params, stats)(tokens, context)).mean()

    program = jax.jit(jax.value_and_grad(loss)).lower(params, stats, tokens).compile()

    def run() -> float | None:
        began = time.process_time()
        jax.block_until_ready(program(params, stats, tokens))
        return time.process_time() - began if processor_time else None

    return run, program.memory_analysis().temp_size_in_bytes


def exponent(lengths: list[int], sizes: list[float]) -> float:
    """Returns the p of the least-squares fit of log size by p log length, without the first of more
    than two lengths.
    """
    first = 1 if len(lengths) > 2 else 0
    return float(np.polyfit(np.log(lengths[first:]), np.log(sizes[first:]), 1)[0])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--lengths", type=lambda text: [int(x) for x in text.split(",")], default=[512, 1024, 2048, 4096]
    )
    parser.add_argument("--rounds", type=int, default=7, help="clean turns per length")
    parser.add_argument("--steps", type=int, default=3, help="passes per turn")
    parser.add_argument(
        "--foreign", type=float, default=0.07, help="largest share of the machine that others may use in a turn"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="override a config field of all variants"
    )
    parser.add_argument("--processor-time", action="store_true", help="seconds of processors, not of the clock")
    parser.add_argument(
        "--longest", type=float, default=float("inf"), metavar="SECONDS", help="of a pass, for longer rows to follow"
    )
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="variants, all by default")
    arguments = parser.parse_args()
    settings = Settings(arguments.rounds, arguments.steps, arguments.foreign)
    before: dict[str, tuple[float, float]] = {}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in arguments.only}
    running = set(found)
    print(f"{'tokens':>6s} {'attention':27s} {'ms':>8s} {'ratio':>6s} {'MiB':>8s} {'ratio':>6s}")
    for length in arguments.lengths:
        built = {
            name: compiled(overrides, length, arguments.set, arguments.processor_time)
            for name, overrides in VARIANTS.items()
            if name in running
        }
        if not built:
            break
        times = take_turns({name: run for name, (run, _) in built.items()}, settings)
        for name, (_, memory) in built.items():
            now = statistics.median(times[name]), memory / 2**20
            ratios = (
                [f"{x / y:6.2f}" for x, y in zip(now, before[name], strict=True)] if name in before else [" " * 6] * 2
            )
            before[name] = now
            if now[0] > 1000 * arguments.longest:
                running.discard(name)
            found[name].append(now)
            print(f"{length:6d} {name:27s} {now[0]:8.1f} {ratios[0]} {now[1]:8.1f} {ratios[1]}", flush=True)
    for name, sizes in found.items():
        if len(sizes) > 1:
            lengths = arguments.lengths[: len(sizes)]
            seconds, memory = (exponent(lengths, list(column)) for column in zip(*sizes, strict=True))
            print(
                f"{name:27s} up to {lengths[-1]:5d} tokens, time grows with length^{seconds:.2f}, memory with "
                f"length^{memory:.2f}"
            )


if __name__ == "__main__":
    main()
