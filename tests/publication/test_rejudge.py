"""Archived sweeps are judged again from the files in their folders."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from publication import archived_floors, archived_sweep
from publication.__main__ import main
from publication.archived_sweep import COMMAND, LEVEL, OPTION, RECORDED, SINGLE, find_looks, read_archived_sweep
from publication.rejudge import rejudge
from publication.results_index import build
from zoo.errors import DataError
from zoo.files import write_json
from zoo.lab.floors import run_floors
from zoo.lab.floors.record import RunFloors, floors_record
from zoo.lab.report.archive.experiment_page import TIMES_THE_TOKENS
from zoo.lab.report.archive.result_record import EARLIER_PROCEDURE, PROCEDURE, deciding_reason
from zoo.lab.results.baseline_differences import baseline_differences
from zoo.lab.results.noise import known_noise
from zoo.lab.results.verdict import judge
from zoo.lab.statistics.sequential import design_until_decided

# a - b is about -0.05, paired by seed.
LOSSES = {"kind=a": (1.95012, 1.93987, 1.96005), "kind=b": (2.00001, 1.99012, 2.00998)}
EXPERIMENT = """
from zoo.lab.experiment import Claim, Contrast, Experiment, Side

def get_experiment(size="tiny"):
    if size != "tiny":
        raise ValueError(size)
    contrast = Contrast(
        "a is lower", Side({"kind": "a", "one": "x"}), Side({"kind": "b", "one": "x"}), "superiority", MARGIN, "lower"
    )
    levels = {"a": {"optimizer.learning_rate": 0.1}, "b": {"optimizer.learning_rate": 0.2}}
    return Experiment(
        "kinds", "Which?", {"data.batch_size": 7}, {"kind": levels, "one": {"x": {}}},
        claim=Claim("A1", "s", "t"), contrasts=(contrast,),
    )
