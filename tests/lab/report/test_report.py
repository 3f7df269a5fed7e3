import json
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.lab.report.lab_reports import write_comparison, write_report
from tests.support.full_disk import ERROR_MESSAGE, file_size_limit
from zoo.errors import ConfigError, ZooError
from zoo.lab.report.about import about
from zoo.lab.report.html_page import embed_json
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.sweep_results import load_sweep

SCRIPT = "<script>alert(1)</script>"
IMAGE = "\"'><img src=x onerror=alert(2)>"


class Elements(HTMLParser):
    """Collects every element with its attributes, the text outside of scripts, and the scripts."""

    def __init__(self, page: Path):
        super().__init__(convert_charrefs=True)
        self.elements, self.text, self.scripts = [], "", []
        self.inside = ""
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = tag if tag in ("script", "style") else ""

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)
        elif not self.inside:
            self.text += data


@pytest.fixture
def hostile(writer):
    """A comparison in which every free text tries to become markup."""
    first = writer.run(
        f"runs/{SCRIPT.replace('/', '')}",
        reason=SCRIPT,
        state="failed",
        meta={"command": SCRIPT + IMAGE, "commit": IMAGE},
        config={"model": {SCRIPT: IMAGE, "name": "<b>bold</b>", "formula": "$\\frac{"}},
    )
    model = {SCRIPT: "\ud800\u4e2d</script>", "name": "_x", "formula": "%{y}"}
    second = writer.run("runs/javascript:alert(3)", config={"model": model})
    return write_comparison([first, second], writer.root / "page.html")


def test_a_report_contains_all_sections(writer):
    page = Elements(
        write_report(writer.sweep(broken=True, lengths=True, warnings=["arms differ in parameters by 3 %"]))
    )
    headings = [tag for tag, _ in page.elements].count("h2")
    order = [
        "Norm placement",
        "Does post-norm need warm-up?",
        "trained for 4 min in 11 runs · 1 × cpu",
        "Unfinished, 11 of 12 runs",
        "So far: norm=post+warm-up=100",
        "Xiong et al. 2020",
        "Contrasts, stated before the runs",
        "Final eval/loss, nats minus that of norm=pre+warm-up=0",
        "Not testable: norm=post+warm-up=100: not finished: ",
        "arms differ in parameters by 3 %",
        "Arms",
        "1,234,567",
        "Learning curves",
        "Loss by evaluation length",
        "cannot be evaluated",
        "Differences from the baseline",
        "Factors",
        "Runs",
        "loss is not finite at step 122",
        "OSError: disk full",
        "Configs",
        "schedule.warmup_steps",
        "Commands",
        "zoo run --config.seed=2",
        "Conditions",
        "0.10.2",
    ]
    assert headings >= 9
    position = 0
    for part in order:
        assert part in page.text[position:], part
        position = page.text.index(part, position)
    for state in ("diverged", "failed", "missing"):
        assert any(attrs.get("class") == f"state {state}" for _, attrs in page.elements)
    assert "1 run not started: pre-100-2" in page.text


def test_tables_are_labelled(writer):
    page = Elements(write_report(writer.sweep(lengths=True)))
    assert {attrs["scope"] for tag, attrs in page.elements if tag == "th"} == {"col", "row"}
    tables = [tag for tag, _ in page.elements].count("table")
    assert tables == [tag for tag, _ in page.elements].count("caption") >= 7


