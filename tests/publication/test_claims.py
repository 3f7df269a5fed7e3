"""The page of all results: the table of claims, the plot of all effects, and pages written by hand."""

import csv
import json
import shutil

import numpy as np
import pytest

from publication.claims_table import read_claims
from publication.results_index import build
from tests.support.archives import write_archive
from zoo.errors import ConfigError
from zoo.lab.statistics.sequential import detectable_effect

COLUMNS = "id,experiment,statement,source,page,published,direction,limits"
CLAIMS = [
    ("A1", "", "a | b", "x 2020", "", "3 against 4 nats", "for", "It is small. It is short."),
    ("A2", "", "not run", "y 2021", ""),
    ("A4", "", "a property", "z 2022", ""),
    ("A5", "", "on a page", "w 2023", "page.md"),
]


@pytest.fixture
def output(tmp_path):
    return write_archive(tmp_path / "docs")


def write_claims(folder, claims):
    with open(folder / "claims.csv", "w") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS.split(","))
        writer.writerows([*claim, *("",) * (8 - len(claim))] for claim in claims)


def test_every_claim_has_a_row(output, tmp_path):
    write_claims(output, CLAIMS)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_exact.py").write_text("def test_a4_it_is_so():\n")
    page = build(output, tests).read_text()
    assert "4 claims: 1 supported, 1 exact, 1 on a separate page, 1 not judged yet." in page
    rows = [line for line in page.splitlines() if line.startswith("| A")]
    assert rows[0] == (
        "| A1 | a \\| b | x 2020 | **supported** | contrast 1: -0.032 (-0.050 to -0.010); contrast 2: -0.032 (-0.050 to "
        "-0.010); without pairs: no finite pair; and 2 more | tiny, 4 seeds | agrees: 3 against 4 nats | [one](one/README.md) |"
    )
    assert rows[1] == "| A2 | not run | y 2021 | not judged yet |  |  |  |  |"
    assert rows[2] == "| A4 | a property | z 2022 | **exact** |  |  |  | [1 test](#exact-claims) |"
    assert rows[3] == "| A5 | on a page | w 2023 | see the page |  |  |  | [page.md](page.md) |"
    assert "![effects, with intervals](effects.png)" in page
    assert (output / "effects.png").read_bytes().startswith(b"\x89PNG")


def test_published_values_and_limits_can_be_given_per_experiment(output):
    own = ("A1", "one", "", "", "", "5 nats in another task", "mixed", "It asks half of the claim.")
    write_claims(output, [*CLAIMS, own])
    row = next(line for line in build(output).read_text().splitlines() if line.startswith("| A1"))
    assert "| 5 nats in another task |" in row
    page = (output / "one/README.md").read_text()
    assert "Published: 5 nats in another task." in page
    assert "It asks half of the claim." in page
    assert "It is small." not in page


def test_a_claim_is_counted_once_and_a_check_is_not(output):
    write_claims(output, [*CLAIMS, ("S2", "", "two names", "us", "", "", "check")])
    record = {"verdict": "undecided", "effect": "0.9 of the time", "device": "1 x cpu"}
    write_measured(output, record | {"claim": "A1"})
    assert "4 claims: 1 undecided, 1 on a separate page, 2 not judged yet." in build(output).read_text()
    write_measured(output, record | {"claim": "A1", "verdict": "not supported"})
    page = build(output).read_text()
    assert "4 claims: 1 not supported, 1 on a separate page, 2 not judged yet." in page
    assert "| S2 | two names | us | not judged yet |" in page


def test_the_index_counts_runs_and_hours(output):
    text = "arm,seed,state,tokens,seconds\na,0,done,1e6,3600\na,1,diverged,2e6,1800\na,2,failed,5e6,9000\n"
    (output / "one/runs.csv").write_text(text)
    (output / "one/tuning.csv").write_text("arm,x,seed\na,1,7\n")
    page = build(output).read_text()
    assert (
        "Experiments: 1, with 2.0 seeds on average. Different final runs: 2 (experiments share some: their tables have "
        "2 rows), 3 million tokens and 1.5 hours. Different runs that tuned a setting: 1 (1 rows)." in page
    )


