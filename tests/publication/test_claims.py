"""The page of all results: the table of claims, the plot of all effects, and pages written by hand."""

import csv
import json
import shutil

import numpy as np
import pytest
from scipy import stats

from publication import results_index
from publication.claims_table import effects, read_claims
from publication.results_index import build
from tests.support.archives import CLAIM_COLUMNS, CLAIMS, copy_result, write_claims, write_measured
from zoo.errors import ConfigError
from zoo.lab.report.archive.experiment_page import read_table
from zoo.lab.statistics.sequential import detectable_effect


def test_every_claim_has_a_row(output, tmp_path):
    write_claims(output, CLAIMS)
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_exact.py").write_text("def test_a4_it_is_so():\n")
    page = build(output, tests).read_text()
    assert "4 claims: 1 supported, 1 exact, 1 on a separate page, 1 not judged yet." in page
    rows = [line for line in page.splitlines() if line.startswith("| A")]
    assert rows[0] == (
        "| A1 | a \\| b | x 2020 | **supported** | contrast 1: −0.032 (−0.050 to −0.010); contrast 2: −0.032 (−0.050 to "
        "−0.010); without pairs: no finite pair; and 2 more | tiny, 4 seeds, untuned | agrees: 3 against 4 nats | [one](one/README.md) |"
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
    text = "arm,seed,state,tokens,seconds\na,0,done,1000000,3600\na,1,diverged,2e6,1800\na,2,failed,5e6,9000\n"
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
        rows = [f"{arm},{seed},done,1000000,3600,{loss}" for seed, loss in enumerate(losses)]
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
        writer.writerow([*CLAIM_COLUMNS.split(","), "note"])
        writer.writerow([*CLAIMS[0], "of the small one alone"])
        writer.writerow(["S2", "", "two names", "us", "", "", "check", "", ""])
        writer.writerow([*CLAIMS[2], "", "", "", "of a bound alone"])
    (tests := output / "tests").mkdir()
    (tests / "test_exact.py").write_text("def test_a1_it_is_so():\ndef test_a4_it_is_so():\n")
    page = build(output, tests).read_text()
    assert "| a \\| b | x 2020 | **exact** | " in page
    assert "| a \\| b | x 2020 | **supported**: of the small one alone | " in page
    # A claim without runs has a note about its tests.
    assert "| a property | z 2022 | **exact**: of a bound alone | " in page
    assert "| agrees: 3 against 4 nats |" in page
    assert "\nListed below and not counted, as a check of the method: S2.\n" in page


def test_differences_in_other_units_than_nats_name_them():
    row = {"contrast": "faster", "a - b": "-813.8", "low": "-959.1", "high": "-668.7", "outcome": "holds"}
    assert effects([row | {"metric a": "steps_to/positions=rope"}]) == "faster: −814 steps (−959 to −669)"
    assert effects([row | {"metric a": "eval/loss"}]) == "faster: −814 (−959 to −669)"


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
        (f"{CLAIM_COLUMNS}\nA1,,,,,,,\nA1,,,,,,,\n", "A1 is listed more"),
        (f"{CLAIM_COLUMNS}\nA1,,,,,,,\nA1,one,,,,,,\nA1,one,,,,,,\n", "A1 for one is listed more"),
        (f"{CLAIM_COLUMNS}\nA1,,,,,,up,\n", "direction up is not for, against, mixed, check or empty"),
        (f"{CLAIM_COLUMNS}\nA1,one,,,,,,\n", "A1 has no row without an experiment"),
        (f"{CLAIM_COLUMNS}\nA1,,,,,,,It is small, and short.\n", "A1 has more fields than columns"),
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
    # The interval is wider than that of the pairs, and so is what can be found.
    half, sd = (0.05 - 0.01) / 2, np.std(np.subtract(a, b), ddof=1)
    smallest = detectable_effect(4) * sd * half / (stats.t.ppf(0.975, 3) * sd / 2)
    row = "| contrast 0: 0 (a), 1 (b) | −0.032 | −0.050 to −0.010 | 4 | a below b | holds |"
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
    assert "**supported** | contrast 0: −0.032 (−0.050 to −0.010); contrast 3: −0.032" in rows["| A1"]
    assert "**not supported** | contrast 1: −0.032" in rows["| A2"]


def test_a_table_of_a_page_can_have_means_over_seeds(output):
    rows = ["arm,seed,score,state", "a,0,0.5,done", "b,0,0.75,done", "a,1,0.7,done", "a,2,0.6,diverged"]
    (output / "runs.csv").write_text("\n".join(rows) + "\n")
    page = output / "page.md"
    page.write_text("<!-- table: runs.csv; columns: arm, score, state; by: arm -->\n<!-- end of table -->\n")
    build(output)
    assert "| a | 0.60 ± 0.10 | done, diverged |\n| b | 0.75 | done |\n" in page.read_text()


def test_tables_of_a_page_are_filled_from_data_files(output):
    (output / "numbers.csv").write_text("step,loss,note\n1,2.123456789,-0.24904\n2,,a | b\n3,,-0.5\n")
    page = output / "page.md"
    text = "# A page\n\n<!-- table: numbers.csv; columns: loss, step; where: loss -->\nold\n<!-- end of table -->\n"
    page.write_text(text + "<!-- table: numbers.csv -->\n<!-- end of table -->\nEnd.\n")
    build(output)
    one = "<!-- table: numbers.csv; columns: loss, step; where: loss -->\n\n| loss | step |\n| --- | --- |\n| 2.123 | 1 |\n\n<!-- end"
    assert one in page.read_text()
    assert (
        "| 1 | 2.123 | −0.2490 |\n| 2 |  | a \\| b |\n| 3 |  | −0.5 |\n\n<!-- end of table -->\nEnd.\n"
        in page.read_text()
    )
    for wrong, message in (
        ("numbers.csv; columns: stepp", "no column 'stepp' .did you mean"),
        ("numbers.csv; rows: step", "'rows' is not one of columns, where, by"),
        ("numbers.csv; by: arm", "no column 'arm'"),
        ("none.csv", "none.csv cannot be read"),
    ):
        page.write_text(f"<!-- table: {wrong} -->\n<!-- end of table -->\n")
        with pytest.raises(ConfigError, match=message):
            build(output)


def sized(output, **verdicts):
    """Adds the experiment "one" at other sizes, each with a verdict."""
    arm = json.loads((output / "one/result.json").read_text())["arms"][0]
    for number, (size, verdict) in enumerate(verdicts.items()):
        arms = [arm | {"parameters": (100, 10_000, 100_000)[number]}]
        copy_result(output, f"one-{size}", size=size, verdict=verdict, claims={"A1": verdict}, arms=arms)


def test_the_headline_is_the_largest_size_at_which_a_claim_was_decided(output):
    write_claims(output, CLAIMS)
    sized(output, micro="undecided", medium="not supported", large="not tuned")
    page = build(output).read_text()
    row = next(line for line in page.splitlines() if line.startswith("| A1"))
    assert "| **not supported** at medium (large: not tuned; tiny: supported; micro: undecided) |" in row
    assert "| medium, 4 seeds, untuned | disagrees: 3 against 4 nats |" in row
    assert row.endswith(
        "[one-medium](one-medium/README.md), [large](one-large/README.md), [tiny](one/README.md), "
        "[micro](one-micro/README.md) |"
    )
    assert "4 claims: 1 not supported, " in page


def test_a_claim_on_a_second_text_has_its_own_row_and_a_sentence_on_both(output, monkeypatch):
    drawn = []
    monkeypatch.setattr(results_index, "write_forest_plots", lambda effects, folder: drawn.extend(effects) or [])
    write_claims(output, CLAIMS)
    path = output / "one/result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sources": ["stdlib"]}))
    source = "text:texts/news.train.txt.gz"
    there = {"corpus": {"experiment": "one", "source": source}, "sources": [source], "command": ["zoo", "a=\n"]}
    rows = read_table(output / "one/contrasts.csv")
    copy_result(output, "one-on-news", rows, verdict="undecided", claims={"A1": "undecided"}, **there)
    page = build(output).read_text()
    assert "On several texts: at tiny A1 holds on stdlib; is undecided on news (one)." in page
    assert [label for label, _ in drawn if "contrast 1" in label] == ["A1 contrast 1", "A1 contrast 1, on news"]
    own, other = (line for line in page.splitlines() if line.startswith("| A1"))
    assert "| **supported** |" in own
    assert "| **undecided** |" in other
    assert "| tiny, 4 seeds, untuned, on news |" in other
    # The verdict on the claim is that on its own text, unless there is no other.
    assert "4 claims: 1 supported, " in page
    page = (output / "one-on-news/README.md").read_text()
    assert f"This is the experiment one on another text, `{source}`." in page
    assert "To repeat: `zoo $'a=\\n'`" in page
    write_claims(output, [(*claim[:6], "check") if claim[0] == "A1" else claim for claim in CLAIMS])
    assert "On several texts" not in build(output).read_text()
    shutil.rmtree(output / "one")
    write_claims(output, CLAIMS)
    assert "4 claims: 1 undecided, " in build(output).read_text()


