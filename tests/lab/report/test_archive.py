"""`zoo results`: the archive of the results of sweeps, and its pages."""

import csv
import json
import math
import re
import shutil
from pathlib import Path

import pytest

from tests.lab.report.lab_reports import write_report
from zoo.cli.main import main
from zoo.errors import ConfigError, ZooError
from zoo.files import read_json, write_json
from zoo.lab.report.archive.experiment_page import experiment_page
from zoo.lab.report.archive.result_record import JUDGED, PROCEDURE, finite_numbers, tuning_method, tuning_record
from zoo.lab.report.archive.results_index import write_index
from zoo.lab.report.archive.sweep_tables import archive_results
from zoo.lab.results.arm_effects import baseline_effects
from zoo.lab.results.sweep_results import load_sweep
from zoo.lab.results.tuning_grid import GridPoint, TuningGrid

ROOT = Path(__file__).parents[3]


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


PUBLISHED = []


@pytest.fixture
def output(writer, tmp_path_factory):
    """The results of a sweep, written once and copied for each test."""
    if not PUBLISHED:
        module_writer = type(writer)(tmp_path_factory.mktemp("published"))
        sweep = load_sweep(module_writer.sweep(name="norms", lengths=True))
        archive_results(sweep, module_writer.root / "results")
        PUBLISHED.append(module_writer.root)
    shutil.copytree(PUBLISHED[0], writer.root, dirs_exist_ok=True)
    return writer.root / "results"


def test_tables_contain_the_numbers_of_the_runs(writer, output):
    sweep = load_sweep(writer.root / "sweep")
    rows = rows_of(output / "norms" / "runs.csv")
    assert [(row["arm"], int(row["seed"])) for row in rows] == [
        (sweep.arm(run.arm).label, run.seed) for run in sweep.runs
    ]
    for row, run in zip(rows, sweep.runs, strict=True):
        assert float(row["eval/loss"]) == pytest.approx(run.final("eval/loss"), rel=1e-5)
        assert (row["state"], int(row["step"]), int(row["tokens"])) == ("done", 200, 200 * 1024)
    # A metric is empty for runs that lack it.
    assert {row["arm"] for row in rows if row["eval/loss@1024"]} == {"norm=post+warm-up=0", "norm=post+warm-up=100"}
    contrasts = rows_of(output / "norms" / "contrasts.csv")
    assert [row["contrast"] for row in contrasts] == ["post needs it", "pre does not"]
    differences = [
        run.final("eval/loss") - sweep.run("norm=post,warm-up=0", run.seed).final("eval/loss")
        for run in sweep.runs_of("norm=post,warm-up=100")
    ]
    assert float(contrasts[0]["a - b"]) == pytest.approx(sum(differences) / 3, rel=1e-5)
    assert contrasts[0]["outcome"] == "holds"


def test_the_verdict_of_runs_that_others_replace_is_kept(writer, output, monkeypatch):
    monkeypatch.setattr("zoo.lab.report.archive.sweep_tables.write_figures", lambda sweep, folder, kinds: [])
    path = output / "norms/result.json"
    first = json.loads(path.read_text())
    sweep = load_sweep(writer.root / "sweep")
    archive_results(sweep, output)
    assert "verdicts_before" not in json.loads(path.read_text())
    older = {"procedure": "a procedure", "verdict": "undecided", "claims": {}, "paragraph": "", "outcomes": {}}
    arms = [arm | {"configs": ["another", *arm["configs"][1:]]} for arm in first["arms"]]
    path.write_text(json.dumps(first | {"arms": arms, "verdict": "not supported", "verdicts_before": [older]}))
    archive_results(sweep, output)
    last = {name: first[name] for name in ("claims", "paragraph")} | {"verdict": "not supported"}
    outcomes = {row["contrast"]: row["outcome"] for row in rows_of(output / "norms/contrasts.csv")}
    kept = {"procedure": f"{PROCEDURE}, on other runs", **last, "outcomes": outcomes}
    record = json.loads(path.read_text())
    assert record["verdicts_before"] == [older, kept]
    names = list(record)
    assert names[names.index("seeds") :][1:6] == [*JUDGED]
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"norms/result.json cannot be read .* the verdict in it would be lost"):
        archive_results(sweep, output)


