"""Tables in a real browser: they are sorted, filtered and saved."""

import csv

import pytest

from tests.lab.report.browser.pages import in_a_browser, open_page, texts
from tests.lab.report.lab_reports import write_page
from zoo.lab.results.comparison import load_comparison

pytestmark = in_a_browser


def test_tables_are_sorted_filtered_and_saved(page):
    page.click("#tab-runs")
    column = "[...document.querySelectorAll('#runs section:first-child tbody tr')].filter((row) => !row.hidden).map((row) => row.cells[4].textContent)"
    page.click("#runs section:first-child th .sort", 4)
    values = [text for text in page.run(column) if text != "–"]
    assert values == sorted(values)
    assert page.run(column)[-3:] == ["–", "–", "–"]
    page.run("document.querySelectorAll('#runs th .sort')[4].focus()")
    page.key("Enter")
    page.run("document.activeElement.click()")
    assert [text for text in page.run(column) if text != "–"] == values[::-1]
    assert page.run("document.querySelectorAll('#runs th')[4].getAttribute('aria-sort')") == "descending"
    page.click("#runs input")
    page.call("Input.insertText", text="post DONE")
    assert "4 of 12 rows" in texts(page, "#runs .tools span")
    for nth in range(3):
        page.click("#runs .tools button", nth)
    rows = list(csv.reader(page.downloaded("runs.csv").open(newline="")))
    assert rows[0][:4] == ["run", "arm", "seed", "state"]
    assert len(rows) == 5
    assert rows[1][1] == "norm=post+warm-up=0"
    markdown = page.downloaded("runs.md").read_text().splitlines()
    assert len(markdown) == 6
    assert markdown[1].startswith("|---|---|---:|")
    latex = page.downloaded("runs.tex").read_text()
    row = "post-0-0 & norm=post+warm-up=0 & 0 & done &"
    assert all(part in latex for part in ("\\toprule", "\\midrule", "\\bottomrule", "{llrlrrrrrrrl}", row))


def test_saved_cells_are_not_formulas_of_spreadsheets(browser, writer, tmp_path):
    reason = "-2+3+cmd|' /C calc'!A0"
    runs = [writer.run("plain"), writer.run("other", state="failed", stop=60, reason=reason)]
    open_page(browser, write_page(load_comparison(runs), tmp_path / "page.html").as_uri())
    for saved in browser.downloads.iterdir():
        saved.unlink()
    browser.click("#tab-runs")
    browser.click("#runs .tools button", 0)
    cells = [cell for row in csv.reader(browser.downloaded("runs.csv").open(newline="")) for cell in row]
    assert "'" + reason in cells
    assert reason not in cells


def test_csv_files_have_raw_numbers_and_one_value_in_each_cell(page):
    for saved in page.downloads.iterdir():
        saved.unlink()
    page.click("#tab-overview")
    page.click("#overview .of-table button", page.run(
        "[...document.querySelectorAll('#overview .of-table')].filter((it) => it.offsetParent).findIndex((it) => "
        "it.nextElementSibling.textContent.includes('lowest seen'))"
    ) * 3)  # fmt: skip
    rows = list(csv.DictReader(page.downloaded(".csv").open(newline="")))
    assert list(rows[0]) == ["arm", "norm", "warm-up", "parameters", "tokens / parameter", "final eval/loss, mean", "final eval/loss, SD",
                             "lowest seen", "unstable", "runs"]  # fmt: skip
    first = rows[0]
    assert (first["arm"], first["norm"], first["parameters"]) == ("norm=pre+warm-up=0", "pre", "1234567")
    finals = [2.5 + 0.02 * seed + noise for seed, noise in enumerate((-0.006, 0.001, 0.008))]
    assert float(first["final eval/loss, mean"]) == pytest.approx(sum(finals) / 3, abs=1e-12)
    assert 0.01 < float(first["final eval/loss, SD"]) < 0.05
    # An arm of which one run is left has no standard deviation: an empty cell.
    numbers = [row["final eval/loss, SD"] for row in rows]
    assert all(text == "" or float(text) > 0 for text in numbers)
    assert not any(
        "–" in value or "±" in value or "," in value for row in rows for value in row.values() if value != row["runs"]
    )
