"""Time per member of a population, for N = 1, 4, 16 members, against runs trained separately.

    python benchmarks/population.py                    # a training step: the step of a run trained separately, and a member's share of a population's
    python benchmarks/population.py --executor vmap    # the same by vmap (the default is map on a CPU, else vmap)
    python benchmarks/population.py --sweeps --jobs 2  # whole sweeps with `zoo run`: one population, and a process for each run

The runs are the decoder of `zoo/lab/sizes.py` with learning rates of their own. What is compared
takes turns, so that what else the machine does falls on all. Printed are medians and quartiles over
the turns; of steps also the ratio within each turn.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax

SIZES = (1, 4, 16)


def steppers(
    size: str, executor: str, sizes: Sequence[int] = SIZES, changes: Mapping[str, Any] | None = None
) -> dict[str, tuple[int, Callable[[], dict[str, "jax.Array"]]]]:
    """{name: (runs that it steps, function that dispatches a step of each and returns its metrics)}."""
    import numpy as np

    from zoo import config
    from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
    from zoo.lab.sizes import decoder
    from zoo.models.architectures import make_model
    from zoo.objectives import make_objective
    from zoo.training.executor import make_executor
    from zoo.training.mesh import make_mesh
    from zoo.training.population.batch_streams import StackedBatches
    from zoo.training.step import make_program

    tokenizer = ByteTokenizer()
    resolved = [
        config.resolve(
            decoder(size, {"optimizer.learning_rate": 1e-3 * 1.1**index, "seed": index, **(changes or {})}),
            tokenizer.vocab_size,
        )
        for index in range(max(sizes))
    ]
    mesh = make_mesh(resolved[0])
    program = make_program(resolved[0], make_model(resolved[0]), make_objective(resolved[0], tokenizer), mesh)
    shape = (len(resolved), resolved[0].data.batch_size, resolved[0].data.sequence_length + 1)
    rows = np.random.default_rng(0).integers(0, 256, shape, np.int32)

    def stepper(members: int, name: str) -> Callable[[], dict[str, "jax.Array"]]:
        executor = make_executor(program, [program.constants(one.seed, one) for one in resolved[:members]], name)
        state = executor.combine([program.initial_state(one.seed) for one in resolved[:members]])
        batches = StackedBatches({"tokens": rows[:members]}, tuple(range(members)))

        def step() -> dict[str, "jax.Array"]:
            nonlocal state
            state, metrics = executor.step(state, batches, [True] * members)
            return metrics

        return step

    return {"single": (1, stepper(1, "single"))} | {f"{executor}, N = {n}": (n, stepper(n, executor)) for n in sizes}


def sweep(
    members: int, together: bool, jobs: int, size: str, steps: int, changes: Mapping[str, Any] | None = None
) -> float:
    """Seconds of a `zoo run` over as many learning rates, from an empty folder with the tokens in
    the cache and no compiled program.
    """
    rates = ",".join(f"{1e-3 * 1.1**index:.5g}" for index in range(members))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.py"
        base.write_text(
            f"from zoo.lab.sizes import decoder\n\ndef get_config(argument='tiny'):\n    return decoder({size!r})\n"
        )
        command = [
            sys.executable,
            "-m",
            "zoo.cli.main",
            "run",
            f"--config={base}",
            "--vary",
            f"optimizer.learning_rate={rates}",
            "--seeds",
            "1",
            "--output",
            f"{folder}/sweep",
            "--set",
            f"training.steps={steps}",
            "--set",
            f"training.eval_every={steps}",
            "--set",
            f"schedule.warmup_steps={steps // 10}",
        ]
        command += [f"--set={path}={value}" for path, value in (changes or {}).items()]
        command += ["--population"] if together else ["--jobs", str(jobs)]
        start = time.perf_counter()
        subprocess.run(
            command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
        )
        return time.perf_counter() - start


def shown(seconds: list[float], unit: float) -> str:
    """Median and quartiles."""
    if len(seconds) < 2:
        return f"{unit * seconds[0]:.2f}"
    low, middle, high = statistics.quantiles(seconds, n=4)
    return f"{unit * middle:.2f} ({unit * low:.2f} to {unit * high:.2f})"


def compare_steps(size: str, executor: str, turns: int, calls: int) -> None:
    """Prints the time of a member's step, separately and in populations."""
    import jax

    functions = steppers(size, executor)
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(turns + 1):
        for name, (members, function) in functions.items():
            start = time.perf_counter()
            for _ in range(max(1, calls // members)):
                jax.block_until_ready(function())
            if turn:  # The first one compiles.
                taken[name].append((time.perf_counter() - start) / max(1, calls // members) / members)
    for name, seconds in taken.items():
        ratio = [single / own for single, own in zip(taken["single"], seconds, strict=True)]
        print(
            f"{name:>14}: {shown(seconds, 1000)} ms for a member's step, {shown(ratio, 1)} times as fast as separately"
        )


def compare_sweeps(size: str, jobs: int, turns: int, steps: int) -> None:
    """Prints the time of whole sweeps for each of their runs."""
    for members in SIZES:
        taken: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(turns):
            for together, seconds in taken.items():
                seconds.append(sweep(members, together, jobs, size, steps) / members)
        apart = f"{shown(taken[False], 1)} s as processes, {jobs} at once"
        print(f"N = {members:2}: {shown(taken[True], 1)} s for each run in a population, {apart}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--size", default="tiny", help="of the decoder")
    parser.add_argument("--executor", choices=("map", "vmap"), help="of the populations' steps")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--calls", type=int, default=16, help="steps of a run in a turn")
    parser.add_argument("--sweeps", action="store_true", help="whole sweeps")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once, with --sweeps")
    parser.add_argument("--steps", type=int, default=200, help="of a run, with --sweeps")
    arguments = parser.parse_args()
    if arguments.sweeps:
        compare_sweeps(arguments.size, arguments.jobs, arguments.turns, arguments.steps)
        return
    import jax

    executor = arguments.executor or ("map" if jax.default_backend() == "cpu" else "vmap")
    compare_steps(arguments.size, executor, arguments.turns, arguments.calls)


if __name__ == "__main__":
    main()