def test_runs_that_experiments_share_are_counted_once(output):
    for name, arm, losses in (("one", "x", (1.5, 1.6)), ("two", "y", (1.5, 1.7)), ("three", "z", (1.5, 1.5))):
        if name != "one":
            shutil.copytree(output / "one", output / name)
        result = json.loads((output / "one/result.json").read_text())
        # The third one has other models, so its equal losses are a coincidence.
        size = 1000 if name != "three" else 2000
        result |= {"name": name, "arms": [result["arms"][0] | {"name": arm, "parameters": size}]}
        (output / name / "result.json").write_text(json.dumps(result))
        rows = [f"{arm},{seed},done,1e6,3600,{loss}" for seed, loss in enumerate(losses)]
        (output / name / "runs.csv").write_text("\n".join(["arm,seed,state,tokens,seconds,eval/loss", *rows]))
        (output / name / "tuning.csv").write_text(f"arm,x,seed,eval/loss\n{arm},1,7,2.0\n{arm},2,7,2.{len(name)}\n")
    page = build(output).read_text()
    assert (
        "Different final runs: 5 (experiments share some: their tables have 6 rows), 5 million tokens and 5.0" in page
    )
    assert "Different runs that tuned a setting: 3 (6 rows)." in page


def test_a_note_stands_beside_the_verdict(output):
    with open(output / "claims.csv", "w") as file:
        writer = csv.writer(file)
        writer.writerow([*COLUMNS.split(","), "note"])
        writer.writerow([*CLAIMS[0], "of the small one alone"])
        writer.writerow(["S2", "", "two names", "us", "", "", "check", "", ""])
    (tests := output / "tests").mkdir()
    (tests / "test_exact.py").write_text("def test_a1_it_is_so():\n")
    page = build(output, tests).read_text()
    assert "| a \\| b | x 2020 | **exact** | " in page
    assert "| a \\| b | x 2020 | **supported**: of the small one alone | " in page
    assert "| agrees: 3 against 4 nats |" in page
    assert "\nListed below and not counted, as a check of the method: S2.\n" in page


def write_measured(folder, record):
    (folder / "measured/speed").mkdir(parents=True, exist_ok=True)
    (folder / "measured/speed/measured.json").write_text(json.dumps(record))


def test_a_measured_claim_has_a_row_and_is_counted_once(output, tmp_path):
    write_claims(output, CLAIMS)
    record = {"claim": "A4", "verdict": "not supported", "effect": "0.9 of the time", "device": "1 x cpu"}
    write_measured(output, record)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_exact.py").write_text("def test_a4_it_is_so():\n")
    page = build(output, tests).read_text()
    assert "4 claims: 1 supported, 1 not supported, 1 on a separate page, 1 not judged yet." in page
    rows = [line for line in page.splitlines() if line.startswith("| A4")]
    assert rows[0] == (
        "| A4 | a property | z 2022 | **not supported** | 0.9 of the time | 1 x cpu |  | [speed](measured/speed/README.md) |"
    )
    assert "**exact**" in rows[1]


def test_damaged_measurements_are_refused(output):
    write_measured(output, {"claim": "A4", "verdict": "supported"})
    with pytest.raises(ConfigError, match=r"measured.json: not readable as a measurement \(KeyError: 'effect'\)"):
        build(output)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,statement\nA1,x\n", "no column direction, experiment, limits, page, published, source"),
        (f"{COLUMNS}\nA1,,,,,,,\nA1,,,,,,,\n", "A1 is listed more"),
        (f"{COLUMNS}\nA1,,,,,,,\nA1,one,,,,,,\nA1,one,,,,,,\n", "A1 for one is listed more"),
        (f"{COLUMNS}\nA1,,,,,,up,\n", "direction up is not for, against, mixed, check or empty"),
        (f"{COLUMNS}\nA1,one,,,,,,\n", "A1 has no row without an experiment"),
        (f"{COLUMNS}\nA1,,,,,,,It is small, and short.\n", "A1 has more fields than columns"),
    ],
)
def test_bad_lists_of_claims_are_refused(output, text, message):
    (output / "claims.csv").write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_claims(output)


