"""The table of the claims that were judged with settings fitted in each arm."""

import posixpath
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from publication.changed_verdicts import wrapped
from publication.claims_table import ListedClaims, contrasts_of_claim, effects, published, results_of_claims
from publication.sizes import ClaimResult, SizedResult, counted_results, largest_first
from publication.verdict_order import DECIDED
from zoo.lab.formatting import count
from zoo.lab.report.archive.detectable import detectable_difference
from zoo.lab.report.archive.experiment_page import as_cell, described_size, other_text, read_table, tuned_by
from zoo.lab.report.archive.result_record import FITTED
from zoo.lab.sizes import RUNGS, TOKENS_PER_PARAMETER
from zoo.lab.statistics.sequential import POWER

# Written by hand, in the folder of the results.
_LEFT_OUT = "limits.md#what-fitted-experiments-leave-out"
_FURTHER = "findings.md#judged-with-fitted-settings-at-other-sizes"
SIZES_LINK = "../experiments.md#experiments-on-norms-positions-attention-and-feed-forward-layers"
_JUDGED = (*DECIDED, "undecided")


def fitted_text(
    listed: ListedClaims,
    results: Mapping[str, Sequence[ClaimResult]],
    measured: Mapping[str, Sequence[Mapping[str, Any]]],
    output: Path,
    root: str,
) -> str:
    """Returns a table of the claims whose arms each had a fitted setting, at a size with enough tokens
    (`zoo.lab.sizes.RUNGS`), and that could be tested, with the differences that such experiments
    detect and the numbers of parameters; then the number of those of `further_fitted_text`.

    Args:
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
        measured: the records of measurements, by the claim's id.
        output: the folder of the results.
        root: its path from the page, with a slash if it is not empty.
    """
    rows, verdicts, smallest, parameters, in_parts = [], Counter[str](), defaultdict(list), [], []
    for claim, found in results_of_claims(listed, results):
        counted = counted_results(found)
        for name, one in (each for whole in counted for each in fitted_results(whole)):
            contrasts = contrasts_of_claim(one.contrasts, claim["id"])
            runs = read_table(output / one.name / "runs.csv")
            for row in contrasts:
                if (difference := detectable_difference(row, runs, one.result)) is not None:
                    smallest[size_and_seeds(one.result)].append(difference)
            others = list(other_parts(name, counted, measured.get(claim["id"], ()), root))
            in_parts += [claim["id"]] if others else []
            asked = listed.asked_by(claim, name)
            verdict = f"**{one.verdict}**" + (" in this part" if others else "")
            cells = (
                f"{claim['id']} {claim['statement']}",
                "; ".join(filter(None, [verdict, *others, asked["note"]])),
                effects(contrasts),
                _rules(contrasts),
                f"[{described_size(one.result)}]({root}{one.name}/README.md)",
                published(asked, one.verdict),
            )
            rows.append(f"| {' | '.join(map(as_cell, cells))} |")
            verdicts[one.verdict] += 1
            parameters += [arm["parameters"] for arm in one.result["arms"]]
    further = _number_of_further(listed, results, root)
    if not rows:
        nothing = f"No claim has been judged with settings fitted in each arm at {RUNGS[0]} or larger."
        return "\n".join([nothing, *further])
    return "\n".join(
        [
            wrapped(_introduction(verdicts, in_parts, smallest)),
            "",
            "| claim | verdict | a − b | rule | size | published |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
            wrapped(
                f"These models have {_millions(min(parameters))} to {_millions(max(parameters))} million parameters. "
                f"Their sizes ([{RUNGS[0]} to {RUNGS[-1]}]({posixpath.normpath(root + SIZES_LINK)})) are those at "
                f"which a plain decoder reads {TOKENS_PER_PARAMETER} bytes or more of one text for each parameter; "
                "deeper decoders and mixtures of experts read fewer. What holds for them may not hold for larger "
                "models. "
                f"[What the intervals leave out]({root}{_LEFT_OUT}): other texts, shared baselines, other settings."
            ),
            *further,
        ]
    )


def _introduction(verdicts: Counter[str], in_parts: Sequence[str], smallest: Mapping[str, Sequence[float]]) -> str:
    """Returns the sentences above the table.

    Args:
        verdicts: the number of claims with each verdict.
        in_parts: the claims that other experiments or measurements judge too.
        smallest: the differences that the contrasts detect, by size and seeds.
    """
    medians = " and ".join(
        f"{statistics.median(found):.3f} nats at {size} ({_spread(found)})" for size, found in sorted(smallest.items())
    )
    detected = f" With {100 * POWER:.0f} % power such a contrast finds a difference of {medians}."
    parts = f", {', '.join(dict.fromkeys(in_parts))} in one of its parts" if in_parts else ""
    return (
        f"**{count(verdicts.total(), 'claim')} could be judged with settings fitted in each arm at {RUNGS[0]} or "
        f"larger**{parts}: {_counts(verdicts)}. "
        "Their intervals have the uncertainty of the fit; they are of 95 % under rules of superiority, and of "
        f"90 % under those of equivalence and non-inferiority.{detected if medians else ''} The claims are "
        "judged one by one; nothing corrects for their number."
    )


