"""`zoo run --tune` again, after the tuning of a sweep: with other fields, metrics, texts or rules."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.tuned_norms import FLAGS, PRE, RATE
from zoo.cli.main import main
from zoo.lab.launch.sweep_folder import carry_forward_warnings
from zoo.lab.results.caveats import sweep_caveats
from zoo.lab.results.sweep_results import load_sweep

FRESH = "use another --output, or --fresh to archive runs/norms"


@pytest.fixture
def searched(tuned):
    """The sweep as it is when tuning has ended, and no run of its arms has begun."""
    for path in Path("runs/norms").iterdir():
        if path.name != "tuning":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return tuned


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--set", "training.steps=41", "--set", "data.batch_size=4"), "training.steps=40 there and 41 here"),
        (("--set", "data.batch_size=4"), "data.batch_size=2 there and 4 here"),
        (("--tune", "optimizer.weight_decay=0.01,0.1,1"), "learning_rate, and not of optimizer.weight_decay"),
    ],
)
def test_a_finished_tuning_is_not_that_of_another_sweep(searched, more, text):
    tune = [word for pair in zip(FLAGS[::2], FLAGS[1::2], strict=True) if pair[0] != "--tune" for word in pair]
    flags = (*tune, *more) if "--tune" in more else (*FLAGS, *more)
    for dry in ((), ("--dry-run",)):
        code, _, err = searched(*flags, *dry)
        assert code == 2
        assert text in err
        assert FRESH in err
    assert [path.name for path in Path("runs/norms").iterdir()] == ["tuning"]


def test_a_finished_tuning_is_not_that_of_another_text(searched):
    run = next(Path("runs/norms/tuning").glob("*/status.json")).parent
    (run / "meta.json").write_text(json.dumps({"data": {"fingerprint": "0" * 64}}))
    code, _, err = searched(*FLAGS)
    assert code == 2
    assert "the text of data.source has changed since the run was trained (fingerprint 000000000000" in err


def test_a_finished_tuning_is_not_by_another_metric(searched):
    path = Path("runs/norms/tuning/experiment.json")
    path.write_text(path.read_text().replace('"metric": "eval/loss"', '"metric": "eval/bits_per_byte"'))
    code, _, err = searched(*FLAGS)
    assert code == 2
    assert "its values were chosen by eval/bits_per_byte, and not by eval/loss" in err


def test_an_arm_that_is_left_out_is_not_tuned_further(searched):
    """Otherwise the final runs of the other arms would wait for its unfinished search."""
    for folder in Path("runs/norms/tuning").glob("norm=post*seed1001"):
        shutil.rmtree(folder)
    text = Path("norms.py").read_text().replace('"pre", "post")', '"pre")')
    Path("norms.py").write_text(text.replace("(size=size,", "(size=size, contrasts=(), claim=None,"))
    code, out, err = searched(*FLAGS, "--dry-run")
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if "would be trained" in line] == [
        "dry run: 2 of 2 runs would be trained, 4 at a time, in runs/norms"
    ]


def test_rules_that_are_changed_after_tuning_are_reported(searched):
    text = Path("norms.py").read_text()
    Path("norms.py").write_text(
        text.replace("    return fake_run.experiment", "    one = fake_run.experiment")
        + "\n    from dataclasses import replace"
        + "\n    return replace(one, contrasts=tuple(replace(each, margin=0.3) for each in one.contrasts))\n"
    )
    assert searched(*FLAGS)[0] == 0
    caveats = sweep_caveats(load_sweep("runs/norms"))
    assert 'contrast "pre wins" changed after runs had finished; margin was 0.1, is 0.3' in caveats
    assert not any("changed after" in line for line in sweep_caveats(load_sweep("runs/norms/tuning")))


def test_rules_that_are_changed_between_rounds_of_tuning_are_reported(searched):
    """The record of tuning keeps what was stated first, and each change."""
    tuning = Path("runs/norms/tuning")
    planned = json.loads((tuning / "experiment.json").read_text())
    for margin in (0.2, 0.3):
        stated = json.loads(json.dumps(planned["stated"]))
        stated["contrasts"][0]["margin"] = margin
        written = carry_forward_warnings(tuning, planned | {"stated": stated})
        (tuning / "experiment.json").write_text(json.dumps(written))
    margins = ["margin was 0.1, is 0.2", "margin was 0.2, is 0.3"]
    assert [line.partition("; ")[2] for line in written["stated"]["warnings"]] == margins
    assert searched(*FLAGS)[0] == 0
    record = json.loads(Path("runs/norms/experiment.json").read_text())
    found = [line.partition("; ")[2] for line in record["warnings"] if "changed after" in line]
    assert found == [*margins, "margin was 0.3, is 0.1"]


def test_a_tuned_sweep_that_is_repeated_has_no_warning(tuned):
    before = Path("runs/norms/experiment.json").read_text()
    assert tuned(*FLAGS)[0] == 0
    assert Path("runs/norms/experiment.json").read_text() == before
    assert "changed after" not in before
    assert json.loads(Path("runs/norms/tuning/experiment.json").read_text())["stated"]["claim"]["id"] == "X1"


def test_a_finished_tuning_is_trained_longer_only_before_the_sweep_has_begun(zoo):
    """Else new values would be other runs than those that were begun."""

    def steps(folder):
        return {json.loads(path.read_text())["training"]["steps"] for path in Path(folder).glob("norm*/config.json")}

    curves = {"pre": (0.004, 2.0, 0.2), "post": (0.0021, 2.4, 0.1)}
    flags = (*FLAGS, "--set", "schedule.kind=constant")
    assert zoo(*flags, curves=curves)[0] == 0
    longer = (*flags, "--set", "training.steps=60")
    assert zoo(*longer, curves=curves)[0] == 0
    assert (steps("runs/norms/tuning"), steps("runs/norms")) == ({40}, {60})
    for folder in Path("runs/norms").glob("norm*"):
        shutil.rmtree(folder)
    assert "20 of 20 runs would be trained" in zoo(*longer, "--dry-run", curves=curves)[1]


def test_planned_looks_are_stated_before_tuning(searched):
    flags = (*FLAGS, "--until-decided", "--max-seeds", "3")
    for folder in Path("runs/norms").iterdir():
        shutil.rmtree(folder)
    assert searched(*flags)[0] == 0
    planned = json.loads(Path("runs/norms/experiment.json").read_text())
    assert list(planned["looks"]) == ["2", "3"]
    assert json.loads(Path("runs/norms/tuning/experiment.json").read_text())["stated"]["looks"] == planned["looks"]
    assert not any("changed after" in line for line in planned["warnings"])


def test_tuning_by_uncommitted_code_is_not_archived(tuned, capsys):
    run = next(Path("runs/norms/tuning").glob("*/status.json")).parent
    (run / "meta.json").write_text(json.dumps({"commit": "c" * 40 + "-dirty"}))
    assert main(["results", "runs/norms"]) == 2
    assert "1 of 24 runs were trained by uncommitted code" in capsys.readouterr().err


def test_a_baseline_is_one_of_the_arms_and_not_of_those_of_tuning(zoo):
    code, out, err = zoo(*FLAGS, "--baseline", "nope")
    assert (code, out) == (2, "")
    assert "--baseline nope: no arm has this name" in err
    assert not Path("runs").exists()
    curves = {"pre": (0.004, 2.0, 0.2), "post": (0.0021, 2.4, 0.1)}
    code, out, err = zoo(*FLAGS, "--baseline", "norm=pre", curves=curves)
    assert (code, err) == (0, "")
    assert Path("runs/norms/report.html").exists()
    assert RATE in json.dumps(json.loads(Path("runs/norms/experiment.json").read_text())["tuning"])
    assert PRE.replace(",", "+") + "-seed0" in {path.name for path in Path("runs/norms").iterdir()}
