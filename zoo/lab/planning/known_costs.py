"""The throughput of the archived sweeps on cores of a CPU, known before a sweep begins.

`size_costs.json` is written by `python -m publication results`, with a line for each size of
`zoo.lab.sizes` and each instruction set. FLOPs are those of training (`zoo.models.cost`). How busy the
other cores of a machine were is not known, and part of the spread.
"""

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from zoo.lab.formatting import count
from zoo.training.records.processor import vector_instructions

COST_RECORD = "size_costs.json"
CORES = 2
INSTRUCTIONS = {"avx2": "AVX2", "avx512f": "AVX-512"}
# Times the parameters of the largest recorded models, beyond which nothing is said.
_FAR = 10


@lru_cache
def recorded_costs() -> tuple[Mapping[str, Any], ...]:
    """Returns the entries of the record: size, instructions, parameters, FLOPs of a run, sweeps; and
    `flops_per_second` of one core, of the slowest sweep, in the median and of the fastest.
    """
    return tuple(json.loads(resources.files("zoo.lab").joinpath(COST_RECORD).read_text(encoding="utf-8")))


class Throughput(NamedTuple):
    """The speed at which a core trains a model.

    Attributes:
        slow, median, fast: FLOPs per second, over archived sweeps: the least, the median and the most.
        entry: the entry of the record.
    """

    slow: float
    median: float
    fast: float
    entry: Mapping[str, Any]


def throughput_of(parameters: float, flops: float, instructions: str) -> Throughput | None:
    """Returns the throughput of the recorded size whose parameters are nearest; of sizes with as many,
    the one whose runs have the nearest FLOPs.

    Args:
        parameters: of the model.
        flops: of a run.
        instructions: one of `INSTRUCTIONS`.

    Returns:
        None without a record of such a processor.
    """
    known = [entry for entry in recorded_costs() if entry["instructions"] == instructions]
    if not known:
        return None
    wanted = {"parameters": parameters, "flops": flops}
    entry = min(known, key=lambda one: [abs(math.log(one[name] / value)) for name, value in wanted.items()])
    return Throughput(*entry["flops_per_second"], entry)


def time_lines(runs: int, parameters: float, flops: float, tuning: bool) -> Iterator[str]:
    """Yields a line with the time of training on two cores of this machine's kind, unless models are
    far larger than the archived ones.

    Args:
        runs: how many are to be trained, of which each core trains one at a time.
        parameters: of the model, the mean over the arms.
        flops: of all runs.
        tuning: whether those of tuning are among them.
    """
    instructions = next((name for name in vector_instructions() if name in INSTRUCTIONS), "")
    if not (runs and flops and parameters):
        return
    if (throughput := throughput_of(parameters, flops / runs, instructions)) is None:
        return
    if parameters > _FAR * max(one["parameters"] for one in recorded_costs() if one["instructions"] == instructions):
        return
    rounds = math.ceil(runs / CORES)
    low, high = (flops / runs * rounds / rate for rate in (throughput.fast, throughput.slow))
    unit, seconds = next(((unit, length) for unit, length in _UNITS if high >= 2 * length), _UNITS[-1])
    what = f"{count(runs, 'run')}, the fewest with tuning," if tuning else count(runs, "run")
    sweeps = count(throughput.entry["sweeps"], "archived sweep")
    yield (
        f"training of {what} takes {low / seconds:.0f} to {high / seconds:.0f} {unit} on two cores of a CPU, without "
        f"evaluation and compilation, at the throughput of {sweeps} of the size "
        f"{throughput.entry['size']} with {INSTRUCTIONS[instructions]} (the fastest and the slowest)"
    )


_UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))
