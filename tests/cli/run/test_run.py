"""`zoo run` from its flags to its exit code, with a stand-in for training."""

import json
import shutil
import subprocess
import sys

import pytest

PRE0, POST0 = "norm=pre+warm-up=0-seed0", "norm=post+warm-up=0-seed0"


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def attempts(folder):
    return {path.parent.name: len(path.read_text()) for path in folder.glob("runs/norms/*/attempts")}


def test_an_experiment_file_is_trained_and_reported(zoo, folder):
    code, out, err = zoo("norms.py", figures=True)
    assert (code, err) == (0, "")
    assert list((folder / "runs/norms/report").glob("*.png"))
    assert "Which norm?" in out
    assert "runs 8/8" in out
    assert "report: runs/norms/report.html" in out
    assert out.splitlines()[-1].startswith("Supported (arms not tuned): ")
    assert (folder / "runs/norms/report.html").stat().st_size > 1000
    record = json.loads((folder / "runs/norms/experiment.json").read_text())
    assert {run["folder"] for run in record["runs"]} == set(attempts(folder))
    assert record["size"] == "tiny"


@pytest.mark.parametrize(
    ("arguments", "recorded"),
    [
        (("norms.py:big", "--seeds", "0,1", "--jobs", "2"), ["norms.py:big", "--seeds", "2"]),
        (
            ("norms.py", "--seeds", "5,", "--set", "model.dim=64", "--config.model.num_layers", "2", "--fresh"),
            ["norms.py", "--seeds", "5,", "--set", "model.dim=64", "--config.model.num_layers", "2"],
        ),
        (
            ("norms.py", "--seeds", "2", "--until-decided", "--max-seeds", "3"),
            ["norms.py", "--seeds", "2", "--until-decided", "--max-seeds", "3"],
        ),
        (
            ("norms.py", "--tune", "optimizer.learning_rate=1e-3,1e-2", "--tune-seeds", "2"),
            ["norms.py", "--tune", "optimizer.learning_rate=1e-3,1e-2", "--tune-seeds", "2"],
        ),
        (
            (
                "--config",
                "small.py:x",
                "--vary",
                "model.norm.kind=rmsnorm,layernorm",
                "--vary",
                "model.dim=32,64",
                "--seeds",
                "0,3",
                "--name",
                "n",
                "--metric",
                "eval/perplexity",
                "--allow",
                "flops",
                "--match",
                "parameters:model.num_layers",
            ),
            [
                "--config=small.py:x",
                "--vary",
                "model.norm.kind=rmsnorm,layernorm",
                "--vary",
                "model.dim=32,64",
                "--name",
                "n",
                "--seeds",
                "0,3",
                "--metric",
                "eval/perplexity",
                "--allow",
                "flops",
                "--match",
                "parameters:model.num_layers",
            ],
        ),
    ],
)
def test_the_command_is_recorded(zoo, folder, arguments, recorded):
    def record(name):
        return json.loads((folder / name / "experiment.json").read_text())

    zoo(*arguments, "--output", "one")
    assert record("one")["command"] == ["zoo", "run", *recorded]
    zoo(*recorded, "--output", "two")
    assert record("two") == record("one")


def test_a_repeated_command_trains_nothing(zoo, folder):
    zoo("norms.py")
    (folder / "runs/norms/report.html").unlink()
    code, out, _ = zoo("norms.py")
    assert code == 0
    assert "8 of 8 runs were done already" in out
    assert "start   " not in out
    assert "--config.training.start_from=runs/norms/norm=" in out
    assert set(attempts(folder).values()) == {1}
    assert (folder / "runs/norms/report.html").exists()


def test_seeds_can_be_added(zoo, folder):
    zoo("norms.py", "--seeds", "1")
    code, out, _ = zoo("norms.py", "--seeds", "0,5")
    assert code == 0
    assert "4 of 8 runs were done already" in out
    assert attempts(folder)["norm=pre+warm-up=0-seed0"] == attempts(folder)["norm=pre+warm-up=0-seed5"] == 1


def test_a_failed_run_is_reported_and_retried_by_the_next_command(zoo, folder):
    code, out, _ = zoo("norms.py", behaviours={PRE0: ["fail_without_status"]})
    assert code == 1
    assert f"failed: norm=pre+warm-up=0 seed 0: ValueError: boom (see runs/norms/{PRE0}/log.txt)" in out
    assert "report: runs/norms/report.html" in out
    code, out, _ = zoo("norms.py", behaviours={PRE0: ["fail_without_status", "finish"]})
    assert code == 0
    assert "7 of 8 runs were done already" in out
    assert "1 failed at step 0, 1 done" in out