def test_the_page_needs_no_network(writer):
    path = write_report(writer.sweep())
    page = Elements(path)
    policy = next(
        attrs["content"] for _, attrs in page.elements if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.count("sha256-") == 1
    assert "connect-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    for tag, attrs in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attrs
        # A page that came by mail has no neighbours: links stay inside it.
        assert "href" not in attrs or attrs["href"][1:] in {attrs.get("id") for _, attrs in page.elements}
    style = path.read_text().split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_numbers_in_the_page_are_those_of_the_runs(writer):
    folder = writer.sweep()
    page = Elements(write_report(folder))
    data = json.loads(page.scripts[0])
    sweep = load_sweep(folder)
    assert data["metrics"][:2] == ["eval/loss", "train/loss"]
    for arm, drawn in zip(sweep.arms, data["arms"], strict=True):
        assert drawn["label"] == arm.label
        finals = [run["curves"][0]["value"][-1] for run in drawn["runs"]]
        assert finals == pytest.approx([run.final("eval/loss") for run in sweep.runs_of(arm.name)], rel=1e-5)
        assert drawn["bands"][0]["mean"][-1] == pytest.approx(sum(finals) / 3, rel=1e-5)
        assert data["columns"][drawn["runs"][0]["curves"][0]["x"][0]] == list(range(0, 201, 20))
        assert data["columns"][drawn["runs"][1]["curves"][0]["x"][2]][-1] == pytest.approx(22)
    # All runs were evaluated at the same steps: one column stands for all of them.
    assert len({drawn["runs"][seed]["curves"][0]["x"][0] for drawn in data["arms"] for seed in range(3)}) == 1
    row = data["differences"][data["baseline"]]["rows"][1]
    assert row["mean"] == pytest.approx(sum(row["points"]) / 3)
    assert row["low"] < row["mean"] < row["high"]


def test_hostile_names_are_text(hostile):
    page = Elements(hostile)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not [tag for tag, _ in page.elements if tag in ("img", "b")]
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    assert all(attrs["href"].startswith("#run-") for _, attrs in page.elements if "href" in attrs)
    assert SCRIPT in page.text
    assert IMAGE in page.text
    assert "<b>bold</b>" in page.text


def test_hostile_titles_are_text(writer):
    claim = {"id": SCRIPT, "statement": IMAGE, "source": SCRIPT}
    page = Elements(
        write_report(
            writer.sweep(name=SCRIPT, question=SCRIPT, size=IMAGE, claim=claim, warnings=[IMAGE]), figures=True
        )
    )
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert "img" not in [tag for tag, _ in page.elements]


def test_embedded_json_cannot_leave_its_element():
    text = embed_json({"</script>": "<!--<script>&\u2028\u2029"})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"</script>": "<!--<script>&\u2028\u2029"}


def test_figures_are_written(writer):
    folder = writer.sweep(lengths=True, broken=True)
    write_report(folder, figures=True)
    images = sorted((folder / "report").iterdir())
    names = ["differences", "loss_by_length", "loss_by_step"]
    assert [image.name for image in images] == [f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    assert all(image.read_bytes().startswith(b"\x89PNG") for image in images if image.suffix == ".png")
    assert all("<svg" in image.read_text() for image in images if image.suffix == ".svg")


def test_the_same_runs_give_the_same_bytes(writer):
    folder = writer.sweep(lengths=True)
    first, second = (write_report(folder, folder / name / "page.html", figures=True) for name in "ab")
    # Only the relative links to the run folders could differ, and both pages are equally deep.
    assert first.read_bytes() == second.read_bytes()
    for image in (folder / "a" / "page").iterdir():
        assert image.read_bytes() == (folder / "b" / "page" / image.name).read_bytes()


def test_a_sweep_that_has_not_begun(writer):
    folder = writer.sweep()
    for run in folder.iterdir():
        if run.is_dir():
            shutil.rmtree(run)
    page = Elements(write_report(folder, figures=True))
    assert "No run has written a metric yet." in page.text
    assert "12 missing" in page.text


def test_a_running_sweep_without_evaluation(writer):
    arms = [{"name": name, "factors": {"norm": name}} for name in ("pre", "post")]
    runs = [{"folder": f"{name}-0", "arm": name, "seed": 0} for name in ("pre", "post")]
    folder = writer.sweep(folder="s", arms=arms, runs=runs, seeds=[0], contrasts=[])
    for run in runs:
        shutil.rmtree(folder / run["folder"], ignore_errors=True)
        (folder / run["folder"]).mkdir()
        (folder / run["folder"] / "status.json").write_text('{"state": "running", "step": 1, "steps": 9}')
        (folder / run["folder"] / "metrics.jsonl").write_text('{"step": 1, "train/loss": 5.5}\n{"st')
    page = Elements(write_report(folder, figures=True))
    assert "1 of 9" in page.text
    assert json.loads(page.scripts[0])["metrics"] == ["train/loss"]


def test_unequal_conditions_are_caveats(writer):
    folder = writer.sweep()
    meta = json.loads((folder / "pre-0-0" / "meta.json").read_text())
    meta["device"]["kind"] = "gpu"
    (folder / "pre-0-0" / "meta.json").write_text(json.dumps(meta))
    config = json.loads((folder / "post-0-1" / "config.json").read_text())
    config["model"]["dim"] = 65
    (folder / "post-0-1" / "config.json").write_text(json.dumps(config))
    (folder / "post-0-2" / "metrics.jsonl").write_text(
        "garbage\n" + (folder / "post-0-2" / "metrics.jsonl").read_text()
    )
    assert sweep_caveats(load_sweep(folder)) == [
        "the runs used different devices: their results may differ for reasons other than the arms",
        "runs of the arm norm=post+warm-up=0 differ in fields other than the seed: model.dim",
        "post-0-2: 1 line of metrics.jsonl could not be read and were skipped",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"commit": None}, "commits"),
        ({"commit": "a" * 40 + "-dirty"}, "commits"),
        ({"zoo": "0.0.1"}, "versions of zoo"),
        ({"processor": "another"}, "processors"),
    ],
)
def test_programs_that_resumed_a_run_are_part_of_its_conditions(writer, changes, words):
    folder = writer.sweep(name="norms")
    start = {"commit": "a" * 40, "zoo": "0.2.0", "processor": "EPYC"}
    for path in folder.glob("*/meta.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | start | {"resumed": [start]}))
    assert sweep_caveats(load_sweep(folder)) == []
    path = folder / "pre-0-0" / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"resumed": [start, start | changes]}))
    sweep = load_sweep(folder)
    assert sweep_caveats(sweep) == [
        f"the runs used different {words}: their results may differ for reasons other than the arms"
    ]
    shown = dict(about(sweep))
    assert ("with uncommitted changes" in shown["commit"]) == str(changes.get("commit")).endswith("-dirty")
    assert shown["zoo"] == "; ".join(dict.fromkeys(["0.2.0", changes.get("zoo", "0.2.0")]))


