"""The command of docs/scaling_laws.md, on sweeps of a law that is known, and its table of coverage."""

import csv
from pathlib import Path

import pytest

from publication import law_coverage
from tests.lab.conftest import SweepWriter
from tests.lab.ladders import write_sweep
from zoo.cli.main import main

PAGE = (Path(__file__).parents[2] / "docs" / "scaling_laws.md").read_text(encoding="utf-8")
COMMANDS, OUTPUT = PAGE.split("```")[1], PAGE.split("```")[3]


def table():
    with open(law_coverage.DOCS / "comparisons" / "law_coverage.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_command_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (line,) = (line for line in COMMANDS.splitlines() if line.startswith("zoo law"))
    writer = SweepWriter(tmp_path / "runs")
    for place, folder in enumerate(word for word in line.split() if word.startswith("runs/")):
        write_sweep(writer, place, name=folder.removeprefix("runs/"), seeds=range(5))
    assert main(line.split()[1:]) == 0
    printed = capsys.readouterr().out
    assert [row.rstrip() for row in printed.splitlines()] == [row.rstrip() for row in OUTPUT.strip().splitlines()]
    assert (tmp_path / "muon.svg").stat().st_size > 10_000


def test_intervals_contain_the_truth_as_often_as_they_say():
    rows = table()
    assert [row["sizes"] for row in rows] == [*(str(one.sizes) for one in law_coverage.SETTINGS), "3 × 3 (N, D)"]
    for row in rows:
        shares = [float(row[name]) for name in ("loss", "slope", "times the compute") if row[name]]
        assert 93 <= min(shares) <= max(shares) <= 97, row
    assert f"| {' | '.join(rows[0].values())} |" in PAGE
    # Why seeds are not resampled.
    assert max(float(row["loss, seeds resampled"]) for row in rows if row["loss, seeds resampled"]) < 90


@pytest.mark.parametrize("place", [0, 3])
def test_simulating_again_gives_the_same_coverage(place):
    ladders = 60
    row = law_coverage.coverage_row(law_coverage.SETTINGS[place], ladders, 0)
    for name in ("loss", "slope", "times the compute"):
        if row[name]:
            # Three standard errors of a share of 95 % of 60.
            assert float(row[name]) >= 95 - 8.5
