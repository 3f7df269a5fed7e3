"""open_claims.md: claims that no experiment has decided with fitted settings, and what could."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from publication.changed_verdicts import wrapped
from publication.claims_table import CHECK, ListedClaims
from publication.fitted_claims import fitted_results
from publication.larger_sizes import LargerSize, larger_sizes
from publication.sizes import ClaimResult, SizedResult, result_of_file
from publication.verdict_order import DECIDED
from zoo.config import resolve
from zoo.errors import ConfigError
from zoo.files import write_atomic
from zoo.lab.declarations import claim_ids, claim_order
from zoo.lab.experiment import Experiment, load_experiment
from zoo.lab.formatting import count
from zoo.lab.planning.arm_resolution import count_cost
from zoo.lab.planning.tuning import arm_names, fewest_tuning_runs
from zoo.lab.report.archive.experiment_page import as_cell, described_size, read_table
from zoo.lab.sizes import RUNGS, decoder

PAGE = "open_claims.md"
SEEDS = 5
_HEAD = (
    "# Open claims, and what could decide them",
    "",
    "Written by `python -m publication results` from the experiment files and the archive. A claim is open here until",
    "an experiment with settings fitted in each arm, at a size with enough tokens, has decided it.",
    "",
)


class OpenClaim(NamedTuple):
    """A claim that an experiment could decide at one of the rungs.

    Attributes:
        experiment: at the size at which it should be run next.
        claim: the claim's id.
        statement: of the claim.
        file: its path.
        size: that size.
        seen: what has been found so far, if anything.
    """

    experiment: Experiment
    claim: str
    statement: str
    file: str
    size: str
    seen: SizedResult | None

    @property
    def runs(self) -> int:
        """The fewest runs of it: those of tuning and five seeds of each arm."""
        return fewest_tuning_runs(self.experiment) + SEEDS * len(arm_names(self.experiment))

    @property
    def tokens(self) -> int:
        """Tokens that one run reads."""
        config = resolve(self.experiment.base)
        return config.training.steps * config.data.batch_size * config.data.sequence_length


def open_claims(folder: Path, listed: ListedClaims, results: Mapping[str, Sequence[ClaimResult]]) -> list[OpenClaim]:
    """Returns the open claims of all experiment files that have rungs and fit a setting, in order."""
    found, known = [], {claim["id"]: claim for claim in listed.claims}
    for file in sorted(folder.glob("*.py")):
        sizes = list(_sizes(file))
        asks = sizes and sizes[0].claim and sizes[0].tunings
        for claim in claim_ids(sizes[0].claim.id) if asks else ():
            if known.get(claim, {}).get("direction") == CHECK:
                continue
            seen = result_of_file(results, claim, file.stem)
            fitted = next((one for _, one in fitted_results(seen)), None) if seen else None
            if fitted and fitted.verdict in DECIDED:
                continue
            following = RUNGS.index(fitted.result["size"]) + 1 if fitted else 0
            if following < len(sizes):
                size = RUNGS[following]
                statement = known.get(claim, {}).get("statement") or sizes[0].claim.statement
                path, last = f"{folder.name}/{file.name}", fitted or (seen and seen.headline)
                found.append(OpenClaim(sizes[following], claim, statement, path, size, last))
    return sorted(found, key=lambda one: claim_order(one.claim))


def _sizes(file: Path) -> Iterator[Experiment]:
    """Yields the experiment at each of the rungs that it has."""
    for size in RUNGS:
        try:
            yield load_experiment(f"{file}:{size}")
        except ConfigError:
            return


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
    found, larger = open_claims(folder, listed, results), larger_sizes(folder, listed, results, SEEDS)
    if not found and not larger:
        return None
    device, speeds = _gpu_speeds(archived, output)
    columns = ("claim", "so far", "command", "runs", "million tokens", *(["minutes"] if speeds else []))
    lines = [*_HEAD, _costs(device, speeds), "", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
    for one in found:
        cells = (
            f"{one.claim} {one.statement}",
            _so_far(one.seen),
            f"`zoo run {one.file}:{one.size} --seeds {SEEDS} --population`",
            f"{one.runs}",
            f"{one.runs * one.tokens / 1e6:,.0f}",
            *([_minutes(one, speeds)] if speeds else []),
        )
        lines.append(f"| {' | '.join(map(as_cell, cells))} |")
    if larger:
        lines += _larger_lines(larger, device, speeds)
    write_atomic(output / PAGE, "\n".join([*lines, ""]))
    return output / PAGE


def _larger_lines(larger: Sequence[LargerSize], device: str, speeds: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """Yields the section about experiments without rungs."""
    text = (
        "These experiments pre-train a model and use it, or have sizes of their own. Runs are those of pre-training, "
        f"of tuning where there is any, and {SEEDS} seeds of each arm; PFLOP are 10^15 FLOPs of their training."
    )
    rate = 0.0
    if speeds:
        size = max(speeds, key=RUNGS.index)
        rate = statistics.median(speeds[size]) * count_cost(resolve(decoder(size))).flops_per_token
        text += (
            f" Hours are those on {device} at {rate / 1e12:.0f} TFLOP per second, which the archived populations at "
            f"{size} reached there. Nothing of this table has been timed: X"
        )
    yield from ("", "## Without rungs", "", wrapped(text), "")
    columns = ("claim", "so far", "command", "runs", "PFLOP", *(["hours"] if rate else []))
    yield from (f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}")
    for one in larger:
        cells = (
            f"{one.claim} {one.statement}",
            _so_far(one.seen),
            f"`zoo run {one.file}:{one.size} --seeds {SEEDS}`",
            f"{one.runs}",
            f"{one.flops / 1e15:,.1f}",
            *([f"{one.flops / rate / 3600:.2f}"] if rate else []),
        )
        yield f"| {' | '.join(map(as_cell, cells))} |"


def _so_far(seen: SizedResult | None) -> str:
    if seen is None:
        return "no result"
    return f"[{seen.verdict}]({seen.name}/README.md) at {described_size(seen.result)}"


def _gpu_speeds(archived: Sequence[Mapping[str, Any]], output: Path) -> tuple[str, dict[str, list[float]]]:
    """Returns the device with the most arms of populations at the rungs, and {rung: tokens per second
    of each of these arms}; without any, an empty name.
    """
    speeds: dict[str, dict[str, list[float]]] = {}
    for result in archived:
        if result["size"] in RUNGS and "--population" in result.get("command", ()):
            arms: dict[str, list[tuple[float, float]]] = {}
            for row in read_table(output / result["name"] / "runs.csv"):
                arms.setdefault(row["arm"], []).append((float(row["tokens"]), float(row["seconds"])))
            device = f"{result['device']['count']} x {result['device']['kind']}"
            speeds.setdefault(device, {}).setdefault(result["size"], []).extend(
                sum(tokens for tokens, _ in rows) / max(seconds for _, seconds in rows) for rows in arms.values()
            )
    device = max(speeds, key=lambda name: sum(map(len, speeds[name].values())), default="")
    return device, speeds.get(device, {})


def _costs(device: str, speeds: Mapping[str, Sequence[float]]) -> str:
    """Says what the numbers of runs, tokens and minutes are."""
    text = (
        "Runs are the fewest: a tuning whose minimum lies outside its values takes more. Where a claim stays undecided "
        "at one size, the next one is named."
    )
    if speeds:
        parts = [
            f"{statistics.median(found) / 1e6:.1f} (from {min(found) / 1e6:.1f} to {max(found) / 1e6:.1f}) at {size}, "
            f"by {count(len(found), 'arm')}"
            for size, found in sorted(speeds.items())
        ]
        text += (
            f" Minutes are those of training on {device}, without compilation, at the median speed of what the archive "
            f"has from there: populations of {SEEDS} runs, which shared the device with other sweeps, read "
            f"{' and '.join(parts)}, in millions of tokens per second."
        )
    return wrapped(text)


def _minutes(one: OpenClaim, speeds: Mapping[str, Sequence[float]]) -> str:
    if one.size not in speeds:
        return ""
    return f"{one.runs * one.tokens / statistics.median(speeds[one.size]) / 60:.1f}"
