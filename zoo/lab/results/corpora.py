"""Claims that were judged on several texts: one sentence that names what each text says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from zoo.lab.planning.other_corpus import corpus_label
from zoo.lab.results.sweep_results import SweepResults
from zoo.lab.results.verdict import Verdict
from zoo.nested import flatten

_WORDS = {
    "supported": "holds on",
    "not supported": "does not hold on",
    "undecided": "is undecided on",
    "not testable": "is not testable on",
    "not tuned": "is not tuned on",
}
DIFFERS = "differs between texts"


@dataclass(frozen=True)
class ClaimOnCorpora:
    """A claim on several texts.

    Attributes:
        experiment: its name on the first text.
        claim: its identifier; empty for an experiment that names none.
        verdicts: {text: verdict}, in the order of the sweeps.
    """

    experiment: str
    claim: str
    verdicts: Mapping[str, str]

    @property
    def overall(self) -> str:
        """The verdict that all texts share, or "differs between texts"."""
        found = set(self.verdicts.values())
        return found.pop() if len(found) == 1 else DIFFERS

    @property
    def sentence(self) -> str:
        """All verdicts in words: "F1 holds on stdlib; is undecided on shakespeare"."""
        by_verdict: dict[str, list[str]] = {}
        for text, verdict in self.verdicts.items():
            by_verdict.setdefault(verdict, []).append(text)
        parts = [
            f"{_WORDS.get(verdict, f'has {verdict} on')} {' and '.join(texts)}" for verdict, texts in by_verdict.items()
        ]
        return f"{self.claim or self.experiment} {'; '.join(parts)}"


def source_of(sweep: SweepResults) -> str:
    """Returns the text that a sweep is trained on, as `data.source`; empty if no run has a config."""
    config = next((flatten(run.config) for run in sweep.runs if run.config), {})
    return str(sweep.corpus.get("source") or config.get("data.source") or "")


class JudgedText(NamedTuple):
    """The verdicts of a sweep on one text.

    Attributes:
        experiment: its name on the first text.
        rules: what is equal in sweeps that ask the same.
        source: the text, as `data.source`.
        verdicts: {claim: verdict}.
    """

    experiment: str
    rules: tuple[Any, ...]
    source: str
    verdicts: Mapping[str, str]


def claims_on_corpora(judged: Iterable[tuple[SweepResults, Verdict]]) -> list[ClaimOnCorpora]:
    """Returns each claim that sweeps of one experiment judge on several texts.

    Sweeps belong together if they have the same contrasts and one is the other's experiment on
    another text (`zoo run --corpus`).

    Args:
        judged: sweeps with their verdicts; that on the experiment's own text may be among them.
    """
    return claims_on_texts(
        JudgedText(
            str(sweep.corpus.get("experiment") or sweep.name),
            tuple((one.name, one.rule, one.margin) for one in sweep.contrasts),
            source_of(sweep),
            verdict.claims,
        )
        for sweep, verdict in judged
    )


def claims_on_texts(judged: Iterable[JudgedText]) -> list[ClaimOnCorpora]:
    """Returns each claim that was judged on several texts by the same experiment and rules."""
    groups: dict[tuple, dict[str, dict[str, str]]] = {}
    for each in judged:
        claims = groups.setdefault((each.experiment, each.rules), {})
        for claim, outcome in each.verdicts.items():
            claims.setdefault(claim, {})[each.source] = outcome
    return [
        ClaimOnCorpora(experiment, claim, _labelled(verdicts))
        for (experiment, _), claims in groups.items()
        for claim, verdicts in claims.items()
        if len(verdicts) > 1
    ]


def _labelled(verdicts: Mapping[str, str]) -> dict[str, str]:
    """Returns {short name of the source: verdict}, or the sources where two have one short name."""
    labels = {source: corpus_label(source) for source in verdicts}
    short = len(set(labels.values())) == len(labels)
    return {labels[source] if short else source: verdict for source, verdict in verdicts.items()}
