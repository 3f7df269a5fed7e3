"""Populations, runs of a sweep that train as one program: their members, the outcomes, and that runs
with different floating-point results are not mixed.
"""

import io
import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from zoo import config
from zoo.cli.main import main
from zoo.files import read_json, write_json
from zoo.lab.experiment import levels
from zoo.lab.launch.display import PlainDisplay
from zoo.lab.launch.populations import PopulationPolicy, group_runs, mixed_numerics
from zoo.lab.launch.process_pool import ProcessPool
from zoo.lab.launch.progress import SweepProgress
from zoo.lab.launch.sweep_lock import SweepLock
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.lab.results.schema import numerics

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
# Trains the runs of a population one after another with the stand-in for training.
SCRIPT = """
import os, sys
stand_in, *folders = sys.argv[1:]
sys.path.insert(0, os.path.dirname(stand_in))
import fake_run
codes = [fake_run.main(["--config", f"{folder}/config.json", "--workdir", folder]) for folder in folders]
sys.exit(next((code for code in codes if code), 0))
"""


@pytest.fixture
def runs(monkeypatch):
    """Two norms x two rates x two seeds."""
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    return make_plan(
        fake.experiment(
            contrasts=(),
            factors={
                "norm": levels("model.norm.placement", "pre", "post"),
                "rate": levels("optimizer.learning_rate", 1e-3, 1e-2),
            },
        )
    ).in_order


def names(groups):
    return [[(run.arm.levels["norm"], run.arm.levels["rate"], run.seed) for run in members] for members in groups]


def test_runs_that_differ_in_numbers_and_seeds_are_one_population(runs):
    pre, post = ([(norm, rate, seed) for seed in (0, 1) for rate in ("0.001", "0.01")] for norm in ("pre", "post"))
    assert names(group_runs(runs, PopulationPolicy())) == [pre, post]
    assert names(group_runs(runs, PopulationPolicy(max_members=3))) == [pre[:3], post[:3], pre[3:], post[3:]]


def test_the_command_names_every_folder():
    assert PopulationPolicy("vmap").command([Path("a"), Path("b")]) == [
        sys.executable,
        "-m",
        "zoo.cli.sweeps.population",
        "--executor=vmap",
        "a",
        "b",
    ]


@pytest.fixture
def run_all(monkeypatch, tmp_path, runs):
    monkeypatch.setattr(
        PopulationPolicy,
        "command",
        lambda self, folders: [sys.executable, "-c", SCRIPT, fake.__file__, *map(str, folders)],
    )

    def go(behaviours, **options):
        monkeypatch.setenv("FAKE_RUNS", json.dumps(behaviours))
        console = Console(file=io.StringIO(), width=200)
        lock = SweepLock(tmp_path)
        try:
            pool = ProcessPool(
                runs,
                tmp_path,
                1,
                lock,
                PlainDisplay(console, SweepProgress(tmp_path, runs, runs, 4, "eval/loss")),
                PopulationPolicy(**options),
            )
            return {folder: end.name for folder, end in pool.run().items()}, console.file.getvalue()
        finally:
            lock.close()

    return go


def attempts(tmp_path, runs):
    return [len((tmp_path / run.folder / "attempts").read_text()) for run in runs]


def test_members_have_their_own_outcomes(run_all, tmp_path, runs):
    first, second, third = [run.folder for run in runs if run.arm.levels["norm"] == "pre"][:3]
    ends, output = run_all({first: ["diverge"], second: ["fail"], third: ["preempt", "finish"]})
    others = {folder: end for folder, end in ends.items() if folder not in (first, second, third)}
    assert (ends[first], ends[second], ends[third], set(others.values())) == ("diverged", "failed", "done", {"done"})
    attempts_by_folder = dict(zip([run.folder for run in runs], attempts(tmp_path, runs), strict=True))
    # Only the interrupted member is retried.
    assert attempts_by_folder.pop(third) == 2
    assert set(attempts_by_folder.values()) == {1}
    assert f"retry    {next(run.name for run in runs if run.folder == third)}" in output


