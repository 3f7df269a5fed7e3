"""What the fitted experiments at sizes with enough tokens leave open, counted from their archives."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from publication.changed_verdicts import wrapped
from publication.fitted_claims import fitted_results
from publication.sizes import ClaimResult, SizedResult, counted_results, runs_and_tokens
from zoo.lab.report.archive.experiment_page import read_table, tokens_per_parameter
from zoo.lab.results.tuning_misfit import AT_EDGE, MISFIT, record_misfits
from zoo.lab.sizes import TOKENS_PER_PARAMETER


def fitted_limits_text(results: Mapping[str, Sequence[ClaimResult]], output: Path) -> str:
    """Returns a list: the texts that the experiments of `fitted_text` read, what a second text would
    take, arms with fewer tokens for each parameter than a plain decoder, and what their tuning curves
    leave open.

    Args:
        results: the results of each experiment, by the claim's id.
        output: the folder of the results.
    """
    found = {
        claim: one for claim, of in results.items() for whole in counted_results(of) for _, one in fitted_results(whole)
    }
    if not found:
        return "There is no such experiment."
    items = (_texts(found), _second_text(results, found, output), _tokens(found, output), _curves(found))
    return "\n".join(wrapped(f"* {item}") for item in items if item)


def _texts(found: Mapping[str, SizedResult]) -> str:
    """Returns which experiments read the library of which version of Python, if there are several."""
    groups = defaultdict(list)
    for claim, one in found.items():
        if one.result.get("sources") == ["stdlib"] and (python := (one.result.get("versions") or {}).get("python")):
            groups[python].append(claim)
    if len(groups) < 2:
        return ""
    named = "; ".join(f"{_and(claims)} read the library of Python {python}" for python, claims in groups.items())
    return (
        f"**Versions of the text.** {named}. Files, and so the division into training and held-out ones, differ "
        "between versions: losses of one are not to be compared with those of another."
    )


def _second_text(results: Mapping[str, Sequence[ClaimResult]], found: Mapping[str, SizedResult], output: Path) -> str:
    """Returns which claims were asked on a second text too, and what it takes to repeat the others."""
    asked = {
        claim: f"[{one.name}]({one.name}/README.md): {one.verdict}"
        for claim, of in results.items()
        for whole in of
        for _, one in fitted_results(whole)
        if whole.on_other_text and not whole.part_of and claim in found and one is not found[claim]
    }
    parts = []
    if asked:
        was = "was" if len(asked) == 1 else "were"
        links = ", ".join(asked.values())
        parts.append(f"{_and(list(asked))} {was} asked on a second text at such a size ({links}).")
    if left := [one for claim, one in found.items() if claim not in asked]:
        each = [runs_and_tokens(output / one.name, one.result) for one in left]
        runs, tokens = (sum(column) for column in zip(*each, strict=True))
        parts.append(
            f"Repeating {'the others' if asked else 'all of them'} on another text (`zoo run FILE:SIZE --corpus "
            f"SOURCE`) takes {runs:,} runs that read {tokens / 1e9:.1f} billion bytes; [open claims](open_claims.md) "
            "has the speed of a GPU."
        )
    return f"**A second text.** {' '.join(parts)}"


def _tokens(found: Mapping[str, SizedResult], output: Path) -> str:
    """Returns the claims with arms that read few tokens for each parameter."""
    few = []
    for claim, one in found.items():
        runs = read_table(output / one.name / "runs.csv")
        known = {arm["name"]: tokens_per_parameter(arm, runs) for arm in one.result["arms"]}
        ratios = sorted(ratio for ratio in known.values() if ratio is not None and ratio < TOKENS_PER_PARAMETER)
        if ratios:
            which = "every arm" if len(ratios) == len(known) else f"{len(ratios)} of {len(known)} arms"
            span = f"{ratios[0]:.1f}" + (f" to {ratios[-1]:.1f}" if f"{ratios[-1]:.1f}" != f"{ratios[0]:.1f}" else "")
            few.append(f"{claim} ({which}: {span})")
    if not few:
        return ""
    return (
        f"**Tokens for each parameter.** At these sizes a plain decoder reads {TOKENS_PER_PARAMETER} bytes or "
        f"more per parameter. Deeper decoders and mixtures of experts have more parameters and read fewer: {_and(few)}."
    )


def _curves(found: Mapping[str, SizedResult]) -> str:
    """Returns the claims with tuning curves that their pages call into question."""
    lines = {claim: record_misfits(one.result) for claim, one in found.items()}
    parts = [
        f"{what} in {_and(claims)}"
        for what, beginning in (
            ("the F test rejects the curve of an arm", MISFIT),
            ("the best mean of an arm is that of the smallest or largest fitted value", AT_EDGE),
        )
        if (claims := [claim for claim, found in lines.items() if any(line.startswith(beginning) for line in found)])
    ]
    return f"**Curves.** Of the fitted curves, {_and(parts)}; the pages name the arms." if parts else ""


def _and(names: Sequence[str]) -> str:
    """Returns names as "a", "a and b" or "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
