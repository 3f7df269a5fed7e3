"""`zoo run --until-decided`, and changes of the analysis after runs have finished."""

import json

import pytest


def attempts(folder):
    return {path.parent.name: len(path.read_text()) for path in folder.glob("runs/norms/*/attempts")}


NOISE = {
    "post+warm-up=0": [2.0, 2.9, 2.5, 2.6, 2.6, 2.61, 2.59, 2.6],
    "pre+warm-up=0": [2.0] * 8,
    # The other arms tell how large the noise is.
    "post+warm-up=10": [3.0, 3.1, 2.9, 3.0, 3.05, 2.95, 3.0, 3.1],
    "pre+warm-up=10": [3.0, 2.9, 3.1, 3.0, 2.95, 3.05, 3.1, 3.0],
}


@pytest.fixture
def noise(monkeypatch):
    """Losses that show pre-norm to be better only with more than three seeds."""
    monkeypatch.setenv(
        "FAKE_LOSSES",
        json.dumps(
            {f"norm={arm}-seed{seed}": loss for arm, losses in NOISE.items() for seed, loss in enumerate(losses)}
        ),
    )


@pytest.mark.promise(reason="several sweeps are run")
def test_seeds_are_added_until_the_verdict_is_decided(zoo, folder, noise):
    code, out, err = zoo("norms.py", "--seeds", "3", "--until-decided", "--max-seeds", "8")
    assert (code, err) == (0, "")
    record = json.loads((folder / "runs/norms/experiment.json").read_text())
    seeds = len(record["seeds"])
    assert 3 < seeds < 8
    assert list(map(int, record["looks"])) == list(range(3, 9))
    assert out.count("Undecided (") == seeds - 3
    assert out.count("Supported (") == 1
    # The interval of a look is wider than that of a single look.
    assert f"({100 * (1 - record['looks'][str(seeds)]):.3g} % interval" in out.rpartition("Supported (")[2]
    assert set(attempts(folder).values()) == {1}
    assert not [line for line in record["warnings"] if "after runs" in line]
    # Repeating the command with its first or its final number of seeds changes nothing.
    for count in ("3", str(seeds)):
        assert zoo("norms.py", "--seeds", count, "--until-decided", "--max-seeds", "8")[0] == 0
        again = json.loads((folder / "runs/norms/experiment.json").read_text())
        assert (again["looks"], again["seeds"], again["warnings"]) == (
            record["looks"],
            record["seeds"],
            record["warnings"],
        )
    assert set(attempts(folder).values()) == {1}


def test_a_sweep_goes_on_for_the_claims_that_are_open(zoo, folder, monkeypatch):
    """One claim is refuted by the first seeds, which says nothing about the other."""
    losses = {"post+warm-up=0": [2.0, 2.1, 2.05, 2.02], "pre+warm-up=0": [3.0, 3.1, 3.07, 3.01]}
    losses |= {"post+warm-up=10": [3.0, 3.3, 2.9, 3.1], "pre+warm-up=10": [3.1, 3.0, 3.2, 2.9]}
    named = {f"norm={arm}-seed{seed}": loss for arm, found in losses.items() for seed, loss in enumerate(found)}
    monkeypatch.setenv("FAKE_LOSSES", json.dumps(named))
    file = (folder / "norms.py").read_text().replace("fake_run.experiment(size=size)", "with_two_claims(fake_run)")
    file += """
def with_two_claims(fake_run):
    from dataclasses import replace
    from zoo.lab.experiment import Claim, Side
    one = fake_run.experiment()
    (first,) = one.contrasts
    sides = [Side({"norm": norm, "warm-up": "10"}) for norm in ("pre", "post")]
    second = replace(first, name="second", a=sides[0], b=sides[1], margin=0.0, claim="X2")
    return replace(one, claim=Claim("X1, X2", "s", "t"), contrasts=(replace(first, claim="X1"), second))
"""
    (folder / "claims.py").write_text(file)
    code, out, err = zoo("claims.py", "--seeds", "3", "--until-decided", "--max-seeds", "4")
    assert (code, err) == (0, "")
    assert out.count("X1 not supported; X2 undecided") == 2
    assert len(json.loads((folder / "runs/norms/experiment.json").read_text())["seeds"]) == 4


def test_max_seeds_can_leave_the_verdict_undecided(zoo, folder, noise):
    code, out, _ = zoo("norms.py", "--seeds", "2", "--until-decided", "--max-seeds", "3")
    assert code == 0
    assert len(json.loads((folder / "runs/norms/experiment.json").read_text())["seeds"]) == 3
    assert out.count("Undecided (") == 2
    assert zoo("norms.py", "--seeds", "4")[0] == 0
    record = json.loads((folder / "runs/norms/experiment.json").read_text())
    assert any(line.endswith("added after the last planned look: 3") for line in record["warnings"])


def test_a_dry_run_shows_what_the_seeds_find(zoo, folder, noise):
    out = zoo("norms.py", "--seeds", "3", "--dry-run")[1]
    assert "of the paired differences in 80 % of sweeps; what the SD is, no earlier sweep tells" in out
    zoo("norms.py", "--seeds", "3")
    code, out, _ = zoo("norms.py", "--seeds", "4", "--dry-run", "--json")
    planned, stored = json.loads(out), json.loads((folder / "runs/norms/experiment.json").read_text())
    assert code == 0
    assert [run["state"] for run in planned["runs"]].count("done") == len(stored["runs"])
    assert len(planned["runs"]) == len(planned["arms"]) * 4
    assert planned["folder"] == "runs/norms"
    assert planned["arms"][0]["parameters"] == stored["arms"][0]["parameters"]
    assert {"steps", "tokens", "optimizer", "data", "evaluation"} <= planned["arms"][0].keys()
    assert "--json needs --dry-run" in zoo("norms.py", "--json")[2]
    out = zoo("norms.py", "--seeds", "4", "--dry-run", "--noise-from", "runs/norms", "--output", "runs/more")[1]
    assert "with 4 seeds and noise of 0." in out
    assert "nats (SD of paired differences, the arms and seeds of norms), a difference of " in out
    assert "--noise-from runs/none" in zoo("norms.py", "--dry-run", "--noise-from", "runs/none")[2]