@pytest.mark.faults
def test_a_killed_population_is_retried_once(run_all, tmp_path, runs, monkeypatch):
    monkeypatch.setattr(
        PopulationPolicy,
        "command",
        lambda self, folders: [
            sys.executable,
            "-c",
            "import os, signal, sys\nfor folder in sys.argv[1:]: open(folder + '/attempts', 'a').write('x')\n"
            "os.kill(os.getpid(), signal.SIGKILL)",
            *map(str, folders),
        ],
    )
    ends, _ = run_all({})
    assert set(ends.values()) == {"failed"}
    assert attempts(tmp_path, runs) == [2] * len(runs)
    assert "killed by SIGKILL" in read_json(tmp_path / runs[-1].folder / "status.json")["reason"]


@pytest.mark.parametrize(("meta", "policy", "mixed"), [
    ({"executor": "vmap"}, None, True), ({"executor": "vmap"}, PopulationPolicy("vmap"), False), ({"executor": "vmap"}, PopulationPolicy("map"), True),
    ({"executor": "single"}, None, False), ({}, None, False), ({"executor": "map"}, None, False), ({"executor": "single"}, PopulationPolicy(), False),
    ({"executor": "single"}, PopulationPolicy("vmap"), True), ({"executor": "map"}, PopulationPolicy(), False),
])  # fmt: skip
def test_runs_with_different_numerics_are_not_mixed_in_a_sweep(tmp_path, runs, meta, policy, mixed):
    (tmp_path / runs[0].folder).mkdir()
    write_json(tmp_path / runs[0].folder / "meta.json", meta | {"device": {"platform": "cpu"}})
    # A run without a checkpoint starts from the beginning, so nothing is mixed.
    assert mixed_numerics(tmp_path, runs, policy) == []
    (tmp_path / runs[0].folder / "checkpoints" / "3").mkdir(parents=True)
    lines = mixed_numerics(tmp_path, runs, policy)
    assert bool(lines) == mixed
    if mixed:
        assert runs[0].folder in lines[0]
        assert "floating-point results differ" in lines[0]


def test_numerics_of_executors_and_devices():
    cpu, gpu = {"device": {"platform": "cpu"}}, {"device": {"platform": "gpu"}}
    assert numerics(cpu) == numerics(cpu | {"executor": "map"}) == numerics(gpu | {"executor": "single"}) == "exact"
    assert numerics(gpu | {"executor": "map"}) == "map"
    # The name of "single" in older records.
    assert numerics(gpu | {"executor": "alone"}) == "exact"
    assert numerics(cpu | {"executor": "vmap"}) == "vmap"


EXPERIMENT = """
from zoo import config
from zoo.lab.experiment import Contrast, Experiment, Side, levels

def get_experiment(size="tiny"):
    base = config.override(config.default(), {"model.dim": 16, "model.num_layers": 1, "data.sequence_length": 8, "data.batch_size": 4,
                                              "training.steps": 6, "training.eval_every": 3, "training.eval_batches": 2,
                                              "data.source": "text:TEXT"})
    return Experiment(name="rates", question="Which?", base=base, seeds=(0,), allow=("parameters",),
                      factors={"rate": levels("optimizer.learning_rate", 1e-3, 1e-2),
                               "norm": levels("model.norm.kind", "layernorm", "rmsnorm")},
                      contrasts=(Contrast("more", Side({"rate": "0.01", "norm": "layernorm"}),
                                          Side({"rate": "0.001", "norm": "layernorm"}), "superiority", 0.0, "it ends lower"),))
"""