def test_without_a_decision_the_headline_is_the_largest_size_that_could_decide(output):
    write_claims(output, CLAIMS)
    sized(output, micro="undecided", medium="not tuned")
    path = output / "one/result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"claims": {"A1": "not testable"}}))
    page = build(output).read_text()
    row = next(line for line in page.splitlines() if line.startswith("| A1"))
    assert "| **undecided** at micro (medium: not tuned; tiny: not testable) |" in row
    assert "4 claims: 1 undecided, " in page


def test_floors_of_a_part_of_the_training_say_so(output):
    path = output / "one/result.json"
    result = json.loads(path.read_text())
    arm = result["arms"][0]
    note = "counted on 1,000 training tokens"
    for found, shown in ((note, False), (f"{note}, the first of its training", True)):
        path.write_text(json.dumps(result | {"arms": [arm | {"floors": {"scores": {}, "best": {}, "note": found}}]}))
        build(output)
        line = f"Floors of an arm are {found}, which makes them too easy."
        assert (line in (output / "one/README.md").read_text()) is shown


def test_claims_with_the_same_runs_and_rules_count_once(output):
    sides = {"metric a": "eval/loss", "metric b": "eval/loss", "a - b": -0.03, "low": -0.05, "high": -0.01, "pairs": 4}
    rows = [
        {"contrast": name, "claim": "", "a": a, "b": "x", **sides, "rule": rule, "outcome": "holds"}
        for name, a, rule in (
            ("at depth 4", "y", "superiority: a below b"),
            ("at depth 8", "z", "superiority: a below b"),
            ("nearly", "y", "equivalence: a within 0.1 of b"),
        )
    ]
    arm = json.loads((output / "one/result.json").read_text())["arms"][0]
    arms = [arm | {"name": name, "configs": [f"{name}{seed}" for seed in range(4)]} for name in "xyz"]
    copy_result(output, "depths", rows[:2], claim={"id": "A2", "statement": "s", "source": "t"}, arms=arms)
    copy_result(output, "depth", rows[:1], claim={"id": "A4", "statement": "s", "source": "t"}, arms=arms)
    # The same runs under another rule are another result.
    copy_result(output, "near", rows[2:], claim={"id": "A5", "statement": "s", "source": "t"}, arms=arms)
    write_claims(output, [*CLAIMS[:3], ("A5", "", "near", "w 2023", "")])
    page = build(output).read_text()
    lines = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| A")}
    assert "| see A2: the same runs and rules |" in lines["| A4"]
    assert "[depths](depths/README.md)" in lines["| A4"]
    assert "**supported**" in lines["| A2"]
    assert "**supported**" in lines["| A5"]
    assert "3 claims: 3 supported." in page
    assert (
        "Listed below and not counted, because another claim has the same runs and rules: A4 (those of A2).\n" in page
    )
    # Without the configs of the runs nobody can tell.
    for name in ("depth", "depths"):
        path = output / name / "result.json"
        record = json.loads(path.read_text())
        path.write_text(json.dumps(record | {"arms": [one | {"configs": []} for one in record["arms"]]}))
    assert "4 claims: 4 supported." in build(output).read_text()


