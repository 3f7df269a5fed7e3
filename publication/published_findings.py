"""published_findings.md: what was published about each claim, and what experiments here found."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scipy.stats import binomtest

from publication.changed_verdicts import wrapped
from publication.claims_table import AGREEMENT, CHECK, ListedClaims, contrasts_of_claim, effects
from publication.fitted_claims import SIZES_LINK, largest_fitted, other_parts
from publication.sizes import ClaimResult, SizedResult, counted_results, runs_and_tokens
from publication.verdict_order import DECIDED
from zoo.files import write_atomic
from zoo.lab.formatting import count
from zoo.lab.report.archive.experiment_page import as_cell, described_size
from zoo.lab.sizes import TOKENS_PER_PARAMETER

Measurements = Mapping[str, Sequence[Mapping[str, Any]]]

PAGE = "published_findings.md"
AGREES, DISAGREES = "agrees", "disagrees"
_HEAD = (
    "# Published findings, asked again in small models",
    "",
    wrapped(
        "Written by `python -m publication results`. A finding *agrees* if the verdict here is that of its source, and "
        "*disagrees* if it is the opposite. Claims for which no published result is quoted are left out. Where "
        "sources contradict each other, take no side or do not test the claim "
        "itself, only the verdict is given. *Undecided* is an effect that this many seeds cannot tell from the margin "
        "of its rule, or whose noise cannot be estimated from other runs; [limits](limits.md) explains *not testable* "
        f"and *not tuned*. [Sizes]({SIZES_LINK}) are those of plain decoders; the page of an experiment lists those of "
        "its arms. Intervals are 90 % intervals under rules of equivalence and non-inferiority and 95 % intervals "
        "otherwise, in nats unless another unit is given."
    ),
    "",
)
_COSTS = ("runs per decision", "tokens per decision")
_LEVEL = 0.95


class Finding(NamedTuple):
    """A published statement, and one experiment about it.

    Attributes:
        claim: the row of claims.csv, as it applies to the experiment.
        one: the result at the size that counts.
        fitted: whether it is judged with settings fitted in each arm.
        others: the verdicts of other experiments and measurements on the claim.
    """

    claim: Mapping[str, str]
    one: SizedResult
    fitted: bool
    others: Sequence[str] = ()

    @property
    def outcome(self) -> str:
        """Whether the verdict agrees with what was published, or the verdict itself."""
        return AGREEMENT[self.claim["direction"]].get(self.one.verdict, self.one.verdict)

    @property
    def part(self) -> str:
        """The first two parts of the name of the first field in which the arms differ on purpose."""
        arms, tuned = self.one.result["arms"], (self.one.result.get("tuning") or {}).get("field")
        for name in (name for arm in arms for name in arm["overrides"]):
            if name != tuned and len({repr(arm["overrides"].get(name)) for arm in arms}) > 1:
                return ".".join(name.split(".")[:2] if name.startswith("model.") else name.split(".")[:1])
        return "other"


def findings(
    listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], measured: Measurements
) -> list[Finding]:
    """Returns the experiments on claims about which something was published, in their order."""
    return [
        each
        for claim in listed.claims
        for each in _of_claim(listed, claim, results.get(claim["id"], ()), measured.get(claim["id"], ()))
    ]


def _of_claim(
    listed: ListedClaims,
    claim: Mapping[str, str],
    results: Sequence[ClaimResult],
    measured: Sequence[Mapping[str, Any]],
) -> Iterator[Finding]:
    # A second text is not counted again among the fitted verdicts.
    counted = counted_results(results)
    for found in results:
        asked = listed.asked_by(claim, found.name)
        if asked["published"] and asked["direction"] != CHECK and not found.part_of:
            one = largest_fitted(found) if found in counted else None
            others = [*other_parts(found.name, counted, measured, "")] if one else []
            yield Finding(asked, one or found.headline, one is not None, others)


def write_published_findings(
    listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], measured: Measurements, output: Path
) -> Path | None:
    """Writes the page; returns its path, or None if there is nothing published about any claim.

    Args:
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
        measured: the records of measurements, by the claim's id.
        output: the folder of the results.
    """
    found = findings(listed, results, measured)
    if not found:
        return None
    fitted, others = ([one for one in found if one.fitted is chosen] for chosen in (True, False))
    lines = [*_HEAD, *_alone(listed, results, measured), *(_accuracy(fitted, output) if fitted else ())]
    for title, chosen in (("Judged with fitted settings", fitted), ("The others", others)):
        if chosen:
            lines += [f"## {title}", "", *_table(chosen), ""]
    write_atomic(output / PAGE, "\n".join(lines))
    return output / PAGE


def _alone(listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], measured: Measurements) -> Iterator[str]:
    """Yields which claims with a source are judged by measurements alone."""
    alone = [
        one["id"] for one in listed.claims if one["published"] and measured.get(one["id"]) and one["id"] not in results
    ]
    if alone:
        yield f"Measurements of time and memory ({', '.join(alone)}) are in the [table of claims](README.md) only."
        yield ""


def _table(found: Sequence[Finding]) -> Iterator[str]:
    yield "| claim | published | here | a − b | size |"
    yield "| --- | --- | --- | --- | --- |"
    for each in found:
        contrasts = contrasts_of_claim(each.one.contrasts, each.claim["id"])
        cells = (
            f"{each.claim['id']} {each.claim['statement']}",
            each.claim["published"],
            _outcome(each),
            effects(contrasts),
            f"[{described_size(each.one.result)}]({each.one.name}/README.md)",
        )
        yield f"| {' | '.join(map(as_cell, cells))} |"


def _outcome(each: Finding) -> str:
    in_part = " in this part" if each.others else ""
    note = each.claim["note"]
    return f"**{each.outcome}**{in_part}" + "".join(f"; {text}" for text in (*each.others, note) if text)


def _accuracy(fitted: Sequence[Finding], output: Path) -> Iterator[str]:
    """Yields how many published directions the fitted verdicts have, in all, by size and by part."""
    directed = [one for one in fitted if AGREEMENT[one.claim["direction"]]]
    asks = "asks" if len(directed) == 1 else "ask"
    yield "## Do small models find what was published?"
    yield ""
    yield wrapped(
        f"{count(len(directed), 'experiment')} with settings fitted in each arm {asks} for a result on which the "
        f"sources agree. {_share(directed)} The others are undecided: an interval contains the margin of its rule, or "
        f"the noise of a difference cannot be estimated from other runs.{_not_counted(fitted)}"
    )
    yield ""
    for title, key in (
        ("size", lambda one: one.one.result["size"]),
        ("first field that differs", lambda one: one.part),
    ):
        head = (title, "asked", "agree", "disagree", "undecided", "share that agrees", *_COSTS)
        yield f"| {' | '.join(head)} |"
        yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
        for name in dict.fromkeys(map(key, directed)):
            yield _row(name, [one for one in directed if key(one) == name], output)
        yield ""
    yield wrapped(
        "A share is of the experiments that were decided, with its Clopper-Pearson interval at 95 %. It overstates "
        "agreement: where an effect is absent, the claim that one arm ends lower stays undecided. The claims were "
        "not drawn at random from all that was published, and experiments that share a text and a baseline are not "
        f"independent. At `tiny` a plain decoder reads fewer than {TOKENS_PER_PARAMETER} bytes per parameter. Runs "
        "and tokens are those of tuning and of all arms and seeds, of undecided experiments too, divided by the "
        "number of decisions."
    )
    yield ""


def _not_counted(fitted: Sequence[Finding]) -> str:
    """Names decisions that the share leaves out."""
    found = [one for one in fitted if not AGREEMENT[one.claim["direction"]] and one.one.verdict in DECIDED]
    if not found:
        return ""
    named = ", ".join(f"{one.claim['id']} ({one.one.verdict})" for one in found)
    return (
        " Decided and not counted, because sources contradict each other, take no side or do not test the claim "
        f"itself: {named}."
    )


def _share(directed: Sequence[Finding]) -> str:
    outcomes = Counter(one.outcome for one in directed)
    decided = outcomes[AGREES] + outcomes[DISAGREES]
    if not decided:
        return "None was decided."
    low, high = _interval(outcomes[AGREES], decided)
    return (
        f"{decided} {'was' if decided == 1 else 'were'} decided, and {outcomes[AGREES]} of them agree with the source "
        f"({_percent(low)} to {_percent(high)} of such decisions, at {_percent(_LEVEL)})."
    )


def _interval(agree: int, decided: int) -> tuple[float, float]:
    found = binomtest(agree, decided).proportion_ci(_LEVEL, method="exact")
    return found.low, found.high


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _row(name: str, chosen: Sequence[Finding], output: Path) -> str:
    outcomes = Counter(one.outcome for one in chosen)
    agree, disagree = outcomes[AGREES], outcomes[DISAGREES]
    decided, share = agree + disagree, ""
    if decided:
        low, high = _interval(agree, decided)
        share = f"{agree} of {decided} ({_percent(low)} to {_percent(high)})"
    runs, tokens = (
        sum(each) for each in zip(*(runs_and_tokens(output / one.one.name, one.one.result) for one in chosen))
    )
    cost = (f"{runs / decided:.0f}", f"{tokens / decided / 1e6:.0f} million") if decided else ("", "")
    return (
        f"| `{name}` | {len(chosen)} | {agree} | {disagree} | {len(chosen) - decided} | {share} | {' | '.join(cost)} |"
    )
