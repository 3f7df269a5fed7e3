"""Verdicts of the archived results on the claims about a variant."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from publication.claims_table import read_claims, read_measured
from publication.results_index import exact_tests
from publication.sizes import results_by_claim
from zoo.lab.report.archive.experiment_page import described_size
from zoo.lab.report.archive.results_index import read_results
from zoo.variants.usage import questions_about
from zoo.variants.variant import Variant


class ClaimVerdict(NamedTuple):
    """The verdict on a claim, and the target of the link to its explanation in the results."""

    verdict: str
    target: str


class Findings(NamedTuple):
    """The claims and verdicts of a folder of results, by the claims' ids.

    Attributes:
        claims: {id: row of claims.csv}.
        verdicts: {id: verdicts}.
        link: how a page of a variant reaches the folder.
    """

    claims: Mapping[str, Mapping[str, str]]
    verdicts: Mapping[str, list[ClaimVerdict]]
    link: str


def read_findings(results: Path, tests: Path, link: str) -> Findings:
    """Returns what a folder that `zoo results` wrote says about each claim.

    Args:
        results: the folder.
        tests: the folder of the tests of exact claims.
        link: path from a page to the folder.
    """
    verdicts: dict[str, list[ClaimVerdict]] = {}
    for claim, found in results_by_claim(read_results(results, lambda folder, result: "")).items():
        for of_experiment in found:
            for one in (of_experiment.headline, *of_experiment.others):
                verdict = f"{one.verdict} ({described_size(one.result)})"
                verdicts.setdefault(claim, []).append(ClaimVerdict(verdict, f"{one.name}/README.md"))
    for claim, records in read_measured(results).items():
        found = [ClaimVerdict(f"{record['verdict']} (measured)", record["page"]) for record in records]
        verdicts.setdefault(claim, []).extend(found)
    for claim in exact_tests(results, tests):
        verdicts.setdefault(claim, []).append(ClaimVerdict("exact, by a test", "README.md#exact-claims"))
    return Findings({claim["id"]: claim for claim in read_claims(results).claims}, verdicts, link)


def judged_by(variant: Variant, findings: Findings) -> list[str]:
    """Returns a line for each claim about the variant: its statement and source, the verdicts and the
    experiments; and a line for each experiment without a claim.
    """
    asked = questions_about(variant)
    return [
        *(_claim_line(id, names, asked.statements.get(id, ""), findings) for id, names in asked.claims.items()),
        *(f"{_experiment(name)}, an open question" for name in asked.open),
    ]


def _claim_line(id: str, names: list[str], statement: str, findings: Findings) -> str:
    listed = findings.claims.get(id)
    if listed:
        statement = f"{listed['statement']} ({listed['source']})"
    found = "; ".join(f"[{verdict}]({findings.link}/{target})" for verdict, target in findings.verdicts.get(id, []))
    line = ": ".join(filter(None, (id, statement, found or "not judged yet")))
    return line + (f". Experiment: {', '.join(map(_experiment, names))}" if names else "")


def _experiment(name: str) -> str:
    return f"[{name}](../../experiments/{name}.py)"