def test_runs_are_told_apart_by_config_and_seed(output):
    for name, configs, losses in (
        ("one", ["p", "q"], (1.5, 1.6)),
        # The same run, trained elsewhere to another loss; a run of another config.
        ("two", ["p", "r"], (1.51, 1.7)),
        # A setting that changes nothing may change the identity of a config.
        ("three", ["s", "t"], (1.5, 1.8)),
        ("old", [], (1.8, 1.9)),
    ):
        if name != "one":
            shutil.copytree(output / "one", output / name)
        result = json.loads((output / "one/result.json").read_text())
        arms = [result["arms"][0] | {"name": "x", "configs": configs}]
        (output / name / "result.json").write_text(json.dumps(result | {"name": name, "arms": arms, "seeds": [0, 1]}))
        rows = [f"x,{seed},done,1000000,3600,{loss}" for seed, loss in enumerate(losses)]
        (output / name / "runs.csv").write_text("\n".join(["arm,seed,state,tokens,seconds,eval/loss", *rows]))
    page = build(output).read_text()
    # 1.5 (p), 1.6, 1.7, 1.8 of seed 1, and of the old archive 1.8 with seed 0 and 1.9.
    assert "Different final runs: 6 (experiments share some: their tables have 8 rows), 6 million tokens" in page


