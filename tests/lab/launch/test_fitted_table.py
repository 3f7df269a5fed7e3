"""At 40 and 80 columns, tables keep what tells arms apart and name the columns that they leave out."""

import io
import json
import sys

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.cli.sweeps import status
from zoo.lab.launch.fitted_table import print_fitted

ARMS = ("norm=pre+warm-up=0", "norm=pre+warm-up=10")


def printed(width, arms=ARMS, no_wrap=True):
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(Text("arm"))
    for name in ("parameters", "embedding", "tokens", "runs"):
        table.add_column(name, justify="right", no_wrap=no_wrap)
    for arm in arms:
        table.add_row(arm, "12,345,678", "1,234,567", "100 M", "3 done")
    console = Console(width=width, file=io.StringIO())
    print_fitted(console, table, ("embedding", "tokens", "parameters"))
    return console.file.getvalue()


@pytest.mark.parametrize(
    ("width", "left_out"), [(200, []), (55, ["embedding"]), (40, ["embedding", "tokens", "parameters"])]
)
def test_columns_are_dropped_by_name(width, left_out):
    text = printed(width)
    for arm in ARMS:
        assert arm in text
    assert text.count("3 done") == 2
    assert "…" not in text
    assert max(map(len, text.splitlines()[:3])) <= width
    line = f"not shown at {width} columns: {', '.join(left_out)} (--json has them)"
    assert (line in text.splitlines()) == bool(left_out)
    assert ("1,234,567" in text) == ("embedding" not in left_out)


def test_names_that_are_wider_than_the_terminal_are_folded_and_stay_apart():
    arms = [f"{'x' * 70}{number}" for number in (1, 2)]
    text = printed(40, arms)
    assert "…" not in text
    assert all(f"{number}" in text.replace("\n", "") for number in (1, 2))


def test_status_at_a_width(tmp_path, monkeypatch, command_line):
    runs = ["norm=pre+warm-up=0-seed0", "norm=pre+warm-up=10-seed0"]
    for run in runs:
        (tmp_path / "sweep" / run).mkdir(parents=True)
        record = {"state": "failed", "step": 12, "steps": 4000, "reason": "ValueError: " + "boom " * 20}
        (tmp_path / "sweep" / run / "status.json").write_text(json.dumps(record))
    (tmp_path / "sweep" / "experiment.json").write_text(
        json.dumps({"name": "x", "runs": [{"folder": run} for run in runs]})
    )

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def lines(width):
        monkeypatch.setenv("COLUMNS", str(width))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out := Terminal())
            assert status.run(type("Arguments", (), {"folder": tmp_path / "sweep", "json": False})()) == 0
        return out.getvalue().splitlines()

    narrow, wide = lines(40), lines(80)
    for found, width in ((narrow, 40), (wide, 80)):
        assert all(len(line) <= width for line in found[:3])
        assert all(any(line.startswith(f"{run} ") and "failed" in line for line in found) for run in runs)
    assert "not shown at 40 columns: last activity, step, reason (--json has them)" in narrow[3]
    assert "ValueError: b" in wide[1]
    assert "boom boom boom" in lines(200)[1]
