"""Results of one claim that belong together: an experiment at several sizes, and experiments that are
part of another one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from publication.scales import base_names
from publication.verdict_order import DECIDED, SILENT, VERDICT_OF, deciding_rank
from zoo.lab.declarations import claim_ids
from zoo.lab.report.archive.experiment_page import read_table
from zoo.lab.report.archive.results_index import ArchivedResult
from zoo.lab.sizes import RUNGS


class SizedResult(NamedTuple):
    """The verdict of an experiment on a claim at one size.

    Attributes:
        name: of the folder.
        verdict: on the claim.
        result: result.json.
        contrasts: rows of contrasts.csv.
    """

    name: str
    verdict: str
    result: Mapping[str, Any]
    contrasts: Sequence[Mapping[str, str]]

    @property
    def parameters(self) -> int:
        """The most parameters of an arm."""
        return max((arm["parameters"] or 0 for arm in self.result["arms"]), default=0)


class Whole(NamedTuple):
    """The experiment that another one is a part of, and its claim."""

    name: str
    claim: str


class ClaimResult(NamedTuple):
    """The results of an experiment on a claim.

    Attributes:
        name: of the experiment, without a size.
        headline: at the largest size at which it was decided, or else could have been ("undecided"),
            or the largest of all.
        others: at the other sizes, from the largest down.
        part_of: the experiment of another claim that has the same runs and rules as the headline, and
            more.
    """

    name: str
    headline: SizedResult
    others: Sequence[SizedResult]
    part_of: Whole | None = None

    @property
    def on_other_text(self) -> bool:
        """Whether it is another experiment on another text (`zoo run --corpus`)."""
        return bool(self.headline.result.get("corpus"))


def results_by_claim(results: Sequence[ArchivedResult]) -> dict[str, list[ClaimResult]]:
    """Returns the results of each claim: one for every experiment that judges it."""
    bases, wholes = base_names(each.result for each in results), experiments_within_others(results)
    sized: dict[tuple[str, str], list[SizedResult]] = {}
    for each in results:
        for claim in claim_ids(each.claim):
            verdict = claim_verdict(each.result, each.contrasts, claim)
            key = (claim, bases.get(each.name, each.name))
            sized.setdefault(key, []).append(SizedResult(each.name, verdict, each.result, each.contrasts))
    found: dict[str, list[ClaimResult]] = {}
    for (claim, name), at_sizes in sized.items():
        headline, *others = _by_size(at_sizes)
        found.setdefault(claim, []).append(ClaimResult(name, headline, others, wholes.get(headline.name)))
    return found


def counted_results(results: Sequence[ClaimResult]) -> list[ClaimResult]:
    """Returns the results that the verdict on a claim is made of: those that are part of no other one,
    and, if the claim was asked on its experiments' own text, not those on other texts.
    """
    whole = [each for each in results if not each.part_of]
    return [each for each in whole if not each.on_other_text] or whole


def result_of_file(results: Mapping[str, Sequence[ClaimResult]], claim: str, stem: str) -> ClaimResult | None:
    """Returns what an experiment file has found about a claim, if anything.

    Args:
        results: from `results_by_claim`.
        claim: the claim's id.
        stem: the file's name without its ending.
    """
    for each in results.get(claim, ()):
        if each.name in (stem, f"{stem}-{each.headline.result['size']}"):
            return each
    return None


def headlines(results: Sequence[ArchivedResult]) -> list[ArchivedResult]:
    """Returns the headline of each experiment (`ClaimResult`), in their order."""
    bases = base_names(each.result for each in results)
    sized: dict[str, list[SizedResult]] = {}
    for each in results:
        decided = [claim_verdict(each.result, each.contrasts, claim) for claim in claim_ids(each.claim)]
        verdict = min(decided, key=_weight)
        name = bases.get(each.name, each.name)
        sized.setdefault(name, []).append(SizedResult(each.name, verdict, each.result, each.contrasts))
    chosen = {_by_size(at_sizes)[0].name for at_sizes in sized.values()}
    return [each for each in results if each.name in chosen]


def largest_first(results: Sequence[SizedResult]) -> list[SizedResult]:
    """Returns results from the most parameters down; of equally many, a rung, which reads more tokens,
    comes first.
    """
    return sorted(results, key=lambda one: (-one.parameters, one.result["size"] not in RUNGS))


def _by_size(results: Sequence[SizedResult]) -> list[SizedResult]:
    """Returns the results of one experiment, the headline first."""
    largest = largest_first(results)
    headline = min(largest, key=lambda one: _weight(one.verdict))
    return [headline, *(one for one in largest if one is not headline)]


def _weight(verdict: str) -> int:
    """Returns the place of a verdict in the order in which results of several sizes are shown."""
    return 0 if verdict in DECIDED else 1 if verdict not in SILENT else 2


def claim_verdict(result: Mapping[str, Any], contrasts: Sequence[Mapping[str, str]], claim: str) -> str:
    """Returns the verdict on one of an experiment's claims, from the contrasts of that claim."""
    if claim in result.get("claims", {}):
        return result["claims"][claim]
    own = [row for row in contrasts if row.get("claim") in ("", None, claim)]
    if len(own) == len(contrasts):
        return result["verdict"]
    return VERDICT_OF[min((row["outcome"] for row in own), key=deciding_rank)] if own else "no claim"


def experiments_within_others(results: Sequence[ArchivedResult]) -> dict[str, Whole]:
    """Returns {name: the experiment that it is part of}, where all contrasts of one are contrasts of
    the other, with the same runs and rules.
    """
    keys = {each.name: {key for row in each.contrasts if (key := contrast_key(each.result, row))} for each in results}
    found = {}
    for each in results:
        own = keys[each.name]
        if not own or len(own) < len(each.contrasts):
            continue
        for other in results:
            if own < keys[other.name]:
                found[each.name] = Whole(other.name, other.claim)
    return found


def contrast_key(result: Mapping[str, Any], contrast: Mapping[str, str]) -> tuple[Any, ...] | None:
    """Returns what two contrasts have in common that are one: the configs of the runs on each side,
    the metrics and the rule. None where the archive does not have the configs.
    """
    configs = {arm["name"]: tuple(arm.get("configs") or ()) for arm in result["arms"]}
    sides = [configs.get(contrast[side], ()) for side in "ab"]
    if not all(side and all(side) for side in sides):
        return None
    return (*sides, contrast["metric a"], contrast["metric b"], contrast["rule"])


def runs_and_tokens(folder: Path, result: Mapping[str, Any]) -> tuple[int, float]:
    """Returns the numbers of runs, those of tuning included, and of tokens that they read; a run of
    tuning reads as many as a final one.
    """
    final = read_table(folder / "runs.csv")
    tokens = [float(row["tokens"]) for row in final if row.get("tokens")]
    tuning = len(read_table(folder / "tuning.csv")) if "tuning.csv" in result.get("tables", ()) else 0
    mean = sum(tokens) / len(tokens) if tokens else 0.0
    return len(final) + tuning, sum(tokens) + tuning * mean