def test_arms_below_counts_of_n_grams_are_named(output):
    page = output / "page.md"
    page.write_text("<!-- text: floors -->\n<!-- end of text -->\n")
    build(output)
    assert page.read_text() == "<!-- text: floors -->\n\n\n\n<!-- end of text -->\n"
    arm = json.loads((output / "one/result.json").read_text())["arms"][0]
    for name, means, size, tokens in (
        ("above", (1.7, 1.64), "tiny", 512_000),
        ("below", (1.63, 1.61), "tiny", 512_000),
        ("longer", (1.5, 1.4), "tiny", 1_024_000),
        ("larger", (1.5, 1.4), "rung1", 512_000),
        ("above-on-news", (1.5, 1.4), "tiny", 512_000),
    ):
        floors = {"scores": {"5-gram": {"eval/loss": 1.632}}}
        arms = [arm | {"name": f"k={number}", "mean": mean, "floors": floors} for number, mean in enumerate(means)]
        corpus = {"experiment": "above", "source": "text:news.txt"} if name.endswith("news") else {}
        copy_result(output, name, [], size=size, arms=arms, corpus=corpus)
        row = f"k=0,0,done,{tokens},1,1.7"
        (output / name / "runs.csv").write_text(f"arm,seed,state,tokens,seconds,eval/loss\n{row}\n")
    build(output)
    assert (
        "Experiments at `tiny` that score decoders by their loss after 512,000 tokens: 2. Those with an arm whose mean loss "
        "is below that of its 5-gram model: 1, below (k=1: 1.610 against 1.632 nats). The lowest arm of the others ends at "
        "1.640 nats (above, k=1)."
    ) in " ".join(page.read_text().split())


def test_counts_in_pages_written_by_hand_are_made_of_the_results(output, tmp_path):
    write_claims(output, CLAIMS)
    page, elsewhere = output / "page.md", tmp_path / "README.md"
    for path in (page, elsewhere):
        path.write_text("# A page\n\n<!-- text: counts -->\nold\n<!-- end of text -->\n\nEnd.\n")
    build(output, None, [elsewhere])
    text = "<!-- text: counts -->\n\n4 claims: 1 supported, 1 on a separate page, 2 not judged yet.\n\n<!-- end of text -->"
    for path in (page, elsewhere):
        assert path.read_text() == f"# A page\n\n{text}\n\nEnd.\n"
    names = ("silence", "changes", "settings")
    page.write_text("".join(f"<!-- text: {name} -->\n<!-- end of text -->\n" for name in names))
    build(output)
    assert "Of 1 archived experiments, 0 fitted the rates of their arms, 0 took" in page.read_text()
    assert "and 1 tuned nothing." in " ".join(page.read_text().split())
    assert "Of 1 that were judged on trained models" in page.read_text()
    assert "none of the 1 verdicts" in page.read_text()
    path = output / "one/result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"claims": {"A1": "not tuned"}}))
    build(output)
    assert "**About most of the claims the experiments say nothing**: of 1 that were" in page.read_text()
    page.write_text("<!-- text: count -->\n<!-- end of text -->\n")
    with pytest.raises(ConfigError, match=r"text 'count' is not one of counts.*did you mean"):
        build(output)