@pytest.mark.promise(reason="whole sweeps are trained")
@pytest.mark.usefixtures("runs_in_this_process")
def test_a_sweep_by_populations_equals_a_sweep_by_single_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "rates.py").write_text(EXPERIMENT.replace("TEXT", fake.__file__))
    monkeypatch.chdir(tmp_path)

    def zoo(*arguments):
        return main(["run", "rates.py", *arguments]), *capsys.readouterr()

    code, together, err = zoo("--population", "--output", "together")
    assert code == 0, err
    assert "4 runs in 2 populations (2, 2)" in together
    assert zoo("--jobs", "1", "--output", "apart")[0] == 0
    for folder in (tmp_path / "apart").glob("*-seed*"):
        found, expected = (
            read_json(top / folder.name / "status.json") for top in (tmp_path / "together", tmp_path / "apart")
        )
        assert found == expected
        assert found["state"] == "done"
        assert read_json(tmp_path / "together" / folder.name / "meta.json")["executor"] == "map"
    assert together.splitlines()[-1] == zoo("--output", "apart")[1].splitlines()[-1]
    # On a CPU map and single runs have equal results and continue each other's sweeps; vmap does not.
    assert zoo("--output", "together", "--seeds", "2")[0] == 0
    code, _, err = zoo("--population", "--executor", "vmap", "--output", "together", "--seeds", "3")
    assert code == 2
    assert "floating-point results differ" in err


@pytest.mark.parametrize(("arguments", "message"), [
    (("--executor", "map"), "--executor needs --population"),
    (("--max-members", "3"), "--max-members needs --population"),
    (("--population", "--slurm"), "--population trains runs in one process on this machine, and --slurm makes each run a job"),
    (("--population", "--max-members", "0"), "'0' is not a positive integer"),
])  # fmt: skip
def test_bad_flags(command_line, arguments, message):
    code, _, err = command_line("run", "norms.py", *arguments)
    assert code == 2
    assert message in err


def test_a_dry_run_shows_the_populations(command_line):
    code, out, err = command_line("run", "norms.py", "--population", "--dry-run")
    assert (code, err) == (0, "")
    assert "8 of 8 runs would be trained, in 2 populations (4, 4)" in out


def test_dry_run_does_not_recommend_populations(command_line):
    """On two cores a sweep by populations takes longer, and no GPU was measured."""
    code, out, err = command_line("run", "norms.py", "--dry-run")
    assert (code, err) == (0, "")
    assert "8 of 8 runs would be trained, 1 at a time" in out
    assert "--population" not in out


@pytest.mark.parametrize("arguments", [
    ("--tune", "optimizer.learning_rate=1e-3,1e-2", "--tune-seeds", "1"), ("--until-decided", "--seeds", "2", "--max-seeds", "3"),
])  # fmt: skip
def test_populations_with_tuning_and_added_seeds(command_line, monkeypatch, tmp_path, arguments):
    started = []

    def command(self, folders):
        started.append(len(folders))
        return [sys.executable, "-c", SCRIPT, fake.__file__, *map(str, folders)]

    monkeypatch.setattr(PopulationPolicy, "command", command)
    code, out, err = command_line("run", "norms.py", "--population", *arguments)
    assert (code, err) == (0, "")
    # The losses do not depend on the rate.
    expected = (
        "Not tuned (learning_rate not fitted in every arm): "
        if "--tune" in arguments
        else "Supported (arms not tuned): "
    )
    assert out.splitlines()[-1].startswith(expected)
    assert max(started) > 1
    folders = [path.parent for path in (tmp_path / "runs").rglob("attempts")]
    assert len(folders) == sum(started)


def test_dropout_masks_that_differ_under_vmap_are_refused(tmp_path, capsys):
    from zoo.cli.sweeps import population

    folders = [tmp_path / "a", tmp_path / "b"]
    for seed, folder in enumerate(folders):
        folder.mkdir()
        changes = {"seed": seed, "model.dropout": 0.1, "training.dropout_generator": "rbg"}
        plain = config.to_plain(config.resolve(config.override(config.default(), changes)))
        (folder / "config.json").write_text(json.dumps(plain))
    assert population.main(["--executor=vmap", *map(str, folders)]) == 2
    assert "training.dropout_generator=rbg draws other masks" in capsys.readouterr().err
    assert not (folders[0] / "meta.json").exists()