def test_late_changes_of_seeds_and_looks_are_reported(zoo, folder, noise):
    def late_changes():
        lines = json.loads((folder / "runs/norms/experiment.json").read_text())["warnings"]
        return [line for line in lines if "after runs had finished" in line]

    zoo("norms.py", "--seeds", "2")
    zoo("norms.py", "--seeds", "3")
    assert [line.split(";")[0] for line in late_changes()] == ["seeds changed after runs had finished"]
    zoo("norms.py", "--seeds", "3", "--until-decided", "--max-seeds", "3")
    assert [line.split()[0] for line in late_changes()] == ["seeds", "looks"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["norms.py", "--seeds", "1", "--until-decided"],
            "--until-decided needs at least 2 seeds to begin with, got 1",
        ),
        (
            ["norms.py", "--seeds", "4", "--until-decided", "--max-seeds", "3"],
            "--max-seeds 3 is fewer than the 4 seeds",
        ),
        (["norms.py", "--max-seeds", "3"], "--max-seeds needs --until-decided"),
        (["--config=small.py", "--seeds", "2", "--until-decided"], "has no contrasts"),
    ],
)
def test_impossible_looks_are_refused(zoo, folder, arguments, text):
    code, _, err = zoo(*arguments)
    assert code == 2
    assert text in err
    assert not (folder / "runs").exists()


def test_planned_looks_are_kept(zoo, folder, noise):
    zoo("norms.py", "--seeds", "2", "--until-decided", "--max-seeds", "3")
    code, _, err = zoo("norms.py", "--seeds", "2", "--until-decided", "--max-seeds", "5")
    planned = json.loads((folder / "runs/norms/experiment.json").read_text())["looks"]
    assert zoo("norms.py", "--seeds", "3")[0] == 0
    record = json.loads((folder / "runs/norms/experiment.json").read_text())
    # No command line gives these looks with these seeds.
    assert (record["looks"], record["command"]) == (planned, [])
    assert code == 2
    assert "were planned for at most 3 seeds" in err


def test_changed_contrasts_and_seeds_are_reported(zoo, folder):
    def warnings():
        return json.loads((folder / "runs/norms/experiment.json").read_text())["warnings"]

    path = folder / "norms.py"
    assert zoo("norms.py", "--seeds", "2")[0] == 0
    assert not [line for line in warnings() if "after runs had finished" in line]
    path.write_text(
        path.read_text().replace(
            "return fake_run.experiment(size=size)",
            """
    import dataclasses
    experiment = fake_run.experiment(size=size)
    return dataclasses.replace(experiment, contrasts=tuple(dataclasses.replace(contrast, margin=3.0) for contrast in experiment.contrasts))""",
        )
    )
    assert zoo("norms.py", "--seeds", "1")[0] == 0
    changed = [line for line in warnings() if "after runs had finished" in line]
    assert [line.split(";")[0] for line in changed] == [
        'contrast "pre wins" changed after runs had finished',
        "seeds changed after runs had finished",
    ]
    assert "margin was 0.1, is 3.0" in changed[0]
    assert zoo("norms.py", "--seeds", "1")[0] == 0
    assert [line for line in warnings() if "after runs had finished" in line] == changed


def test_seeds_that_are_added_to_a_sweep_without_rules_are_reported(zoo, folder):
    path = folder / "norms.py"
    path.write_text(path.read_text().replace("(size=size)", "(size=size, claim=None, contrasts=())"))
    for seeds in ("2", "3"):
        assert zoo("norms.py", "--seeds", seeds)[0] == 0
    warnings = json.loads((folder / "runs/norms/experiment.json").read_text())["warnings"]
    assert "seeds changed after runs had finished; added: 2, for which no interval allows" in warnings


def test_noise_is_that_of_earlier_sweeps_and_named_before_the_runs(zoo, folder, noise):
    assert zoo("norms.py", "--seeds", "2", "--output", "runs/earlier")[0] == 0
    assert zoo("norms.py", "--seeds", "3", "--noise-from", "runs/earlier")[0] == 0
    record = folder / "runs/norms/experiment.json"
    assert not [line for line in json.loads(record.read_text())["warnings"] if "changed after" in line]
    for inside in ("runs/norms", "runs/../runs/norms"):
        code, _, err = zoo("norms.py", "--seeds", "3", "--noise-from", inside)
        assert code == 2
        assert "noise has to be estimated from earlier sweeps" in err
    assert zoo("norms.py", "--seeds", "3")[0] == 0
    assert (
        "noise changed after runs had finished; before: the arms and seeds of earlier; now: no earlier sweep"
        in json.loads(record.read_text())["warnings"]
    )
    assert zoo("norms.py", "--seeds", "3", "--noise-from", "runs/norms", "--fresh")[0] == 2


def test_replaced_seeds_are_reported(zoo, folder):
    assert zoo("norms.py", "--seeds", "2")[0] == 0
    assert zoo("norms.py", "--seeds", "5,6")[0] == 0
    warnings = json.loads((folder / "runs/norms/experiment.json").read_text())["warnings"]
    assert any(line.startswith("seeds changed after runs had finished; left out now: 0, 1") for line in warnings)
