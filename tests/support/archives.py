"""An archive of results, as `zoo results` writes it, for tests of its pages."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np

from zoo.lab.report.archive.results_index import ArchivedResult

CLAIM_COLUMNS = "id,experiment,statement,source,page,published,direction,limits"
"""The first line of claims.csv."""


CLAIMS = [
    ("A1", "", "a | b", "x 2020", "", "3 against 4 nats", "for", "It is small. It is short."),
    ("A2", "", "not run", "y 2021", ""),
    ("A4", "", "a property", "z 2022", ""),
    ("A5", "", "on a page", "w 2023", "page.md"),
]
"""Claims of the archive."""


def write_archive(folder: Path) -> Path:
    """Writes one result of the claim A1 into a folder and returns that: three arms, four seeds, the
    last run diverged.
    """
    rng = np.random.default_rng(0)
    (folder / "one").mkdir(parents=True)
    result = {
        "name": "one",
        "question": "Which?",
        "claim": {"id": "A1", "statement": "s", "source": "t"},
        "size": "tiny",
        "metric": "eval/loss",
        "unit": " nats",
        "seeds": [0, 1, 2, 3],
        "verdict": "supported",
        "paragraph": "Supported: yes.",
        "expected": [],
        "arms": [{"name": "x", "overrides": {}, "parameters": 1000, "mean": 2.0, "sd": 0.1, "seeds": 4}],
        "warnings": [],
        "sources": ["stdlib"],
        "objectives": ["causal"],
        "tables": [],
        "pictures": [],
    }
    (folder / "one/result.json").write_text(json.dumps(result))
    with open(folder / "one/runs.csv", "w") as file:
        writer = csv.writer(file)
        writer.writerow(["arm", "seed", "state", "tokens", "eval/loss", "eval/accuracy"])
        for arm in range(3):
            for seed in range(4):
                last = (arm, seed) == (2, 3)
                loss = "" if last else 2 + arm + seed / 2 + rng.normal() * 0.01
                writer.writerow([arm, seed, "diverged" if last else "done", 512, loss, ""])
    with open(folder / "one/contrasts.csv", "w") as file:
        names = [
            "contrast",
            "claim",
            "a",
            "b",
            "metric a",
            "metric b",
            "a - b",
            "low",
            "high",
            "pairs",
            "rule",
            "outcome",
        ]
        writer = csv.writer(file)
        writer.writerow(names)
        for number, outcome in enumerate(("holds", "refuted", "undecided", "holds")):
            sides = ["0", "1", "eval/loss", "eval/loss"]
            writer.writerow([f"contrast {number}", "", *sides, -0.0321, -0.05, -0.01, 4, "a below b", outcome])
        writer.writerow(["without pairs", "", *sides, "", "", "", 0, "a below b", "undecided"])
    (folder / "page.md").write_text("# A page\n")
    return folder


def archived(folder, claim, field, verdict, size="rung1", tuned="fitted"):
    """Returns a result with two arms of five seeds and six runs of tuning, of 1,000 tokens each."""
    name = f"{claim.lower()}-{size}"
    (folder / name).mkdir(parents=True)
    sides = {"metric a": "eval/loss", "metric b": "eval/loss", "a - b": -0.03, "low": -0.05, "high": -0.01, "pairs": 5}
    contrast = {"contrast": "lower", "claim": "", "a": "x", "b": "y", **sides, "rule": "r", "outcome": "holds"}
    rows = {
        "runs": [{"arm": arm, "seed": seed, "tokens": 1000} for arm in "xy" for seed in range(5)],
        "tuning": [{"arm": arm, "seed": seed} for arm in "xy" for seed in range(3)],
    }
    for table, lines in rows.items():
        with open(folder / name / f"{table}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)
    arms = [
        {"name": arm, "overrides": {field: arm, "optimizer.learning_rate": arm}, "parameters": 230_000} for arm in "xy"
    ]
    result = {
        "name": name,
        "claim": {"id": claim, "statement": "s", "source": "t"},
        "claims": {claim: verdict},
        "verdict": verdict,
        "size": size,
        "seeds": [0, 1, 2, 3, 4],
        "arms": arms,
        "tuned": tuned,
        "tuning": {"field": "optimizer.learning_rate"},
        "tables": ["runs.csv", "contrasts.csv", "tuning.csv"],
    }
    return ArchivedResult(name, claim, result, [contrast], row="", page="")


def write_claims(folder, claims):
    """Writes claims.csv; a claim may have fewer entries than there are columns."""
    with open(folder / "claims.csv", "w") as file:
        writer = csv.writer(file)
        writer.writerow(CLAIM_COLUMNS.split(","))
        writer.writerows([*claim, *("",) * (8 - len(claim))] for claim in claims)


def copy_result(output, name, contrasts=(), **changes):
    """Adds a result like that of the archive, with other entries and rows of contrasts.csv."""
    (output / name).mkdir()
    result = json.loads((output / "one/result.json").read_text()) | {"name": name, **changes}
    (output / name / "result.json").write_text(json.dumps(result))
    shutil.copy(output / "one/runs.csv", output / name / "runs.csv")
    if contrasts:
        with open(output / name / "contrasts.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, contrasts[0])
            writer.writeheader()
            writer.writerows(contrasts)


def write_measured(folder, record):
    """Writes the record of a measurement."""
    (folder / "measured/speed").mkdir(parents=True, exist_ok=True)
    (folder / "measured/speed/measured.json").write_text(json.dumps(record))
