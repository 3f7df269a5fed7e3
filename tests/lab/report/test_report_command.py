import argparse
import json
import os
import threading
import urllib.error
import urllib.request

import pytest

from zoo.cli.sweeps import report as command
from zoo.errors import ConfigError
from zoo.lab.report import build
from zoo.lab.report.server import Server, Site


@pytest.fixture
def run(monkeypatch, request):
    # Figures take most of the time of a report.
    if request.node.name != "test_report_writes_elsewhere":
        monkeypatch.setattr(build, "write_figures", lambda sweep, folder: [])
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))

    def call(*words):
        args = parser.parse_args([str(word) for word in words])
        return args.handler(args)

    return call


def test_report_prints_path_and_verdict(run, writer, capsys):
    folder = writer.sweep()
    assert run("report", folder) == 0
    *table, verdict, floors, path = [line for line in capsys.readouterr().out.splitlines() if line]
    assert floors == "floors: no floors"
    assert path == f"report: {folder / 'report.html'}"
    assert verdict.startswith("Supported (arms not tuned): norm=post+warm-up=100 ends 1.022 nats lower than")
    # The answer comes first.
    head = "arm seeds final eval/loss difference 95 % interval pairs times the tokens testable"
    assert table[0].split() == head.split()
    assert table[1].split() == ["norm=pre+warm-up=0", "3", "2.521", "±", "0.027", "baseline"]
    assert table[3].split()[5:9] == ["1.001", "0.975", "to", "1.027"]
    assert table[3].split()[-1] == "yes"


def test_any_arm_is_the_baseline(run, writer, capsys):
    folder = writer.sweep()
    for name in ("norm=post+warm-up=0", "norm=post,warm-up=0"):
        assert run("report", folder, "--baseline", name, "--json") == 0
        record = json.loads(capsys.readouterr().out)
        assert record["baseline"] == "norm=post+warm-up=0"
        assert [one["arm"] for one in record["differences"]] == [
            "norm=pre+warm-up=0",
            "norm=pre+warm-up=100",
            "norm=post+warm-up=100",
        ]
        # Arm minus baseline.
        assert record["differences"][0]["mean"] == pytest.approx(-1.0, abs=0.02)
        assert record["differences"][0]["testable"]
    assert '<option value="2" selected>norm=post+warm-up=0</option>' in (folder / "report.html").read_text()
    with pytest.raises(ConfigError, match="no arm has this name"):
        run("report", folder, "--baseline", "norm=pre+warm-up=1")


def test_report_writes_elsewhere(run, writer, tmp_path):
    assert run("report", writer.sweep(), "--output", tmp_path / "new" / "page.html") == 0
    assert (tmp_path / "new" / "page.html").exists()
    assert (tmp_path / "new" / "page" / "loss_by_step.png").exists()


