"""open_claims.md: claims that no experiment has decided with fitted settings, and what could."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from publication.changed_verdicts import wrapped
from publication.claims_table import ListedClaims
from publication.open_claims import SEEDS, OpenClaim, open_claims, other_open_claims
from publication.sizes import ClaimResult
from publication.sweep_costs import GpuThroughput, gpu_throughput
from zoo.files import write_atomic
from zoo.lab.formatting import count
from zoo.lab.report.archive.experiment_page import as_cell, described_size

PAGE = "open_claims.md"
_HEAD = (
    "# Open claims, and what could decide them",
    "",
    "Written by `python -m publication results` from the experiment files and the archive. An experiment is listed",
    "here until it has decided its claim, with settings fitted in each arm and at a size with enough tokens. Another",
    "experiment, such as one on another text, may have decided the claim before.",
    "",
)
_OTHERS = (
    "These experiments have no rung, or fit no setting: they pre-train a model and use it, measure what training does, "
    "or compare at rates that the claim names. A claim is listed unless its experiment has decided it at some size, "
    "which may be one that says little ([limits](limits.md)). The size is the smallest one above those of the archive."
)


def write_open_claims(
    folder: Path,
    listed: ListedClaims,
    results: Mapping[str, Sequence[ClaimResult]],
    archived: Sequence[Mapping[str, Any]],
    output: Path,
) -> Path | None:
    """Writes the page; returns its path, or None without an open claim.

    Args:
        folder: of the experiment files.
        listed: from `publication.claims_table.read_claims`.
        results: the results of each experiment, by the claim's id.
        archived: the result.json of all archived experiments.
        output: the folder of the archive.
    """
    found, others = open_claims(folder, listed, results), other_open_claims(folder, listed, results)
    if not found and not others:
        return None
    throughput = gpu_throughput(archived, output)
    lines = [*_HEAD, wrapped(_costs(throughput)), "", *_table(found, throughput, " --population")]
    if others:
        lines += ["", "## Without a rung or without a fit", "", wrapped(_OTHERS), "", *_table(others, throughput)]
    write_atomic(output / PAGE, "\n".join([*lines, ""]))
    return output / PAGE


def _costs(throughput: GpuThroughput) -> str:
    """Says what the numbers of runs, FLOPs and minutes are."""
    text = (
        f"Runs are the fewest with {SEEDS} seeds of each arm: a tuning whose minimum lies outside its values takes "
        "more. PFLOP are 10^15 FLOPs of their training. Where a claim stays undecided at one size, the next one is "
        "named."
    )
    if not throughput.device:
        return text
    parts = [
        f"{statistics.median(found) / 1e6:.1f} million tokens per second at {size} (from {min(found) / 1e6:.1f} to "
        f"{max(found) / 1e6:.1f}, {count(len(found), 'arm')}), {throughput.flops[size] / 1e12:.0f} TFLOP per second "
        "with the shared decoder"
        for size, found in throughput.tokens.items()
    ]
    return (
        f"{text} Minutes are those of training alone on {throughput.device}, at the median speed of what the archive "
        f"has from there: populations of {SEEDS} runs, which shared the device with other sweeps, read "
        f"{'; and '.join(parts)}. Other sizes are taken to train at the rate of {throughput.largest}; none of them has "
        "been timed."
    )


def _table(claims: Sequence[OpenClaim], throughput: GpuThroughput, options: str = "") -> Iterator[str]:
    columns = ("claim", "so far", "command", "runs", "PFLOP", *(["minutes"] if throughput.device else []))
    yield from (f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}")
    for one in claims:
        cells = (
            f"{one.claim} {one.statement}",
            f"[{one.seen.verdict}]({one.seen.name}/README.md) at {described_size(one.seen.result)}"
            if one.seen
            else "no result of this experiment",
            f"`zoo run {one.file}:{one.size} --seeds {SEEDS}{options}`",
            f"{one.cost.runs}",
            f"{one.cost.flops / 1e15:,.1f}",
            *([f"{throughput.minutes(one.cost, one.size):,.1f}"] if throughput.device else []),
        )
        yield f"| {' | '.join(map(as_cell, cells))} |"