def test_a_diverged_run_is_no_failure_and_is_not_run_again(zoo, folder):
    assert zoo("norms.py", behaviours={POST0: ["diverge"]})[0] == 0
    code, out, _ = zoo("norms.py")
    assert code == 0
    assert "8 of 8 runs were done already" in out


@pytest.mark.parametrize("started", [False, True])
def test_a_dry_run_writes_nothing(zoo, folder, started):
    if started:
        zoo("norms.py", "--seeds", "1")
    files = tree(folder)
    code, out, err = zoo("norms.py", "--dry-run", "--jobs", "3")
    assert (code, err) == (0, "")
    assert f"dry run: {4 if started else 8} of 8 runs would be trained, 3 at a time, in runs/norms" in out
    assert ("1 done, 1 new" in out) == started
    assert tree(folder) == files


def test_a_dry_run_says_how_long_training_takes(zoo, folder, monkeypatch):
    from zoo.lab.planning import known_costs

    entry = {
        "size": "tiny",
        "instructions": "avx2",
        "parameters": 500,
        "flops": 1e6,
        "sweeps": 3,
        "flops_per_second": [1.0, 2.0, 4.0],
    }
    monkeypatch.setattr(known_costs, "recorded_costs", lambda: (entry,))
    monkeypatch.setattr(known_costs, "vector_instructions", lambda: ["avx2"])

    def runs(*flags):
        lines = [line for line in zoo(*flags, "--dry-run")[1].splitlines() if "at the throughput of" in line]
        return [line.split(" takes ")[0] for line in lines]

    assert runs("norms.py") == ["training of 8 runs"]
    tuned = ("--config=small.py", "--seeds", "2", "--tune", "optimizer.learning_rate=1e-3,1e-2,1e-1")
    # Three rates with one seed, and four with three, one of which is there.
    assert runs(*tuned) == [f"training of {2 + 3 + 4 * 3 - 1} runs, the fewest with tuning,"]
    assert zoo(*tuned)[0] == 0
    # Runs that have ended cost nothing more, nor do those of a tuning.
    assert runs(*tuned) == []
    assert runs(*tuned, "--seeds", "4") == ["training of 2 runs"]
    # The tuning was stopped before it came to other seeds, and no seed of the result had begun.
    for seed in (0, 1):
        shutil.rmtree(next((folder / "runs/small").glob(f"small*seed{seed}")))
    trials = list((folder / "runs/small/tuning").glob("*seed*"))
    done = [trial for trial in trials if trial.name.endswith("seed1000")]
    for trial in set(trials) - set(done):
        shutil.rmtree(trial)
    assert 3 <= len(done) < 3 + 4 * 3 - 1
    assert runs(*tuned) == [f"training of {2 + 3 + 4 * 3 - 1 - len(done)} runs, the fewest with tuning,"]


def test_a_folder_with_other_runs_is_refused(zoo, folder):
    zoo("norms.py")
    for extra in ([], ["--dry-run"]):
        code, _, err = zoo("norms.py", "--set", "model.dim=128", *extra)
        assert code == 2
        assert "and 7 more in runs/norms: another run: model.dim=256 there and 128 here" in err
        assert "--fresh" in err
    assert set(attempts(folder).values()) == {1}


def test_fresh_moves_the_earlier_sweep_aside(zoo, folder):
    zoo("norms.py", "--seeds", "1")
    code, out, _ = zoo("norms.py", "--seeds", "1", "--config.model.dim=128", "--fresh", "--dry-run")
    assert code == 0
    assert "4 of 4 runs would be trained" in out
    code, out, _ = zoo("norms.py", "--seeds", "1", "--config.model.dim=128", "--fresh")
    assert code == 0
    assert "the earlier sweep is in runs/norms.1" in out
    for name, dim in (("norms", 128), ("norms.1", 256)):
        assert json.loads((folder / "runs" / name / PRE0 / "config.json").read_text())["model"]["dim"] == dim
    assert zoo("norms.py", "--seeds", "1", "--config.model.dim=128", "--fresh", "--output", "elsewhere")[0] == 0
    assert not (folder / "elsewhere.1").exists()


