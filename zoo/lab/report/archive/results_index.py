"""Writes the pages about archived results: an index, and a page for each experiment. They are made of
the files that `zoo.lab.report.archive.sweep_tables` writes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import ConfigError, not_writable
from zoo.files import read_json, write_atomic
from zoo.lab.declarations import claim_order
from zoo.lab.report.archive.experiment_page import (
    PAGE,
    as_cell,
    described_size,
    experiment_page,
    read_contrasts,
    read_table,
)
from zoo.lab.report.archive.level_plot import write_level_plots
from zoo.lab.report.archive.noise_floor import NOISE_FILE

# An index that begins in another way was written by hand or by something else.
WRITTEN_HERE = "# Results\n\nWritten by `zoo results` "
HEAD = (
    f"{WRITTEN_HERE}from the tables in these folders. Each experiment has a page with its curves,",
    "differences, arms and command.",
    "",
)
# A run that diverged has trained too.
FINISHED = ("done", "diverged")


class ArchivedResult(NamedTuple):
    """An archived experiment.

    Attributes:
        name: of its folder.
        claim: id of its claim, "~" without one.
        result: its result.json.
        contrasts: the rows of its contrasts.csv.
        row: its row in a table of results.
        page: its page.
    """

    name: str
    claim: str
    result: dict[str, Any]
    contrasts: list[dict[str, str]]
    row: str
    page: str


def check_index(output: Path) -> None:
    """Raises ConfigError if the folder of an archive has a README.md of its own."""
    index = output / PAGE
    try:
        foreign = index.exists() and not index.read_text(encoding="utf-8", errors="replace").startswith(WRITTEN_HERE)
    except OSError as error:
        raise not_writable(index, error) from error
    if foreign:
        raise ConfigError(f"{index} was not written by zoo results; archive in another folder with --output")


def write_index(output: Path) -> Path:
    """Writes `output`/README.md about all archived results, and a page into each one's folder.

    Args:
        output: the folder that `archive_results` wrote to.

    Returns:
        The path of the index page.

    Raises:
        ConfigError: there is no such folder, a result in it cannot be read, or its README.md is not
            an index of `zoo results`.
    """
    results, index = read_results(output), output / PAGE
    noise = f"[The noise floor]({NOISE_FILE}): how small a difference an experiment of each size can find."
    lines = [*HEAD, *(results_table(results) if results else ()), *effort_lines(output / one.name for one in results)]
    lines += [noise, ""] if (output / NOISE_FILE).exists() else []
    check_index(output)
    try:
        write_experiment_pages(results, output)
        write_atomic(index, "\n".join(lines))
    except OSError as error:
        raise not_writable(index, error) from error
    return index


def read_results(
    output: Path, page: Callable[[Path, Mapping[str, Any]], str] = experiment_page
) -> list[ArchivedResult]:
    """Returns all archived results in the order of their claims.

    Args:
        output: the folder of the archive.
        page: makes the page of an experiment from its folder and its result.json.

    Raises:
        ConfigError: there is no such folder, or a result in it cannot be read.
    """
    if not output.is_dir():
        raise ConfigError(f"{output}: there is no such folder")
    results, problems = [], []
    for path in sorted(output.glob("*/result.json")):
        try:
            results.append(_read_result(path, page))
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            problems.append(
                f"{path}: not readable as a result ({type(error).__name__}: {str(error).partition(chr(10))[0]})"
            )
    if problems:
        raise ConfigError(problems)
    return sorted(results, key=lambda result: claim_order(result.claim))


def _read_result(path: Path, page: Callable[[Path, Mapping[str, Any]], str]) -> ArchivedResult:
    result, contrasts, folder = read_json(path), read_contrasts(path.parent), path.parent
    claim = (result.get("claim") or {}).get("id") or "~"
    text = page(folder, result)
    return ArchivedResult(folder.name, claim, result, contrasts, _row(folder.name, result), text)


def write_experiment_pages(results: Iterable[ArchivedResult], output: Path) -> None:
    """Writes the page of each experiment and the plots that are drawn from its tables."""
    for each in results:
        folder = output / each.name
        write_atomic(folder / PAGE, each.page)
        write_level_plots(each.result, read_table(folder / "runs.csv"), folder)


def results_table(results: Sequence[ArchivedResult]) -> list[str]:
    """Returns the lines of a table with a row for each experiment."""
    return ["| claim | verdict | result | size |", "| --- | --- | --- | --- |", *(each.row for each in results), ""]


def _row(name: str, result: dict[str, Any]) -> str:
    claim = result.get("claim") or {}
    text = f"{claim.get('id', '')} {claim.get('statement') or result['question']}".strip()
    found = result["paragraph"].split(": ", 1)[-1]
    return (
        f"| [{as_cell(text)}]({name}/{PAGE}) | **{result['verdict']}** | {as_cell(found)} | {described_size(result)} |"
    )


def effort_lines(folders: Iterable[Path]) -> list[str]:
    """Says how many runs the archived experiments took, and the tokens and hours of the final ones.

    Experiments share runs, which count once (`different_runs`). A tuning run is one for each seed and
    loss.
    """
    folders = list(folders)
    finals = [run for folder in folders for run in _final_runs(folder)]
    tried = [
        _outcome(folder, row)
        for folder in folders
        for table in sorted(folder.glob("tuning*.csv"))
        for row in read_table(table)
    ]
    if not finals:
        return []
    rows = [row for row, _ in different_runs(finals)]
    seeds = {(folder, row["seed"]) for folder in folders for row in read_table(folder / "runs.csv") if _ended(row)}
    hours = sum(float(row.get("seconds") or 0) for row in rows) / 3600
    tokens = sum(float(row.get("tokens") or 0) for row in rows) / 1e6
    return [
        f"Experiments: {len(folders):,}, with {len(seeds) / len(folders):.1f} seeds on average. Different final runs: "
        f"{len(rows):,} (experiments share some: their tables have {len(finals):,} rows), {tokens:,.0f} million tokens "
        f"and {hours:,.1f} hours. Different runs that tuned a setting: {len(set(tried)):,} ({len(tried):,} rows).",
        "",
    ]


class FinalRun(NamedTuple):
    """A row of runs.csv, and what says that it is the same run as another.

    Attributes:
        row: of runs.csv.
        keys: two runs that have one of these in common are one: the identity of the config with the
            seed, which older archives lack, and the seed with loss, tokens and number of parameters,
            because a setting that changes nothing may change the identity.
    """

    row: Mapping[str, str]
    keys: tuple[tuple[Any, ...], ...]


def different_runs(runs: Iterable[FinalRun]) -> list[FinalRun]:
    """Returns the first of all runs that are the same."""
    kept: list[FinalRun] = []
    known: set[tuple[Any, ...]] = set()
    for run in runs:
        if not known.intersection(run.keys):
            kept.append(run)
        known.update(run.keys)
    return kept


def _final_runs(folder: Path) -> Iterator[FinalRun]:
    result = read_json(folder / "result.json")
    arms, seeds = {arm["name"]: arm for arm in result["arms"]}, [str(seed) for seed in result["seeds"]]
    for row in filter(_ended, read_table(folder / "runs.csv")):
        arm = arms.get(row["arm"], {})
        identity = dict(zip(seeds, arm.get("configs") or (), strict=False)).get(row["seed"])
        keys = [(row.get("tokens"), arm.get("parameters"), *_outcome(folder, row))]
        yield FinalRun(row, tuple([*keys, (identity, row["seed"])] if identity else keys))


def _ended(row: Mapping[str, str]) -> bool:
    return row.get("state") in FINISHED


def _outcome(folder: Path, row: Mapping[str, str]) -> tuple[str, ...]:
    """Returns what tells a run from others: seed and loss, or without a loss its place."""
    loss = row.get("eval/loss")
    return (row["seed"], loss) if loss else (row["seed"], folder.name, *row.values())
