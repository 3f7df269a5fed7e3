"""Time of the forward pass of runs, side by side: how much faster a student is than its teacher.

    python benchmarks/forward_time.py runs/teacher runs/student

Each run scores the same held-out rows of its own data as `eval.py` does, without learning; the runs
take turns, so that what else the machine does falls on all of them. Printed are the median seconds
per batch, the quartiles, and the ratio of the first run's time to each other's in neighbouring
turns.
"""

import argparse
import statistics
import time
from pathlib import Path


def scorer(folder: Path):
    """Returns a function that scores a batch of the run's held-out rows and waits for it."""
    import jax

    from zoo import data
    from zoo.training.trained_run import load_trained

    trained = load_trained(folder)
    batch = trained.program.put_batch(
        next(iter(data.load(trained.config).evaluation_batches(multiple_of=trained.program.data_parallel_size)))
    )
    constants = trained.program.constants(trained.config.seed)

    def score():
        jax.block_until_ready(trained.program.eval_step(trained.params, trained.stats, batch, constants))

    return score


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--turns", type=int, default=41)
    parser.add_argument("--batches", type=int, default=5, help="batches of a turn")
    arguments = parser.parse_args()
    scorers = [scorer(folder) for folder in arguments.runs]
    seconds = [[] for _ in scorers]
    for turn in range(arguments.turns + 1):
        for score, taken in zip(scorers, seconds, strict=True):
            start = time.perf_counter()
            for _ in range(arguments.batches):
                score()
            if turn:  # The first one compiles.
                taken.append((time.perf_counter() - start) / arguments.batches)
    for folder, taken in zip(arguments.runs, seconds, strict=True):
        low, middle, high = statistics.quantiles(taken, n=4)
        ratio = statistics.median(first / own for first, own in zip(seconds[0], taken, strict=True))
        print(
            f"{folder}: {1000 * middle:.2f} ms a batch (quartiles {1000 * low:.2f} to {1000 * high:.2f}); "
            f"the first run takes {ratio:.2f} times as long"
        )


if __name__ == "__main__":
    main()