def test_only_the_files_of_the_earlier_archive_are_replaced(writer, output):
    folder = output / "norms"
    for name in ("notes.csv", "mine.png", "mine.svg"):
        (folder / name).write_text("mine")
    earlier = json.loads((folder / "result.json").read_text())
    (folder / "old.csv").write_text("of an earlier archive")
    (folder / "result.json").write_text(json.dumps(earlier | {"tables": [*earlier["tables"], "old.csv"]}))
    archive_results(load_sweep(writer.root / "sweep"), output)
    assert [(folder / name).read_text() for name in ("notes.csv", "mine.png", "mine.svg")] == ["mine"] * 3
    assert not (folder / "old.csv").exists()
    assert json.loads((folder / "result.json").read_text())["tables"] == earlier["tables"]


def test_an_archive_that_fails_leaves_the_earlier_one(writer, output, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    monkeypatch.setattr("zoo.lab.report.archive.sweep_tables.write_json", full)
    with pytest.raises(ZooError, match="No space left"):
        archive_results(load_sweep(writer.root / "sweep"), output)
    assert {path: path.read_bytes() for path in output.rglob("*") if path.is_file()} == before
    assert not list(output.rglob(".new*"))


def test_a_sweep_is_not_archived_in_its_own_folder(writer):
    sweep = writer.sweep(name="sweep")
    with pytest.raises(ConfigError, match="is the folder of a sweep; archive elsewhere with --output"):
        archive_results(load_sweep(sweep), sweep.parent)


def test_figures_and_verdict_are_archived(output):
    result = json.loads((output / "norms" / "result.json").read_text())
    assert result["verdict"] == "supported"
    assert result["tables"] == ["runs.csv", "contrasts.csv", "differences.csv"]
    assert sorted(result["pictures"]) == sorted(path.name for path in (output / "norms").glob("*.png"))
    assert not list((output / "norms").glob("*.svg"))


def test_the_provenance_of_the_numbers_is_recorded(writer):
    sweep = writer.sweep(name="norms")
    for number, meta in enumerate(sorted(sweep.glob("*/meta.json"))):
        record = json.loads(meta.read_text())
        record |= {"commit": "c" * 40, "identity": f"hash{number}", "processor": "A", "data": {"fingerprint": "f" * 64}}
        meta.write_text(json.dumps(record))
        config = json.loads(meta.with_name("config.json").read_text())
        config |= {"data": {"source": "text:/texts/a.txt"}, "objective": {"kind": "causal"}}
        meta.with_name("config.json").write_text(json.dumps(config))
    result = json.loads((archive_results(load_sweep(sweep), writer.root / "results") / "result.json").read_text())
    assert (result["commits"], result["data"], result["processor"]) == (["c" * 40], ["f" * 64], "A")
    assert (result["sources"], result["objectives"]) == (["text:a.txt"], ["causal"])
    hashes = [each for arm in result["arms"] for each in arm["configs"]]
    assert sorted(hashes) == sorted(f"hash{number}" for number in range(12))
    write_index(writer.root / "results")
    assert "1 x cpu (A)" in (writer.root / "results/norms/README.md").read_text()


def test_the_page_has_the_caveats_of_the_report(writer):
    sweep = writer.sweep(name="norms")
    for number, meta in enumerate(sorted(sweep.glob("*/meta.json"))):
        meta.write_text(json.dumps(json.loads(meta.read_text()) | {"commit": "ab"[number % 2] * 40}))
    archive_results(load_sweep(sweep), writer.root / "results")
    write_index(writer.root / "results")
    page = (writer.root / "results/norms/README.md").read_text()
    assert "* the runs used different commits: their results may differ for reasons other than the arms\n" in page


def test_local_paths_are_shortened_to_names(writer):
    sweep = writer.sweep(name="norms")
    record = json.loads((sweep / "experiment.json").read_text())
    record["arms"][0]["overrides"]["training.start_from"] = str(writer.root / "teacher")
    (sweep / "experiment.json").write_text(json.dumps(record))
    record["arms"][1]["overrides"]["objective.label_smoothing"] = math.nan
    (sweep / "experiment.json").write_text(json.dumps(record))
    text = (archive_results(load_sweep(sweep), writer.root / "results") / "result.json").read_text()
    assert '"training.start_from": "teacher"' in text
    # NaN, which JSON does not have, becomes null.
    assert '"objective.label_smoothing": null' in text
    assert str(writer.root) not in text


def test_a_name_that_leaves_the_archive_is_refused(writer):
    (writer.root / "precious.csv").write_text("kept")
    with pytest.raises(ConfigError, match="is used as a folder name"):
        archive_results(load_sweep(writer.sweep(name="..")), writer.root / "docs")
    assert (writer.root / "precious.csv").exists()


def test_losing_the_table_of_tuning_runs_is_refused(writer, output):
    (output / "norms/tuning.csv").write_text("arm,optimizer.learning_rate,seed,eval/loss,chosen\n")
    with pytest.raises(
        ConfigError, match=r"norms/tuning.csv would be lost, because .*sweep has no tuning runs; remove"
    ):
        archive_results(load_sweep(writer.root / "sweep"), output)
    assert (output / "norms/runs.csv").exists()


def test_the_page_shows_the_command(writer):
    command = [
        "zoo",
        "run",
        f"{writer.root}/experiments/x.py:teacher={writer.root}/runs/teacher",
        "--set",
        f"data.source=text:{writer.root}/a b.txt",
        "--set",
        "data.tokenizer.path=runs/x",
        "--set",
        "data.source=https://a.org/x",
    ]
    output = writer.root / "results"
    folder = archive_results(load_sweep(writer.sweep(name="norms", command=command)), output)
    write_index(output)
    page = (folder / "README.md").read_text()
    assert (
        "To repeat: `zoo run x.py:teacher=teacher --set 'data.source=text:a b.txt' --set data.tokenizer.path=runs/x "
        "--set data.source=https://a.org/x`, on 1 x cpu.\n"
    ) in page
    assert str(writer.root) not in page + (folder / "result.json").read_text()
    report = write_report(writer.root / "sweep").read_text()
    assert f"The whole sweep: <code>zoo run {writer.root}/experiments/x.py" in report


def test_a_page_without_a_recorded_command(writer, output):
    write_index(output)
    page = (output / "norms/README.md").read_text()
    assert "zoo run" not in page
    assert "Trained on 1 x cpu." in page
    for number, command in enumerate(("zoo run x.py", ["zoo", 3], {})):
        assert load_sweep(writer.sweep(folder=str(number), command=command)).command == []


def test_a_damaged_result_is_reported_in_one_line(output):
    path = output / "norms" / "result.json"
    whole = path.read_text()
    for damage in (
        {"question": None, "claim": None},
        {"arms": [{}]},
        {"seeds": 3},
        {"pictures": None},
        "[]",
        whole[:300],
    ):
        path.write_text(damage if isinstance(damage, str) else json.dumps(json.loads(whole) | damage))
        with pytest.raises(ConfigError, match=r"norms/result\.json: not readable as a result") as caught:
            write_index(output)
        assert len(caught.value.problems) == 1
        assert "\n" not in caught.value.problems[0]


def test_the_page_is_built_from_the_archive_alone(writer, output):
    shutil.rmtree(writer.root / "sweep")
    page = write_index(output).read_text()
    assert page == write_index(output).read_text()
    assert "| [N1 Post-norm needs warm-up, pre-norm does not](norms/README.md) | **supported** |" in page
    experiment = (output / "norms/README.md").read_text()
    assert "![loss by step of norms](loss_by_step.png)" in experiment
    assert "[runs.csv](runs.csv)" in experiment
    assert "| norm=post+warm-up=0 | 1,234,567 | 0.17 | 3.5" in experiment
    for target in ("norms/README.md", "norms/loss_by_step.png", "norms/runs.csv"):
        assert (output / target).exists()


def test_claims_are_in_order(output):
    result = json.loads((output / "norms" / "result.json").read_text())
    for name, claim in (("x", "N10"), ("y", "N2"), ("z", "A1"), ("w", None)):
        (output / name).mkdir()
        changed = {"name": name, "claim": claim and {"id": claim, "statement": "s", "source": "t"}}
        (output / name / "result.json").write_text(json.dumps(result | changed))
    page = write_index(output).read_text()
    places = [page.index(f"]({name}/README.md)") for name in ("z", "y", "x", "w")]
    assert places == sorted(places)


def test_an_unfinished_sweep_is_refused(writer):
    output = writer.root / "results"
    with pytest.raises(ConfigError, match="have not ended"):
        archive_results(load_sweep(writer.sweep(broken=True)), output)
    assert not output.exists()


def test_a_sweep_that_has_lost_its_curves_is_refused(writer):
    sweep, output = writer.sweep(name="norms"), writer.root / "results"
    next(sweep.glob("*/metrics.jsonl")).write_text("")
    with pytest.raises(ConfigError, match=r"1 of \d+ runs are done, but their metrics.jsonl has no values"):
        archive_results(load_sweep(sweep), output)
    assert not output.exists()


def test_the_command(writer, monkeypatch, capsys):
    monkeypatch.chdir(writer.root)
    sweep = writer.sweep(name="norms")
    assert main(["results", str(sweep)]) == 0
    assert capsys.readouterr().out.split() == ["results/norms", "results/README.md"]
    written = {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()}
    # A second call writes the same files and removes a file that is no longer written.
    (Path("results/norms") / "by_old.png").write_text("old")
    record = read_json(Path("results/norms/result.json"))
    write_json(Path("results/norms/result.json"), record | {"pictures": [*record["pictures"], "by_old.png"]})
    assert main(["results", str(sweep)]) == 0
    assert {path: path.read_bytes() for path in Path("results").rglob("*") if path.is_file()} == written
    Path("results/norms/result.json").write_text("{")
    capsys.readouterr()
    assert main(["results"]) == 2
    assert "results/norms/result.json: not readable as a result" in capsys.readouterr().err
    assert main(["results", "nowhere"]) == 2
    capsys.readouterr()
    # A page that is not an index of results is kept.
    (writer.root / "own").mkdir()
    Path("own/README.md").write_text("# Results of ours\n")
    assert main(["results", str(sweep), "--output", "own"]) == 2
    assert "own/README.md was not written by zoo results; archive in another folder" in capsys.readouterr().err
    assert Path("own/README.md").read_text() == "# Results of ours\n"
    assert [path.name for path in Path("own").iterdir()] == ["README.md"]
    # Two sweeps must not share a folder of the archive.
    assert main(["results", str(sweep), f"{sweep}/", "--output", "other"]) == 2
    assert capsys.readouterr().err == f"error: {sweep.resolve()} is given twice\n"
    shutil.copytree(sweep, "again")
    assert main(["results", str(sweep), "again", "--output", "other"]) == 2
    assert "2 of these sweeps are named norms" in capsys.readouterr().err
    assert not Path("other").exists()


def test_all_links_of_an_archive_exist(writer, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    output = writer.root / "elsewhere"
    sweep = writer.sweep(name="norms")
    (sweep / "notes.md").write_text("* 2026-01-02: as expected\n")
    assert main(["results", str(sweep), "--output", str(output), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["written"] == [str(output / "norms"), str(output / "README.md")]
    assert record["results"][0]["notes"] == ["2026-01-02: as expected"]
    for page in (output / "README.md", output / "norms" / "README.md"):
        links = re.findall(r"\]\(([^)#]+)", page.read_text())
        assert links
        assert all((page.parent / link).exists() for link in links), links
    rows = rows_of(output / "norms" / "differences.csv")
    assert [row["arm"] for row in rows] == ["norm=pre+warm-up=100", "norm=post+warm-up=0", "norm=post+warm-up=100"]
    assert float(rows[1]["difference"]) == pytest.approx(1.0, abs=0.02)
    page = (output / "norms" / "README.md").read_text()
    assert re.search(r"\| norm=post\+warm-up=0 \| (0\.99|1\.0)\d* \| 0\.\d+ to 1\.\d+ \| 0\.[^|]+ \| 3 \|", page)
    assert "* 2026-01-02: as expected" in page


@pytest.mark.parametrize("resumed", [False, True])
def test_results_of_uncommitted_code_are_refused_or_marked(writer, monkeypatch, capsys, resumed):
    monkeypatch.chdir(writer.root)
    sweep = writer.sweep(name="norms")
    for number, meta in enumerate(sorted(sweep.glob("*/meta.json"))):
        commit = {"commit": "c" * 40 + "-dirty" * (number == 1)}
        code = {"commit": "c" * 40, "resumed": [commit]} if resumed else commit
        meta.write_text(json.dumps(json.loads(meta.read_text()) | code))
    assert main(["results", str(sweep)]) == 2
    error = capsys.readouterr().err
    assert f"1 of 12 runs were trained by uncommitted code ({'c' * 40}-dirty)" in error
    assert "--allow-dirty, which marks the result" in error
    assert error.count("\n") == 1
    assert not Path("results").exists()
    assert main(["results", str(sweep), "--allow-dirty"]) == 0
    result = json.loads(Path("results/norms/result.json").read_text())
    assert (result["uncommitted"], result["commits"]) == (True, ["c" * 40, "c" * 40 + "-dirty"])
    assert f"**Uncommitted code.** Runs were trained by code with changes that are in no commit ({'c' * 40}-dirty)" in (
        Path("results/norms/README.md").read_text()
    )


def test_the_record_has_looks_and_the_verdict_of_each_claim(writer):
    contrasts = json.loads((writer.sweep(folder="first") / "experiment.json").read_text())["contrasts"]
    claim = {"id": "N7, N10", "statement": "s", "source": "t"}
    noise = {"eval/loss": {"sd": 0.01, "df": 40, "source": "earlier runs"}}
    # The second contrast holds the other way round.
    contrasts = [contrasts[0] | {"claim": "N7"}, contrasts[0] | {"name": "the reverse", "claim": "N10"}]
    contrasts[1] |= {"a": contrasts[0]["b"], "b": contrasts[0]["a"]}
    sweep = load_sweep(
        writer.sweep(name="norms", claim=claim, contrasts=contrasts, looks={"3": 0.02, "4": 0.03}, noise=noise)
    )
    folder = archive_results(sweep, writer.root / "results")
    result = json.loads((folder / "result.json").read_text())
    assert result["looks"] == {"3": 0.02, "4": 0.03}
    assert result["noise"] == {"eval/loss": {"sd": 0.01, "df": 40, "source": "earlier runs"}}
    assert result["claims"] == {"N7": "supported", "N10": "not supported"}
    assert (result["tuned"], result["tuning"], result["procedure"]) == ("none", None, PROCEDURE)
    assert "uncommitted" not in result
    assert [row["reason"] for row in rows_of(folder / "contrasts.csv")] == ["", ""]


def test_the_record_of_tuning_has_the_scores_and_the_fitted_curves():
    points = [GridPoint(0.001, {1000: 2.5, 1001: math.inf}), GridPoint(0.01, {1000: 2.25})]
    tuning = {"field": "optimizer.learning_rate", "chosen": {"kind=a": 0.01}}
    grid = TuningGrid("optimizer.learning_rate", "eval/loss", [1000, 1001], {"kind=a": points}, {"kind=a": 0.01})
    scores = {"kind=a": {"0.001": {"1000": 2.5, "1001": math.inf}, "0.01": {"1000": 2.25}}}
    assert tuning_record(tuning, grid) == tuning | {"scores": scores}
    assert finite_numbers(scores)["kind=a"]["0.001"]["1001"] is None
    assert tuning_record({}, None) is None
    curves = tuning | {"curves": {"kind=a": {"minimum": 0.008}}}
    assert tuning_record(curves, grid)["curves"] == curves["curves"]
    # A second number has its scores beside its own entry.
    entry = {"field": "optimizer.weight_decay", "chosen": {"kind=a": 0.1}}
    other = TuningGrid(entry["field"], "eval/loss", [1000], {"kind=a": [GridPoint(0.1, {1000: 2.0})]}, entry["chosen"])
    two = tuning | {"further": [entry]}
    assert tuning_record(two, grid, [other])["further"] == [entry | {"scores": {"kind=a": {"0.1": {"1000": 2.0}}}}]
    assert tuning_record(two, grid)["further"] == [entry]
    found = [tuning_method(one) for one in ({}, tuning, curves, curves | {"tuned_at": "small"})]
    assert found == ["none", "grid", "fitted", "at another size"]


def test_pages_tell_tokens_per_parameter_and_times_the_tokens(writer, output):
    page = experiment_page(output / "norms", json.loads((output / "norms" / "result.json").read_text()))
    assert "| arm | parameters | tokens / parameter |" in page
    assert "| norm=pre+warm-up=0 | 1,234,567 | 0.17 |" in page
    # Beside all parameters stand those that a token uses, where some arm has others.
    result = json.loads((output / "norms" / "result.json").read_text())
    result["arms"][0]["active_parameters"] = 345_678
    sparse = experiment_page(output / "norms", result)
    assert "| arm | parameters | active | tokens / parameter |" in sparse
    assert "| norm=pre+warm-up=0 | 1,234,567 | 345,678 | 0.17 |" in sparse
    assert "| norm=post+warm-up=0 | 1,234,567 | 1,234,567 | 0.17 |" in sparse
    found = baseline_effects(load_sweep(writer.root / "sweep"))["norm=post,warm-up=0"].tokens
    assert "| arm | difference | interval | times the tokens | pairs | p (Holm) |" in page
    assert f"| {found.text} |" in page
    # Archives from before both have neither.
    rows = rows_of(output / "norms" / "differences.csv")
    with open(output / "norms" / "differences.csv", "w", newline="") as file:
        table = csv.DictWriter(file, [name for name in rows[0] if name != "times the tokens"], extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    (output / "norms" / "runs.csv").unlink()
    result = json.loads((output / "norms" / "result.json").read_text()) | {"expected": []}
    (output / "norms" / "contrasts.csv").unlink()
    page = experiment_page(output / "norms", result)
    assert "| arm | difference | interval | pairs | p (Holm) |" in page
    assert "| norm=pre+warm-up=0 | 1,234,567 |  |" in page
