"""Cost of a batch in the training loop: time in `next(batches)` while the device is busy with a
step.

    python benchmarks/input_pipeline.py [--step-ms 30]

Between two batches the consumer sleeps for as long as a step takes, as the loop waits for its
device.
"""

import argparse
import statistics
import time

from zoo import config as configs
from zoo import data


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--step-ms", type=float, default=30.0, help="length of a step (default: %(default)s)")
    parser.add_argument("--batches", type=int, default=200)
    arguments = parser.parse_args()
    for batch, length in ((16, 64), (16, 256), (256, 256)):
        config = configs.resolve(
            configs.override(configs.default(), {"data.batch_size": batch, "data.sequence_length": length})
        )
        taken = []
        with data.load(config).training_batches() as batches:
            for _ in range(arguments.batches):
                time.sleep(arguments.step_ms / 1000)
                began = time.perf_counter()
                next(batches)
                taken.append(1000 * (time.perf_counter() - began))
        middle, high = statistics.median(taken), statistics.quantiles(taken, n=20)[-1]
        print(
            f"B {batch:4d}  T {length:4d}  median {middle:.3f} ms  95 % below {high:.3f} ms  "
            f"{100 * middle / arguments.step_ms:.2f} % of a step of {arguments.step_ms:g} ms"
        )


if __name__ == "__main__":
    main()
