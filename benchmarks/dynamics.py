"""Cost of recording the statistics of training: a step and the program that observes it take turns
in one process.

  python benchmarks/dynamics.py [CONFIG:SIZE ...] [--every N] [--steps N] [--rounds N]

A recorded step is an ordinary one and the program before it; the others are what they are without.
So the cost is the program's time over that of `every` steps.
"""

import argparse
import statistics
import time

import jax

from zoo import config as configs
from zoo import data
from zoo.data import resolve_with_data
from zoo.models.architectures import make_model
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.runtime.compilation_cache import use_compilation_cache
from zoo.training.step import make_program


def measure(name: str, overrides: list[str], rounds: int, steps: int, every: int) -> str:
    """One line: medians of a step and of the program that observes, and the share of the time that
    it costs.
    """
    changes = configs.parse_overrides([f"--config.{text}" for text in overrides])
    config = resolve_with_data(configs.override(configs.load(name), changes))
    dataset = data.load(config)
    program = make_program(config, make_model(config), make_objective(config, dataset.tokenizer), make_mesh(config))
    state, constants = program.initial_state(0), program.constants(0)
    with dataset.training_batches() as batches:
        batch = program.put_batch(next(batches))
    began = time.perf_counter()
    jax.block_until_ready(program.dynamics_step(state, batch, constants))
    first = time.perf_counter() - began

    def seconds(recorded: bool) -> float:
        nonlocal state
        began = time.perf_counter()
        for _ in range(steps):
            observed = program.dynamics_step(state, batch, constants) if recorded else None
            state, metrics = program.train_step(state, batch, constants)
            if recorded:
                program.dynamics_step.fetch(observed)
        jax.block_until_ready(metrics)
        return (time.perf_counter() - began) / steps

    seconds(True)
    turns = [(seconds(False), seconds(True)) for _ in range(rounds)]
    step = statistics.median(plain for plain, _ in turns)
    shares = sorted((recorded - plain) / plain / every for plain, recorded in turns)
    low, middle, high = (shares[round(place * (len(shares) - 1))] for place in (0.25, 0.5, 0.75))
    return (
        f"{name:32s} step {1000 * step:8.1f} ms   recording {1000 * middle * every * step:8.1f} ms   every {every} steps: "
        f"{100 * middle:.2f} % of the time (quartiles {100 * low:.2f} .. {100 * high:.2f}, n={rounds})   "
        f"first call {first:.1f} s"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "configs", nargs="*", default=["configs/gpt2.py:tiny", "configs/bert.py:tiny", "configs/llama.py:tiny"]
    )
    parser.add_argument("--every", type=int, default=100, help="steps between records (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="steps of a turn")
    parser.add_argument("--rounds", type=int, default=9, help="turns")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="override a config field")
    arguments = parser.parse_args()
    use_compilation_cache()
    for name in arguments.configs:
        print(measure(name, arguments.set, arguments.rounds, arguments.steps, arguments.every), flush=True)


if __name__ == "__main__":
    main()