def test_output(zoo, folder):
    assert zoo("norms.py", "--seeds", "1", "--output", "a/b")[0] == 0
    assert (folder / "a/b/report.html").exists()
    assert not (folder / "runs").exists()
    (folder / "file").write_text("")
    code, _, err = zoo("norms.py", "--output", "file")
    assert (code, err) == (2, "error: --output file is a file; name a folder\n")
    code, _, err = zoo("norms.py", "--output", "file/below/it", "--dry-run")
    assert (code, err) == (2, "error: --output file/below/it cannot be a folder: file is a file\n")
    code, _, err = zoo("norms.py", "--output", f"a/b/{PRE0}")
    assert code == 2
    assert "the folder of a single run" in err
    before = tree(folder)
    for output, message in (("..", 'not ".."'), (".", 'not "."'), (str(folder), "(a, file, norms.py and 1 more)")):
        for extra in ([], ["--fresh"], ["--dry-run"]):
            code, _, err = zoo("norms.py", "--output", output, *extra)
            assert (code, len(err.splitlines())) == (2, 1)
            assert message in err
    assert tree(folder) == before


@pytest.mark.parametrize(
    "flags",
    [
        ["--set", "optimizer.learning_rate=1e-4"],
        ["--config.optimizer.learning_rate=1e-4"],
        ["--config.optimizer.learning_rate", "1e-4"],
    ],
)
def test_overrides_reach_every_run(zoo, folder, flags):
    assert zoo("norms.py", "--seeds", "1", *flags)[0] == 0
    rates = [
        json.loads(path.read_text())["optimizer"]["learning_rate"] for path in folder.glob("runs/norms/*/config.json")
    ]
    assert rates == [1e-4] * 4


def test_an_experiment_from_flags(zoo, folder):
    code, out, err = zoo(
        "--config=small.py:x",
        "--vary",
        "model.norm.kind=rmsnorm,layernorm",
        "--vary",
        "model.dim=32,64",
        "--config.data.batch_size=4",
        "--seeds",
        "2",
        "--allow",
        "parameters,flops",
    )
    assert (code, err) == (0, "")
    assert "2 seeds find a difference of " in out
    assert "What does norm.kind and dim change in small.py:x?" in out
    sweep = folder / "runs/small-norm.kind-dim"
    assert len(list(sweep.glob("*/status.json"))) == 8
    config = json.loads((sweep / "norm.kind=rmsnorm+dim=32-seed1" / "config.json").read_text())
    assert (config["model"]["norm"]["kind"], config["model"]["dim"]) == ("rmsnorm", 32)
    assert (config["data"]["batch_size"], config["seed"]) == (4, 1)


def test_a_field_that_an_arm_does_not_read_names_the_command_with_arms(zoo):
    flags = ("--config=small.py", "--vary", "model.attention.kind=softmax,forgetting")
    code, _, err = zoo(*flags, "--vary", "model.attention.forget_bias=0,2", "--seeds", "2", "--dry-run")
    assert code == 2
    (line,) = err.splitlines()
    assert "model.attention.forget_bias=2.0 has no effect" in line
    assert line.endswith(
        "; or name the arms that there are: zoo run --config=small.py --arm softmax=model.attention.kind=softmax "
        "--arm forgetting-0=model.attention.kind=forgetting,model.attention.forget_bias=0 "
        "--arm forgetting-2=model.attention.kind=forgetting,model.attention.forget_bias=2 --seeds 2"
    )
    words = line.partition("zoo run ")[2].split()
    assert zoo(*words, "--allow", "parameters,flops", "--dry-run")[0] == 0
    # Another mistake needs no other command.
    assert "--arm" not in zoo(*flags, "--vary", "model.dim=3,5", "--dry-run")[2]


def test_confounds_are_refused_allowed_or_matched(zoo, folder):
    flags = ("--config=small.py", "--vary", "model.norm.kind=rmsnorm,layernorm", "--vary", "model.dim=32,64")
    code, _, err = zoo(*flags)
    assert code == 2
    assert "changes the number of parameters by up to 100.0%" in err
    assert "--allow parameters" in err
    assert not (folder / "runs").exists()
    code, out, _ = zoo(*flags, "--allow", "parameters,flops", "--dry-run")
    assert code == 0
    assert 'warning: factor "dim" changes the number of parameters by up to 100.0%' in out
    assert "allow: 'size' is not one of" in zoo(*flags, "--allow", "size")[2]
    assert "expected WHAT:FIELD" in zoo(*flags, "--match", "parameters")[2]
    code, out, _ = zoo(*flags, "--match", "parameters:model.num_layers", "--dry-run")
    assert (code, "warning" in out) == (0, False)