def _spread(differences: Sequence[float]) -> str:
    """Returns the number of differences and, of several, their range in words."""
    if len(differences) == 1:
        return "1 contrast"
    return f"the median of {len(differences)} contrasts, {min(differences):.3f} to {max(differences):.3f}"


def _rules(contrasts: Sequence[Mapping[str, str]]) -> str:
    """Returns the rules of contrasts without their names, each once: `a within 0.05 nats of b`."""
    return "; ".join(dict.fromkeys(row["rule"].rpartition(": ")[2] for row in contrasts))


def _counts(verdicts: Counter[str]) -> str:
    return ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _JUDGED if verdicts[verdict])


def further_fitted_text(listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], root: str) -> str:
    """Returns a list of the experiments that were judged with settings fitted in each arm and are not
    in the table of `fitted_text`: those at other sizes, then those on a second text.

    Args:
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
        root: the path of the results from the page, with a slash if it is not empty.
    """
    at_small_sizes, on_second_texts = _further(listed, results)
    lines = [_item(listed, each, root) for each in at_small_sizes] or ["There is no such experiment."]
    if on_second_texts:
        lines += ["", "On a second text:", "", *(_item(listed, each, root) for each in on_second_texts)]
    return "\n".join(lines)


class _Judged(NamedTuple):
    """The largest result of an experiment with fitted settings, and the claim that it judges."""

    claim: Mapping[str, str]
    name: str
    one: SizedResult


def _further(listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]]) -> tuple[list[_Judged], list[_Judged]]:
    """Returns what was judged with fitted settings (at sizes below the rungs, on second texts)."""
    at_small_sizes, on_second_texts = [], []
    for claim, found in results_of_claims(listed, results):
        counted = counted_results(found)
        for each in found:
            if (one := largest_fitted(each)) is None:
                continue
            if each in counted and not any(fitted_results(each)):
                at_small_sizes.append(_Judged(claim, each.name, one))
            elif each not in counted and not each.part_of:
                on_second_texts.append(_Judged(claim, each.name, one))
    return at_small_sizes, on_second_texts


def _number_of_further(listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]], root: str) -> Iterator[str]:
    """Yields the lines of a paragraph that counts what `further_fitted_text` lists, if anything."""
    at_small_sizes, on_second_texts = _further(listed, results)
    sentences = []
    if at_small_sizes:
        experiments = count(len({each.name for each in at_small_sizes}), "further experiment")
        sentences.append(
            f"With fitted settings at other sizes {experiments} gave {count(len(at_small_sizes), 'verdict')}: "
            f"{_counts(Counter(each.one.verdict for each in at_small_sizes))}."
        )
    if on_second_texts:
        again = ", ".join(f"{each.claim['id']} ({each.one.verdict})" for each in on_second_texts)
        sentences.append(f"On a second text: {again}.")
    if sentences:
        yield from ("", wrapped(" ".join([*sentences, f"[All of them]({root}{_FURTHER})."])))


def other_parts(
    name: str, results: Sequence[ClaimResult], measured: Sequence[Mapping[str, Any]], root: str
) -> Iterator[str]:
    """Yields the verdicts of other experiments and measurements on a claim, with their pages."""
    for found in results:
        if found.name != name:
            yield f"[{found.name}]({root}{found.headline.name}/README.md): {found.headline.verdict}"
    for record in measured:
        yield f"[{record['name']}]({root}{record['page']}): {record['verdict']}"


def _item(listed: ListedClaims, judged: _Judged, root: str) -> str:
    """Returns the list item of an experiment: the claim, its verdict and differences."""
    claim, one = judged.claim, judged.one
    verdict = f"**{one.verdict}** at [{one.result['size']}]({root}{one.name}/README.md){other_text(one.result)}"
    differences = effects(contrasts_of_claim(one.contrasts, claim["id"]))
    note = listed.asked_by(claim, judged.name)["note"]
    rest = "".join(f"; {text}" for text in (differences, note) if text)
    return f"* {claim['id']} {claim['statement']}: {verdict}{rest}"


def size_and_seeds(result: Mapping[str, Any]) -> str:
    """Returns the size and the seeds of a result in words, `rung1 with 5 seeds`."""
    return f"{result['size']} with {count(len(result['seeds']), 'seed')}"


def _millions(parameters: int) -> str:
    return f"{parameters / 1e6:.1f}"


def fitted_results(found: ClaimResult) -> Iterator[tuple[str, SizedResult]]:
    """Yields the name of the experiment and the largest of its results that had fitted settings and
    enough tokens, and could be tested.
    """
    enough = [one for one in _by_size(found) if one.result["size"] in RUNGS and _judged_with_fit(one)]
    yield from [(found.name, one) for one in enough][:1]


def largest_fitted(found: ClaimResult) -> SizedResult | None:
    """Returns the largest of the results that had fitted settings and could be tested, if any."""
    return next(filter(_judged_with_fit, _by_size(found)), None)


def _by_size(found: ClaimResult) -> list[SizedResult]:
    """Returns the results of an experiment, the largest size first."""
    return largest_first([found.headline, *found.others])


def _judged_with_fit(one: SizedResult) -> bool:
    """Whether a result had fitted settings and could be tested."""
    return one.verdict in _JUDGED and tuned_by(one.result) == FITTED