"""


def write_table(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_sweep(output, name="kinds", margin="", losses=LOSSES, **changes):
    """An archive as it was written before looks, claims and procedures were recorded."""
    (folder := output / name).mkdir(parents=True)
    arms = [
        {
            "name": arm,
            "overrides": {"optimizer.learning_rate": 0.1},
            "parameters": 1000,
            "configs": [f"{arm}{seed}" for seed in range(3)],
        }
        | {"mean": sum(values) / 3, "sd": 0.01, "seeds": 3}
        for arm, values in losses.items()
    ]
    result = {
        "name": name,
        "question": "Which?",
        "claim": {"id": "A1", "statement": "s", "source": "t"},
        "size": "tiny",
        "metric": "eval/loss",
        "unit": " nats",
        "seeds": [0, 1, 2],
        "verdict": "supported",
        "paragraph": "Supported: kind=a ends 0.050 nats below kind=b (95 % interval 0.049 to 0.051, 3 seeds).",
        "expected": ["lower"],
        "arms": arms,
        "warnings": [],
        "tuning": None,
        "command": ["zoo", "run", "experiments/kinds.py"],
        "commits": ["c" * 40],
        "tables": ["runs.csv", "contrasts.csv"],
        "pictures": [],
        **changes,
    }
    (folder / "result.json").write_text(json.dumps(result))
    runs = [
        {"arm": arm, "seed": seed, "state": "done", "step": 9, "tokens": 512, "seconds": 1, "eval/loss": value}
        for seed in range(len(losses["kind=a"]))
        for arm, values in losses.items()
        for value in [values[seed]]
    ]
    write_table(folder / "runs.csv", runs)
    contrast = {
        "contrast": "a is lower",
        "a": "kind=a",
        "b": "kind=b",
        "metric a": "eval/loss",
        "metric b": "eval/loss",
    }
    contrast |= {"a - b": -0.0500234, "low": -0.0506, "high": -0.0494, "pairs": 3}
    write_table(folder / "contrasts.csv", [contrast | {"rule": f"superiority: a below b{margin}", "outcome": "holds"}])
    return folder


def files_of(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.suffix in (".json", ".csv", ".md")}


def test_the_verdict_follows_from_the_archived_runs_and_the_earlier_one_is_kept(tmp_path):
    output = tmp_path / "results"
    # The archive says that the rule holds, and its runs refute it: a is lower by 0.05, not by 0.2.
    folder = write_sweep(output, margin=" by more than 0.2 nats")
    (output / "claims.csv").write_text("id,experiment,statement,source,page,published,direction,limits\nA1,,s,t,,,,\n")
    (line,) = rejudge(output, tmp_path)
    assert line == (
        "kinds: not supported, was supported; looks: a single one; no experiment file kinds.py; the rules are those of "
        "contrasts.csv; floors not known: no experiment file with its data"
    )
    result = json.loads((folder / "result.json").read_text())
    assert (result["verdict"], result["claims"], result["procedure"]) == (
        "not supported",
        {"A1": "not supported"},
        PROCEDURE,
    )
    (before,) = result["verdicts_before"]
    assert (before["procedure"], before["verdict"], before["claims"]) == (
        EARLIER_PROCEDURE,
        "supported",
        {"A1": "supported"},
    )
    assert before["outcomes"] == {"a is lower": "holds"}
    (row,) = read_table(folder / "contrasts.csv")
    assert row["outcome"] == "refuted"
    build(output)
    (changed,) = read_table(output / "changed_verdicts.csv")
    assert {name: changed[name] for name in ("claim", "experiment", "size", "before", "now")} == {
        "claim": "A1",
        "experiment": "kinds",
        "size": "tiny",
        "before": "supported",
        "now": "not supported",
    }
    assert "a − b is −0.0500" in changed["why"]
    page, text = (output / "changed_verdicts.md").read_text(), (folder / "README.md").read_text()
    assert "| A1 | [kinds](kinds/README.md) | tiny | supported | **not supported** |" in page
    assert "1 from supported to not supported" in page.replace("\n", " ")
    assert f"Judged before by {EARLIER_PROCEDURE}: supported.\n" in text
    assert "[Verdicts that changed, and why](changed_verdicts.md)" in (output / "README.md").read_text()
    # Another procedure that found the same is not among the earlier verdicts.
    write_json(folder / "result.json", result | {"procedure": "another procedure"})
    rejudge(output, tmp_path)
    build(output)
    again = json.loads((folder / "result.json").read_text())
    assert (again["procedure"], again["verdicts_before"]) == (PROCEDURE, [before])
    # Judged once more, nothing changes, and the earlier verdict is still the first one.
    first = files_of(output)
    rejudge(output, tmp_path)
    build(output)
    assert files_of(output) == first


def test_numbers_that_differ_by_rounding_alone_are_kept(tmp_path):
    folder = write_sweep(tmp_path / "results")
    rows = read_table(folder / "contrasts.csv")
    exact = {"a - b": "-0.0500267", "low": "-0.0502847", "high": "-0.0497253"}
    (found,) = judge(read_archived_sweep(folder, tmp_path).sweep).outcomes
    assert float(exact["a - b"]) == pytest.approx(found.difference.mean, abs=2e-5)
    low, high = found.difference.low, found.difference.high
    write_table(folder / "contrasts.csv", [rows[0] | exact | {"low": low + 1e-5, "high": high - 1e-5}])
    rejudge(folder.parent, tmp_path)
    (row,) = read_table(folder / "contrasts.csv")
    assert (row["a - b"], row["low"]) == (exact["a - b"], str(low + 1e-5))
    # Other numbers come from the runs.
    write_table(folder / "contrasts.csv", [row | {"low": low - 1e-3}])
    rejudge(folder.parent, tmp_path)
    assert float(read_table(folder / "contrasts.csv")[0]["low"]) == pytest.approx(low, rel=1e-5)


def test_differences_are_those_of_today_and_lose_a_worth_that_was_of_other_intervals(tmp_path):
    folder = write_sweep(tmp_path / "results")
    rejudge(folder.parent, tmp_path)
    (row,) = read_table(folder / "differences.csv")
    found = baseline_differences(read_archived_sweep(folder, tmp_path).sweep)["kind=b"]
    assert [float(row[name]) for name in ("difference", "low", "high")] == pytest.approx(
        [found.mean, found.low, found.high], rel=1e-5
    )
    result = json.loads((folder / "result.json").read_text())
    assert result["tables"] == ["runs.csv", "contrasts.csv", "differences.csv"]
    assert result["pictures"] == ["differences.png"]
    picture = (folder / "differences.png").read_bytes()
    worth = {TIMES_THE_TOKENS: "0.91 (0.85 to 0.97), extrapolated"}
    # Rounded otherwise, they stay as they are, and so does the picture.
    kept = [row | worth | {"low": str(float(row["low"]) + 1e-5), "p": "0.001"}]
    for low, expected in ((kept[0]["low"], worth[TIMES_THE_TOKENS]), ("0.01", "0.91, extrapolated")):
        write_table(folder / "differences.csv", [kept[0] | {"low": low}])
        (folder / "differences.png").write_bytes(b"")
        rejudge(folder.parent, tmp_path)
        (found,) = read_table(folder / "differences.csv")
        assert found[TIMES_THE_TOKENS] == expected
        assert found["low"] == (row["low"] if low == "0.01" else low)
        assert (folder / "differences.png").read_bytes() == (picture if low == "0.01" else b"")
    assert found["p"] == row["p"]


def test_looks_are_those_of_the_archive_the_option_the_command_or_the_level(monkeypatch):
    planned = {most: dict(design_until_decided(3, most).levels) for most in (5, 6, 10)}
    result = {"seeds": [0, 1, 2, 3], "paragraph": "(98.9 % interval 0 to 1, 4 seeds)", "command": []}
    until = ["zoo", "run", "x.py", "--until-decided", "--max-seeds", "6"]
    assert find_looks(result | {"looks": {"3": 0.03}}) == ({3: 0.03}, RECORDED)
    assert find_looks(result | {"looks": {}}) == ({}, RECORDED)
    assert find_looks(result, 5) == (planned[5], OPTION)
    assert find_looks(result | {"command": until}) == (planned[6], COMMAND)
    looks, origin = find_looks(result)
    assert origin == LEVEL
    assert looks == dict(design_until_decided(3, max(looks)).levels)
    assert f"{100 * (1 - looks[4]):.1f}" == "98.9"
    assert find_looks(result | {"command": ["zoo", "run", "x.py"]}) == ({}, SINGLE)
    assert find_looks(result | {"paragraph": "(95 % interval 0 to 1, 4 seeds)"}) == ({}, SINGLE)
    monkeypatch.setattr(archived_sweep, "MOST_SEEDS", 6)
    with pytest.raises(ValueError, match=r"no looks up to 6 seeds have a level of 99.9 % at 4; use --max-seeds"):
        find_looks(result | {"paragraph": "(99.9 % interval 0 to 1, 4 seeds)"})


def test_looks_are_recorded_with_their_origin(tmp_path):
    command = ["zoo", "run", "experiments/kinds.py", "--until-decided", "--max-seeds", "6"]
    folder = write_sweep(tmp_path / "results", command=command)
    for _ in range(2):
        (line,) = rejudge(folder.parent, tmp_path)
        result = json.loads((folder / "result.json").read_text())
        assert result["looks"] == {str(n): level for n, level in design_until_decided(3, 6).levels.items()}
        assert result["looks_from"] == COMMAND
        assert COMMAND in line
    assert read_archived_sweep(folder, tmp_path).sweep.alpha == design_until_decided(3, 6).levels[3]


def test_the_experiment_file_adds_what_the_archive_lacks_and_changes_no_rule(tmp_path):
    folder = write_sweep(tmp_path / "results", margin=" by more than 0.0123457 nats")
    path = tmp_path / "kinds.py"
    path.write_text(EXPERIMENT.replace("MARGIN", "0.012345678"))
    sweep = read_archived_sweep(folder, tmp_path).sweep
    (contrast,) = sweep.contrasts
    # The archive has six digits of the margin, and labels without the factor that has one level.
    assert contrast.margin == 0.012345678
    assert (contrast.a.arm, contrast.expected) == ("kind=a,one=x", "lower")
    assert [run.arm for run in sweep.runs[:2]] == ["kind=a,one=x", "kind=b,one=x"]
    assert sweep.runs[0].config["data"]["batch_size"] == 7
    # A rule that was changed since does not count.
    path.write_text(EXPERIMENT.replace("MARGIN", "0.5"))
    (contrast,) = read_archived_sweep(folder, tmp_path).sweep.contrasts
    assert (contrast.rule, contrast.margin) == ("superiority", 0.0123457)


def test_premises_that_the_experiment_file_declared_later_are_recorded_as_such(tmp_path):
    folder = write_sweep(tmp_path / "results")
    (tmp_path / "kinds.py").write_text(
        EXPERIMENT.replace("MARGIN", "0.0").replace('"t")', '"t", floor="unigram", floor_reason="it is early")')
    )
    for _ in range(2):
        rejudge(folder.parent, tmp_path)
        claim = json.loads((folder / "result.json").read_text())["claim"]
        assert claim == {
            "id": "A1", "statement": "s", "source": "t",
            "floor": "unigram", "floor_reason": "it is early", "premises_later": ["floor", "floor_reason"],
        }  # fmt: skip
    build(folder.parent)
    page = (folder / "README.md").read_text()
    assert "Claim A1: s (t). Floor: unigram, because it is early; declared after these runs.\n" in page
    index = (folder.parent / "README.md").read_text()
    assert "a floor or a control arm, was declared after the runs of [kinds](kinds/README.md). What" in index


def test_scores_of_tuning_and_how_arms_were_tuned_are_recorded(tmp_path):
    tuning = {"field": "optimizer.learning_rate", "factor": "learning_rate", "values": [0.1, 0.2], "seeds": [1000]}
    chosen = {"kind=a": 0.1, "kind=b": 0.2}
    folder = write_sweep(tmp_path / "results", tuning=tuning | {"chosen": chosen})
    rows = [
        {"arm": arm, "optimizer.learning_rate": value, "seed": 1000, "eval/loss": loss, "chosen": value == best}
        for arm, best in chosen.items()
        for value, loss in ((0.1, 2.25), (0.2, 2.5))
    ]
    write_table(folder / "tuning.csv", rows)
    rejudge(folder.parent, tmp_path)
    result = json.loads((folder / "result.json").read_text())
    scores = {"0.1": {"1000": 2.25}, "0.2": {"1000": 2.5}}
    assert result["tuning"] == tuning | {"chosen": chosen, "scores": {"kind=a": scores, "kind=b": scores}}
    assert result["tuned"] == "grid"
    # The table has five digits of a score, and the record all.
    result["tuning"]["scores"]["kind=a"]["0.1"]["1000"] = 2.250001234
    (folder / "result.json").write_text(json.dumps(result))
    rejudge(folder.parent, tmp_path)
    assert json.loads((folder / "result.json").read_text())["tuning"] == result["tuning"]
    other = write_sweep(tmp_path / "results", "kinds-medium", size="medium", tuning=tuning | {"tuned_at": "kinds"})
    plain = write_sweep(tmp_path / "results", "plain", commits=["a" * 40 + "-dirty"])
    other_result = json.loads((other / "result.json").read_text())
    other_result["tuning"]["chosen"] = chosen
    (other / "result.json").write_text(json.dumps(other_result))
    rejudge(folder.parent, tmp_path)
    assert json.loads((other / "result.json").read_text())["tuned"] == "at another size"
    found = json.loads((plain / "result.json").read_text())
    assert (found["tuned"], found["uncommitted"]) == ("none", True)
    build(folder.parent)
    assert "Settings: no setting was tuned.\n" in (page := (plain / "README.md").read_text())
    assert "**Uncommitted code.**" in page
    assert "is the best of a grid of 2 values by 1 run of each, in each arm.\n" in (folder / "README.md").read_text()
    assert "was tuned in another sweep (kinds) and not in this one.\n" in (other / "README.md").read_text()


def test_several_claims_have_verdicts_of_their_own(tmp_path):
    folder = write_sweep(tmp_path / "results", claim={"id": "A1, A2", "statement": "s", "source": "t"})
    (row,) = read_table(folder / "contrasts.csv")
    more = row | {"contrast": "b is lower", "a": row["b"], "b": row["a"], "claim": "A2", "outcome": "refuted"}
    write_table(folder / "contrasts.csv", [row | {"claim": "A1"}, more])
    rejudge(folder.parent, tmp_path)
    result = json.loads((folder / "result.json").read_text())
    assert result["claims"] == {"A1": "supported", "A2": "not supported"}
    assert result["verdict"] == "not supported"
    rejudge(folder.parent, tmp_path)
    build(folder.parent)
    assert read_table(tmp_path / "results/changed_verdicts.csv") == []


def test_the_command_refuses_in_one_line(tmp_path, capsys):
    folder = write_sweep(tmp_path / "results")
    output = ["--output", str(tmp_path / "results")]
    assert main(["rejudge", "kind", *output]) == 2
    assert "there is no result of kind (did you mean" in capsys.readouterr().err
    assert main(["rejudge", "kinds", *output]) == 0
    assert capsys.readouterr().out.startswith("kinds: supported; looks: a single one")
    (folder / "contrasts.csv").write_text((folder / "contrasts.csv").read_text().replace("superiority", "better"))
    before = files_of(tmp_path)
    assert main(["rejudge", *output]) == 2
    assert "not readable as an archived sweep" in (error := capsys.readouterr().err)
    assert error.count("\n") == 1
    assert files_of(tmp_path) == before


def test_archives_of_this_project_can_be_judged_again():
    results, experiments = (Path(__file__).parents[2] / name for name in ("docs/results", "experiments"))
    # One whose looks follow from the level of its intervals, and one with two claims.
    for name, looks in (("multi_query_recall", 6), ("norm_alone", 6)):
        found = read_archived_sweep(results / name, experiments)
        assert max(found.sweep.looks) == looks
        contrasts = read_table(results / name / "contrasts.csv")
        outcomes = judge(found.sweep).outcomes
        assert [one.contrast.name for one in outcomes] == [row["contrast"] for row in contrasts]
        assert [one.difference.mean for one in outcomes] == pytest.approx(
            [float(row["a - b"]) for row in contrasts], abs=4e-5
        )


def test_a_claim_that_no_seed_decides_is_judged_on_all_seeds(tmp_path):
    losses = {arm: (*values, values[0] - 0.1 * (arm == "kind=a")) for arm, values in LOSSES.items()}
    tuning = {"field": "optimizer.learning_rate", "factor": "learning_rate", "values": [0.1, 0.2], "seeds": [1000]}
    tuning |= {"chosen": dict.fromkeys(LOSSES, 0.1)}
    looks = {str(seeds): 0.03 for seeds in (3, 4)}
    folder = write_sweep(tmp_path / "results", losses=losses, seeds=[0, 1, 2, 3], looks=looks, tuning=tuning)
    (found,) = judge(read_archived_sweep(folder, tmp_path).sweep).outcomes
    assert (found.outcome, found.difference.n) == ("not tuned", 4)
    assert "kind=a is not tuned" in deciding_reason(found)


def test_arms_that_never_vary_tell_no_noise(tmp_path):
    losses = LOSSES | {"kind=c": (0.0, 0.0, 0.0), "kind=d": (0.0, 0.0, 0.0)}
    folder = write_sweep(tmp_path / "results", losses=losses)
    (found,) = judge(read_archived_sweep(folder, tmp_path).sweep).outcomes
    assert len(found.difference.errors) == 1


def test_floors_are_counted_once_and_decide_what_is_testable(tmp_path, monkeypatch):
    folder = write_sweep(tmp_path / "results")
    (tmp_path / "kinds.py").write_text(EXPERIMENT.replace("MARGIN", "0"))
    floors = RunFloors({"unigram": {"eval/loss": 3.0}, "5-gram": {"eval/loss": 1.5}}, {}, "counted on 10 tokens")
    counted = []

    def count(archived, say):
        counted.append(archived.sweep.name)
        return {arm.name: floors for arm in archived.sweep.arms}

    monkeypatch.setattr(archived_floors, "_count", count)
    for _ in range(2):
        rejudge(folder.parent, tmp_path)
        result = json.loads((folder / "result.json").read_text())
        assert result["claims"] == {"A1": "not testable"}
        assert result["floors"] == [
            {"name": "unigram", "scores": {"eval/loss": 3.0}},
            {"name": "5-gram", "scores": {"eval/loss": 1.5}},
        ]
        assert [arm["floors"] for arm in result["arms"]] == [floors_record(floors)] * 2
    assert counted == ["kinds"]
    (row,) = read_table(folder / "contrasts.csv")
    assert row["outcome"] == "not testable"
    assert row["reason"].startswith("no arm beats the 5-gram of 1.5")
    build(folder.parent)
    (changed,) = read_table(folder.parent / "changed_verdicts.csv")
    assert changed["why"] == f"a is lower: {row['reason']}"
    # A claim may name a lower floor in its experiment file, which says why.
    reason = 'Claim("A1", "s", "t", floor="unigram", floor_reason="It is about rules.")'
    (tmp_path / "kinds.py").write_text(EXPERIMENT.replace("MARGIN", "0").replace('Claim("A1", "s", "t")', reason))
    rejudge(folder.parent, tmp_path)
    result = json.loads((folder / "result.json").read_text())
    assert result["claims"]["A1"] != "not testable"
    assert result["claim"] == {
        "id": "A1", "statement": "s", "source": "t",
        "floor": "unigram", "floor_reason": "It is about rules.", "premises_later": ["floor", "floor_reason"],
    }  # fmt: skip


def test_floors_that_cannot_be_counted_are_not_known(tmp_path, monkeypatch):
    folder = write_sweep(tmp_path / "results")
    (line,) = rejudge(folder.parent, tmp_path)
    assert line.endswith("; floors not known: no experiment file with its data")
    (tmp_path / "kinds.py").write_text(EXPERIMENT.replace("MARGIN", "0"))

    def refuse(archived, say):
        raise DataError("data.source: x.txt does not exist")

    monkeypatch.setattr(archived_floors, "_count", refuse)
    (line,) = rejudge(folder.parent, tmp_path)
    assert line.endswith("; floors not known: data.source: x.txt does not exist")
    result = json.loads((folder / "result.json").read_text())
    assert "floors" not in result
    assert all("floors" not in arm for arm in result["arms"])
    assert result["verdict"] == "supported"


def test_floors_of_another_text_or_of_other_arms_are_told(tmp_path, monkeypatch):
    folder = write_sweep(tmp_path / "results", data=["read"])
    (tmp_path / "kinds.py").write_text(EXPERIMENT.replace("MARGIN", "0"))
    scores = {"unigram": {"eval/loss": 3.0}}
    fingerprint, names = ["read"], ["kind=a,one=x", "kind=b,one=x"]
    monkeypatch.setattr(
        archived_floors,
        "make_plan",
        lambda experiment: SimpleNamespace(
            runs=[SimpleNamespace(arm=SimpleNamespace(name=name), folder=name, config=None) for name in names]
        ),
    )
    dataset = SimpleNamespace(summary=lambda: {"fingerprint": fingerprint[0]})
    monkeypatch.setattr(archived_floors, "load_data", lambda plan, folder: dict.fromkeys(names, dataset))
    monkeypatch.setattr(run_floors, "run_floors", lambda config, dataset, say: RunFloors(scores, {}, "counted"))
    read = archived_floors.with_floors(read_archived_sweep(folder, tmp_path), print)
    assert {floors.note for floors in read.sweep.floors.values()} == {"counted"}
    assert read.missing == []
    fingerprint[0] = "another"
    other = archived_floors.with_floors(read_archived_sweep(folder, tmp_path), print)
    assert other.missing == ["counted, of another text than the archived runs have read"]
    assert {floors.note for floors in other.sweep.floors.values()} == set(other.missing)
    del names[1]
    changed = archived_floors.with_floors(read_archived_sweep(folder, tmp_path), print)
    assert changed.sweep.floors is None
    assert changed.missing == ["floors not known: the experiment file has no arm kind=b any more"]


def test_runs_that_count_as_diverged_tell_no_noise(tmp_path):
    losses = LOSSES | {"kind=c": (2.0, 2.01, 1.99), "kind=d": (2.1, 2.1, 2.12), "kind=e": (20.0, 30000.0, 500.0)}
    sweep = read_archived_sweep(write_sweep(tmp_path / "results", losses=losses), tmp_path).sweep
    (contrast,) = sweep.contrasts
    assert known_noise(sweep, contrast).sd > 1000
    limited = replace(sweep, contrasts=[replace(contrast, diverged_above=5.55)])
    assert known_noise(limited, contrast).sd < 0.03
    # So do differences that no claim states.
    before, after = (baseline_differences(one)["kind=b"] for one in (sweep, limited))
    assert before.high - before.low > 1000
    assert after.high - after.low < 0.2


@pytest.mark.parametrize(
    ("label", "factors"),
    [
        ("feed-forward=dense+optimizer=adamw", {"feed-forward": "dense", "optimizer": "adamw"}),
        ("norm=post, warm-up=0", {"norm": "post", "warm-up": "0"}),
        ("learns from=labels+KL", {"learns from": "labels+KL"}),
        ("learns from=labels+KL+rate=0.1", {"learns from": "labels+KL", "rate": "0.1"}),
    ],
)
def test_the_factors_of_an_arm_are_read_off_its_label(label, factors):
    arm = {"name": label, "overrides": {}, "parameters": 1000}
    assert archived_sweep._arm(arm, {label: label}).factors == factors