def test_a_sweep_over_seeds_only(zoo, folder):
    code, out, err = zoo("--config=small.py", "--seeds", "2")
    assert (code, err) == (0, "")
    assert "How much does small.py vary with the seed?" in out
    assert len(list((folder / "runs/small").glob("small-seed*/status.json"))) == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "give either an experiment file, or --config=FILE"),
        (["norms.py", "--arm", "a=small.py"], "norms.py and --arm a=small.py are both given"),
        (["norms.py", "--config=small.py"], "norms.py and small.py are both given"),
        (["norms.py", "--vary", "model.dim=1,2"], "--vary needs --config=FILE"),
        (["norms.py", "--name", "x"], "--name needs --config=FILE"),
        (["norms.py", "--metric", "eval/accuracy"], "--metric needs --config=FILE or --arm; an experiment file"),
        (["norms.py", "--metric", ""], "--metric needs --config=FILE or --arm; an experiment file"),
        (["--config=small.py"], "--config without --vary, --arm or --seeds"),
        (["nroms.py"], 'nroms.py does not exist (did you mean "norms.py"?)'),
        (["norms.py", "--set", "model.dim"], "--set model.dim: expected PATH=VALUE"),
        (["norms.py", "--set", "model.dmi=3"], 'unknown field model.dmi (did you mean "model.dim"?)'),
        (["norms.py", "--config.model.dmi=3"], 'unknown field model.dmi (did you mean "model.dim"?)'),
        (["norms.py", "--config.model.dim"], "needs a value"),
        (
            ["norms.py", "--set", "model.norm.placement=pre"],
            'model.norm.placement cannot be set: factor "norm" varies it',
        ),
        (["norms.py", "--set", "seed=3"], "use --seeds"),
        (["norms.py", "--set", "model.dim=abc"], "every arm: model.dim='abc': expected a whole number"),
        (["norms.py", "--seeds", "1,1"], "seeds: 1 is given more than once"),
        (["norms.py", "--seeds", "x"], "neither a number of seeds nor a list"),
        (["norms.py", "--seeds", "0"], "not a positive integer"),
        (["norms.py", "--seeds", "9" * 30], f"{'9' * 30} seeds are more than 1000"),
        (["norms.py", "--seeds", ",".join(map(str, range(1001)))], "seeds: 1,001 are given; at most 1,000 can be"),
        (["norms.py", "--until-decided", "--max-seeds", "9999999"], "looks are planned for at most 100 seeds"),
        (["norms.py", "--jobs", "0"], "not a positive integer"),
        (["norms.py", "--job", "2"], "unknown argument --job"),
        (["norms.py", "--oops"], "unknown argument --oops"),
        (["--config=small.py", "--vary", "model.dim=64,64"], "level 64 is given more than once"),
        (["--config=small.py", "--vary", "model.dim=64,32", "--name", "../x"], "is used as a folder name"),
    ],
)
def test_bad_flags(zoo, folder, arguments, text):
    files = tree(folder)
    code, _, err = zoo(*arguments)
    assert code == 2
    assert text in err
    assert "Traceback" not in err
    assert tree(folder) == files


@pytest.mark.parametrize(("text", "seeds"), [("1", {0}), ("3", {0, 1, 2}), ("5,", {5}), ("0, 7", {0, 7})])
def test_seeds(zoo, folder, text, seeds):
    assert zoo("--config=small.py", "--vary", "model.norm.placement=pre,post", "--seeds", text)[0] == 0
    assert {int(path.parent.name.partition("-seed")[2]) for path in folder.glob("runs/*/*/status.json")} == seeds


def test_help_shows_an_example_and_imports_no_heavy_libraries(zoo):
    code, out, _ = zoo("--help")
    assert code == 0
    assert "zoo run experiments/norm_placement.py" in out
    program = (
        "import argparse, sys; from zoo.cli.sweeps import run; run.add_parser(argparse.ArgumentParser().add_subparsers());"
        "print([name for name in ('jax', 'rich', 'scipy', 'ml_collections') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
