"""Seconds from `python train.py` to the first logged step of a tiny model, with an empty and with a
filled cache.

    python benchmarks/startup.py [--rounds 3]

Every round starts with an empty cache folder (tokens and compiled programs), so that its first
start is cold and its second warm.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def seconds_to_first_step(cache: Path, workdir: Path) -> float:
    """Starts a run, waits for the line of its first step, and ends it."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "train.py", "--config=configs/gpt2.py:tiny", f"--workdir={workdir}"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"ZOO_CACHE": str(cache)},
    )
    try:
        for line in process.stdout:
            if line.startswith("step 1/"):
                return time.perf_counter() - began
        raise SystemExit(f"the run ended early, with exit code {process.wait()}")
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    times: dict[str, list[float]] = {"cold": [], "warm": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for name, taken in times.items():
                taken.append(seconds_to_first_step(Path(folder) / "cache", Path(folder) / name))
    for name, taken in times.items():
        print(
            f"{name}  median {statistics.median(taken):.1f} s  of {', '.join(f'{value:.1f}' for value in sorted(taken))}"
        )


if __name__ == "__main__":
    main()
