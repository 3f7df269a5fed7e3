"""Lists of claims with their verdicts in pages written by hand.

A page names the claims, and `python -m publication results` makes the list below of the table in
docs/results/README.md:

    <!-- claims: P5, P6 -->

    - [P5](../results/README.md): RoPE scores depend only on i - j ...: **exact** ([1 test](...)).
    ...

    <!-- end of claims -->
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from zoo.errors import ConfigError, did_you_mean
from zoo.files import write_atomic
from zoo.lab.report.archive.experiment_page import PAGE

# id, claim, source, verdict, effect, size, published and where; other tables of the page have fewer.
_COLUMNS = 8
_BLOCK = re.compile(r"<!-- claims: (?P<ids>[^>]*?) -->\n.*?<!-- end of claims -->", re.DOTALL)
_VERDICT = re.compile(r"\*\*[^*]+\*\*(?: at \w+)?")
_LINK = re.compile(r"\]\(([^)]+)\)")


def claim_rows(results: Path) -> dict[str, list[list[str]]]:
    """Returns the cells of the rows of each claim in `results`/README.md, by its id."""
    found: dict[str, list[list[str]]] = {}
    for line in (results / PAGE).read_text(encoding="utf-8").splitlines():
        cells = line[2:-2].split(" | ")
        if re.match(r"\| [A-Z]+\d+ \| ", line) and len(cells) == _COLUMNS:
            found.setdefault(cells[0], []).append(cells)
    return found


def refresh_claims(page: Path, results: Path) -> None:
    """Writes the lists of claims of a page anew.

    Args:
        page: its path.
        results: the folder with the table of claims.

    Raises:
        ConfigError: the page names a claim that the table lacks.
    """
    text, rows = page.read_text(encoding="utf-8"), claim_rows(results)
    folder = Path(os.path.relpath(results, page.parent)).as_posix()
    written = _BLOCK.sub(lambda block: _list(page, block, rows, folder), text)
    if written != text:
        write_atomic(page, written)


def _list(page: Path, block: re.Match[str], rows: Mapping[str, Sequence[Sequence[str]]], folder: str) -> str:
    lines = []
    for claim in (each.strip() for each in block["ids"].split(",")):
        if claim not in rows:
            raise ConfigError(f"{page}: {folder}/{PAGE} has no claim {claim!r}{did_you_mean(claim, rows)}")
        verdicts = dict.fromkeys(judged(cells[3], cells[-1], folder) for cells in rows[claim])
        lines.append(f"- [{claim}]({folder}/{PAGE}): {rows[claim][0][1]}: {'; '.join(verdicts)}.")
    return "\n".join([block[0].partition("\n")[0], "", *lines, "", "<!-- end of claims -->"])


def judged(verdict: str, where: str, folder: str) -> str:
    """Returns a verdict, without the reasons that its page gives, and the link to that page.

    Args:
        verdict, where: cells of a row of `claim_rows`.
        folder: the path of the results from the page that is written.
    """
    short = found[0] if (found := _VERDICT.match(verdict)) else verdict
    link = _LINK.sub(lambda target: f"]({folder}/{PAGE if target[1].startswith('#') else ''}{target[1]})", where)
    return f"{short} ({link})" if link else short
