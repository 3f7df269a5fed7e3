"""What the experiments without rungs would take: their claims, where tiny models decide nothing, at
the next size that the experiment names.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from publication.claims_table import CHECK, ListedClaims
from publication.sizes import ClaimResult, SizedResult, result_of_file
from publication.verdict_order import DECIDED
from zoo.errors import ConfigError
from zoo.lab.declarations import claim_ids, claim_order
from zoo.lab.experiment import Experiment, load_experiment
from zoo.lab.launch.progress import training_flops
from zoo.lab.planning.plan import make_plan
from zoo.lab.planning.tuning import fewest_tuning_runs
from zoo.lab.sizes import RUNGS

# The first of them that an experiment has is the one to run.
_SIZES = ("full", "small", "gpu")


class LargerSize(NamedTuple):
    """An experiment at a larger size than those of the archive, and a claim that it could decide.

    Attributes:
        claim: the claim's id.
        statement: of the claim.
        file: its path.
        size: that size.
        seen: what has been found so far, if anything.
        runs: the fewest runs of it: those of pre-training, of tuning, and the seeds of each arm.
        flops: FLOPs of these runs.
    """

    claim: str
    statement: str
    file: str
    size: str
    seen: SizedResult | None
    runs: int
    flops: float


def larger_sizes(
    folder: Path, listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], seeds: int
) -> list[LargerSize]:
    """Returns the claims that experiment files without rungs have left open, in order.

    Args:
        folder: of the experiment files.
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
        seeds: of each arm.
    """
    found, known = [], {claim["id"]: claim for claim in listed.claims}
    for file in sorted(folder.glob("*.py")):
        if _load(file, RUNGS[0]) or not (sized := next(filter(None, (_load(file, size) for size in _SIZES)), None)):
            continue
        size, experiment = sized
        open_here = []
        for claim in claim_ids(experiment.claim.id) if experiment.claim else ():
            seen = result_of_file(results, claim, file.stem)
            decided = seen is not None and seen.headline.verdict in DECIDED
            if not decided and known.get(claim, {}).get("direction") != CHECK:
                open_here.append((claim, seen and seen.headline))
        if not open_here:
            continue
        runs, flops = _cost(experiment, seeds)
        for claim, headline in open_here:
            statement = known.get(claim, {}).get("statement") or experiment.claim.statement
            path = f"{folder.name}/{file.name}"
            found.append(LargerSize(claim, statement, path, size, headline, runs, flops))
    return sorted(found, key=lambda one: claim_order(one.claim))


def _load(file: Path, size: str) -> tuple[str, Experiment] | None:
    try:
        return size, load_experiment(f"{file}:{size}")
    except ConfigError:
        return None


def _cost(experiment: Experiment, seeds: int) -> tuple[int, float]:
    """Returns (runs, FLOPs of their training); a run of tuning costs as much as an arm on average."""
    plan = make_plan(replace(experiment, tune=None, seeds=tuple(range(seeds))))
    costs = [training_flops(run, run.arm.steps) for run in plan.runs]
    tuning = fewest_tuning_runs(experiment)
    before = [training_flops(run, run.arm.steps) for run in plan.prerequisites]
    return len(before) + tuning + len(costs), sum(before) + sum(costs) + tuning * statistics.mean(costs)
