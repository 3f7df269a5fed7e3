"""Claims that no experiment has decided with fitted settings, and the experiments that could."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from publication.claims_table import CHECK, ListedClaims
from publication.fitted_claims import fitted_results
from publication.sizes import ClaimResult, SizedResult, result_of_file
from publication.sweep_costs import SweepCost, sweep_cost
from publication.verdict_order import DECIDED
from zoo.errors import ConfigError
from zoo.lab.declarations import claim_ids, claim_order
from zoo.lab.experiment import Experiment, load_experiment
from zoo.lab.sizes import RUNGS

SEEDS = 5
# Of an experiment that fits nothing at the rungs; the first of them that it has is the one to run.
_OTHER_SIZES = (RUNGS[0], "full", "small", "gpu")


class OpenClaim(NamedTuple):
    """A claim, and an experiment that could decide it.

    Attributes:
        claim: the claim's id.
        statement: of the claim.
        file: path of the experiment.
        size: at which it should be run next.
        seen: what it has found so far, if anything.
        cost: of the sweep at that size.
    """

    claim: str
    statement: str
    file: str
    size: str
    seen: SizedResult | None
    cost: SweepCost


def open_claims(folder: Path, listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]]) -> list[OpenClaim]:
    """Returns the open claims of all experiment files that have rungs and fit a setting, in order:
    those that no rung has decided, at the rung after the last one that was run.

    Args:
        folder: of the experiment files.
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
    """
    found = []
    for file in sorted(folder.glob("*.py")):
        sizes = list(_load(file, RUNGS))
        if not sizes or not sizes[0][1].tunings:
            continue
        for claim in _claims(sizes[0][1], listed):
            seen = result_of_file(results, claim, file.stem)
            fitted = next((one for _, one in fitted_results(seen)), None) if seen else None
            done = RUNGS[: RUNGS.index(fitted.result["size"]) + 1] if fitted else ()
            following = next((each for each in sizes if each[0] not in done), None)
            if following and not (fitted and fitted.verdict in DECIDED):
                last = fitted or (seen and seen.headline)
                found.append(_open_claim(claim, listed, file, *following, last))
    return sorted(found, key=lambda one: claim_order(one.claim))


def other_open_claims(
    folder: Path, listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]]
) -> list[OpenClaim]:
    """Returns the open claims of experiments that have no rung or fit no setting, in order: those that
    the experiment has decided at no size.

    Args:
        folder, listed, results: as in `open_claims`.
    """
    found = []
    for file in sorted(folder.glob("*.py")):
        size, experiment = next(_load(file, _OTHER_SIZES), ("", None))
        if experiment is None or any(one.tunings for _, one in _load(file, RUNGS)):
            continue
        for claim in _claims(experiment, listed):
            seen = result_of_file(results, claim, file.stem)
            if seen is None or seen.headline.verdict not in DECIDED:
                found.append(_open_claim(claim, listed, file, size, experiment, seen and seen.headline))
    return sorted(found, key=lambda one: claim_order(one.claim))


def _load(file: Path, sizes: Sequence[str]) -> Iterator[tuple[str, Experiment]]:
    """Yields the sizes that a file has, and the experiment at each."""
    for size in sizes:
        try:
            yield size, load_experiment(f"{file}:{size}")
        except ConfigError:
            continue


def _claims(experiment: Experiment, listed: ListedClaims) -> Iterator[str]:
    """Yields the claims of an experiment, without those that check the method."""
    directions = {claim["id"]: claim.get("direction") for claim in listed.claims}
    for claim in claim_ids(experiment.claim.id) if experiment.claim else ():
        if directions.get(claim) != CHECK:
            yield claim


def _open_claim(
    claim: str, listed: ListedClaims, file: Path, size: str, experiment: Experiment, seen: SizedResult | None
) -> OpenClaim:
    statements = {one["id"]: one.get("statement") for one in listed.claims}
    statement = statements.get(claim) or _statement(experiment, claim)
    return OpenClaim(claim, statement, f"{file.parent.name}/{file.name}", size, seen, sweep_cost(experiment, SEEDS))


def _statement(experiment: Experiment, claim: str) -> str:
    """Returns the statement of a claim; of one of several that share a statement, its only rule."""
    expected = [contrast.expected for contrast in experiment.contrasts if contrast.claim == claim]
    return expected[0] if len(expected) == 1 < len(claim_ids(experiment.claim.id)) else experiment.claim.statement