def test_compare(run, writer, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = writer.run("b", final=2.0, config={"model": {"dim": 128}})
    assert run("compare", writer.run("a"), other) == 0
    assert (tmp_path / "comparison.html").exists()
    assert "lowest final eval/loss is 2, reached by" in capsys.readouterr().out


def test_arms_of_a_comparison_are_named_by_flags_or_folders(run, writer, tmp_path, capsys):
    two = [writer.run("first"), writer.run("second", config={"model": {"dim": 128}})]
    four = {"dim": 32, "depth": 9, "heads": 3, "norm": {"placement": "post"}}
    many = [writer.run(f"deep/seed-{seed}", seed=seed, config={"model": four}, final=3.0 + seed) for seed in (0, 1)]
    for words, names in (
        (two, ["dim=64+placement=pre", "dim=128"]),
        ([two[0], *many], ["first", "seed"]),
        (["--name", f"a={two[0]}", "--name", f"b={many[0]}", "--name", f"b={many[1]}"], ["a", "b"]),
        ([two[0], many[1], "--name", f"c={many[0]}"], ["first", "seed-1", "c"]),
    ):
        assert run("compare", *words, "--json", "--output", tmp_path / "page.html") == 0
        record = json.loads(capsys.readouterr().out)
        assert [arm["arm"] for arm in record["arms"]] == names
    assert record["arms"][2]["final"] == {"0": 3.0}
    with pytest.raises(ConfigError, match="--name a: two arms have this name"):
        run("compare", "--name", f"a={two[0]}", "--name", f"a={two[1]}")
    with pytest.raises(ConfigError, match="expected NAME=RUN"):
        run("compare", "--name", two[0].name)


def test_notes_are_kept_with_a_sweep(run, writer, capsys):
    folder = writer.sweep()
    assert run("report", folder, "--note", "the rate is <high>") == 0
    assert run("report", folder, "--note", "a second one", "--json") == 0
    record = json.loads(capsys.readouterr().out.partition("\n{")[2].join("{ "))
    assert [note.partition(": ")[2] for note in record["notes"]] == ["the rate is <high>", "a second one"]
    assert "the rate is &lt;high&gt;</li>" in (folder / "report.html").read_text()
    with pytest.raises(ConfigError, match="the note is empty"):
        run("report", folder, "--note", " ")


def test_json_contains_the_tables(run, writer, capsys):
    assert run("report", writer.sweep(), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["verdict"], record["progress"], record["baseline"]) == ("supported", "", "norm=pre+warm-up=0")
    assert record["differences"][1]["mean"] == pytest.approx(1.0, abs=0.02)
    assert record["differences"][1]["low"] < record["differences"][1]["mean"] < record["differences"][1]["high"]
    assert [effect["factors"] for effect in record["effects"]] == [["norm"], ["warm-up"], ["norm", "warm-up"]]
    assert [one["outcome"] for one in record["contrasts"]] == ["holds", "holds"]


def test_an_index_over_sweeps(run, writer, capsys):
    first, second = writer.sweep(folder="a", name="First"), writer.sweep(folder="b", name="<b>Second", broken=True)
    (writer.root / "c").mkdir()
    (writer.root / "c" / "experiment.json").write_text("{")
    writer.run("alone")
    assert run("report", writer.root) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(first / "report.html"), str(second / "report.html"), str(writer.root / "index.html")]
    page = (writer.root / "index.html").read_text()
    assert '<a href="./a/report.html">a</a>' in page
    assert "Unfinished, 11 of 12 runs" in page
    assert "ends 1.022 nats lower than" in page
    assert "experiment.json: not readable as JSON" in page
    assert "<script" not in page
    # Reports that are up to date are not written again.
    assert run("report", writer.root) == 0
    assert capsys.readouterr().out.split() == [str(writer.root / "index.html")]
    with pytest.raises(ConfigError, match="--json is for a single sweep"):
        run("report", writer.root, "--json")


def test_an_index_does_not_replace_another_page(run, writer):
    writer.sweep(folder="a", name="First")
    (writer.root / "index.html").write_text("<title>My lab</title>")
    with pytest.raises(ConfigError, match=r"index\.html is not an index of sweeps, and would be lost; rename it"):
        run("report", writer.root)
    assert (writer.root / "index.html").read_text() == "<title>My lab</title>"
    assert not (writer.root / "a" / "report.html").exists()


def test_a_folder_of_sweeps_is_served(writer):
    writer.sweep(folder="a b", name="First")
    with Server(Site(writer.root), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def page(path):
            with urllib.request.urlopen(server.address + path) as answer:
                return answer.read().decode()

        assert '<a href="./a%20b/">a b</a>' in page("")
        assert "<h1>First</h1>" in page("a%20b/")
        assert f'data-version="{page("a%20b/version")}"' in page("a%20b/")
        for missing in ("none/", "..%2f/", "a%20b/experiment.json"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                page(missing)
        server.shutdown()


def test_a_running_sweep_reports_its_progress(run, writer, capsys):
    folder = writer.sweep()
    for name, step in (("post-0-1", 100), ("post-0-2", 0), ("post-0-0", 0)):
        (folder / name / "status.json").write_text(json.dumps({"state": "running", "step": step, "steps": 200}))
        (folder / name / "metrics.jsonl").write_text("")
    # The others took 20 to 24 seconds of training; one of the three is half done.
    for path in folder.glob("*/*"):
        os.utime(path)
    assert run("report", folder) == 0
    assert "Running, 9 of 12 runs, about 20 s" in capsys.readouterr().out.splitlines()
    page = (folder / "report.html").read_text()
    assert "<h2>Running, 9 of 12 runs, about 20 s</h2><p>So far: <span class=" in page
    assert "no pair yet" in page
    assert "Undecided" not in page
    # A run whose process has ended writes nothing any more.
    for path in folder.glob("post-0-*/*"):
        os.utime(path, (1e9, 1e9))
    assert run("report", folder) == 0
    assert "Unfinished, 9 of 12 runs" in capsys.readouterr().out.splitlines()


def test_bad_folders_are_refused(run, tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        run("report", tmp_path / "none")
    with pytest.raises(ConfigError, match="no such folder"):
        run("compare", tmp_path / "none")
    assert not list(tmp_path.iterdir())