def test_the_page_of_an_experiment(output):
    write_claims(output, CLAIMS)
    build(output)
    page = (output / "one/README.md").read_text()
    assert page.startswith("# one: Which?\n\nClaim A1: s (t).\n\nPublished: 3 against 4 nats.\n")
    assert "**What could be wrong with it.** It is small. It is short." in page
    with open(output / "one/runs.csv", newline="") as file:
        runs = list(csv.DictReader(file))
    a, b = ([float(run["eval/loss"]) for run in runs if run["arm"] == arm] for arm in "01")
    smallest = detectable_effect(4) * np.std(np.subtract(a, b), ddof=1)
    row = "| contrast 0: 0 (a), 1 (b) | -0.032 | -0.050 to -0.010 | 4 | a below b | holds |"
    assert f"{row} {smallest:.2g} |" in page
    assert "| without pairs: 0 (a), 1 (b) | – | – | 0 | a below b | undecided |" in page


def test_each_claim_of_an_experiment_has_its_own_verdict(output):
    path = output / "one/result.json"
    result = json.loads(path.read_text())
    path.write_text(
        json.dumps(result | {"verdict": "not supported", "claim": {"id": "A1, A2", "statement": "s", "source": "t"}})
    )
    text = (output / "one/contrasts.csv").read_text()
    for number, claim in enumerate(("A1", "A2", "A2", "A1")):
        text = text.replace(f"contrast {number},,", f"contrast {number},{claim},")
    (output / "one/contrasts.csv").write_text(text.replace("without pairs,,", "without pairs,A2,"))
    write_claims(output, CLAIMS)
    rows = {line.split(" | ")[0]: line for line in build(output).read_text().splitlines() if line.startswith("| A")}
    assert "**supported** | contrast 0: -0.032 (-0.050 to -0.010); contrast 3: -0.032" in rows["| A1"]
    assert "**not supported** | contrast 1: -0.032" in rows["| A2"]


def test_a_table_of_a_page_can_have_means_over_seeds(output):
    rows = ["arm,seed,score,state", "a,0,0.5,done", "b,0,0.75,done", "a,1,0.7,done", "a,2,0.6,diverged"]
    (output / "runs.csv").write_text("\n".join(rows) + "\n")
    page = output / "page.md"
    page.write_text("<!-- table: runs.csv; columns: arm, score, state; by: arm -->\n<!-- end of table -->\n")
    build(output)
    assert "| a | 0.60 ± 0.10 | done, diverged |\n| b | 0.75 | done |\n" in page.read_text()


def test_tables_of_a_page_are_filled_from_data_files(output):
    (output / "numbers.csv").write_text("step,loss,note\n1,2.123456789,\n2,,a | b\n")
    page = output / "page.md"
    text = "# A page\n\n<!-- table: numbers.csv; columns: loss, step; where: loss -->\nold\n<!-- end of table -->\n"
    page.write_text(text + "<!-- table: numbers.csv -->\n<!-- end of table -->\nEnd.\n")
    build(output)
    one = "<!-- table: numbers.csv; columns: loss, step; where: loss -->\n\n| loss | step |\n| --- | --- |\n| 2.123 | 1 |\n\n<!-- end"
    assert one in page.read_text()
    assert "| 2 |  | a \\| b |\n\n<!-- end of table -->\nEnd.\n" in page.read_text()
    for wrong, message in (
        ("numbers.csv; columns: stepp", "no column 'stepp' .did you mean"),
        ("numbers.csv; rows: step", "'rows' is not one of columns, where, by"),
        ("numbers.csv; by: arm", "no column 'arm'"),
        ("none.csv", "none.csv cannot be read"),
    ):
        page.write_text(f"<!-- table: {wrong} -->\n<!-- end of table -->\n")
        with pytest.raises(ConfigError, match=message):
            build(output)