def test_runs_that_were_trained_longer_are_a_caveat(writer):
    folder = writer.sweep()
    for name in ("pre-0-0", "pre-0-1"):
        meta = json.loads((folder / name / "meta.json").read_text())
        extensions = [{"from": 100, "to": 200, "step": 100}, 3, {"from": "x"}]
        (folder / name / "meta.json").write_text(json.dumps(meta | {"extensions": extensions}))
    assert sweep_caveats(load_sweep(folder)) == [
        "2 runs trained longer than first planned, which may have been decided from results: pre-0-0, pre-0-1 "
        "(training.steps grew from 100 to 200 at step 100)"
    ]


def test_malformed_records_do_not_stop_a_report(writer):
    folder = writer.sweep()
    (folder / "pre-0-0" / "meta.json").write_text(
        '{"parameters": 3, "device": [1], "data": null, "versions": "x", "command": 7}'
    )
    (folder / "pre-0-1" / "config.json").write_text('{"data": 3, "model": [], "seed": "x"}')
    (folder / "pre-0-2" / "status.json").write_text(
        '{"state": "done", "step": "many", "steps": null, "reason": {"a": 1}}'
    )
    assert write_report(folder, figures=True).exists()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("page.txt", "is not an HTML file"),
        ("in/page", "name it .*/in/page.html"),
        ("file/page.html", "cannot be written"),
    ],
)
def test_bad_outputs_are_refused(writer, output, message):
    (writer.root / "file").write_text("")
    with pytest.raises(ConfigError, match=message) as caught:
        write_report(writer.sweep(), writer.root / output)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize("figures", [False, True])
def test_a_full_disk_is_reported_in_one_line(writer, figures):
    sweep = writer.sweep()
    with (
        file_size_limit(0),
        pytest.raises(ZooError, match=f"^output: .*page.html cannot be written: {ERROR_MESSAGE}") as caught,
    ):
        write_report(sweep, writer.root / "out" / "page.html", figures)
    assert caught.value.exit_code == 1
    assert not [path for path in (writer.root / "out").rglob("*") if path.is_file()]


@pytest.mark.promise(reason="another process is started")
def test_reading_needs_no_accelerator_library():
    code = (
        "import sys, zoo.cli.sweeps.report\nassert not {'scipy', 'matplotlib'} & set(sys.modules)\n"
        "import zoo.lab.report.build\nassert not {'jax', 'flax', 'optax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_page_says_when_on_what_and_by_which_code_its_runs_were_trained(writer):
    folder = writer.sweep()
    for number, path in enumerate(sorted(folder.glob("*/meta.json"))):
        meta = json.loads(path.read_text())
        started = {"started": f"2026-11-26T09:{10 + number}:30+00:00", "zoo": "0.1.0"}
        commit = {"commit": f"{'0123456789abcdef' * 2}{'-dirty' if number else ''}", "processor": "EPYC"}
        path.write_text(json.dumps(meta | started | commit))
    page = Elements(write_report(folder))
    assert (
        "26 November 2026, 09:10 to 09:21 UTC · trained for 4 min in 12 runs · 1 × cpu (EPYC) · zoo 0.1.0 · commit "
        "0123456789ab with uncommitted changes; 0123456789ab (clean)"
    ) in page.text
