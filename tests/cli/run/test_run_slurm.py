"""`zoo run --slurm` and `zoo status`, with stand-ins for the commands of SLURM."""

import contextlib
import json
import math
import os
import shlex
import sys
import time
from pathlib import Path

import pytest

from zoo import config
from zoo.training.runtime.folder_lock import lock_run_folder

stages = config.import_file(Path(__file__).with_name("test_run_stages.py"), "helper")
RUNS = [f"norm={norm}+warm-up={steps}-seed{seed}" for seed in (0, 1) for norm in ("pre", "post") for steps in (0, 10)]


@pytest.fixture
def zoo(tmp_path, monkeypatch, command_line):
    """Calls `zoo` with a PATH without SLURM's commands, which the fixture `cluster` adds."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin")
    monkeypatch.setattr(
        "shutil.which", lambda name: path if (path := f"{tmp_path}/bin/{name}") and os.path.exists(path) else None
    )
    (tmp_path / "staged.py").write_text(stages.FILE)
    return command_line


class Cluster:
    """Stand-ins: sbatch numbers jobs from 100 and logs its calls; squeue prints the lines given to
    `queue`.
    """

    def __init__(self, folder):
        self._folder, self._bin = folder, folder / "bin"
        self._bin.mkdir()
        self.program(
            "sbatch",
            f"""n=$(( 100 + $(cat {folder}/calls 2>/dev/null | wc -l) ))
echo "$PWD" "$@" >>{folder}/calls; echo "$n;cluster" """,
        )
        self.queue()

    def program(self, name, text):
        path = self._bin / name
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def queue(self, *lines):
        self.program("squeue", "".join(f"echo '{line}'\n" for line in lines) or "true")

    def calls(self):
        path = self._folder / "calls"
        return [line.split(" ", 1) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def cluster(zoo, tmp_path):
    return Cluster(tmp_path)


def write_status(folder, **content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "status.json").write_text(json.dumps({"steps": 40, "reason": None, **content}))


def test_a_sweep_is_submitted_as_one_array(zoo, cluster, tmp_path):
    code, out, err = zoo("run", "norms.py", "--slurm", "--partition", "gpu", "--jobs", "3")
    assert (code, err) == (0, "")
    sweep = tmp_path / "runs/norms"
    assert cluster.calls() == [[str(sweep), "--parsable slurm/1.sh"]]
    assert "submitted: 8 runs as jobs 100\n" in out
    text = (sweep / "slurm/1.sh").read_text()
    assert "#SBATCH --array=0-7%3\n" in text
    assert "#SBATCH --partition=gpu\n" in text
    assert all(json.loads((sweep / run / "config.json").read_text())["training"]["steps"] == 40 for run in RUNS)
    assert not list(sweep.glob("*/attempts"))
    assert json.loads((sweep / "experiment.json").read_text())["name"] == "norms"


def test_queued_runs_are_not_submitted_again(zoo, cluster, tmp_path):
    zoo("run", "norms.py", "--slurm")
    sweep = tmp_path / "runs/norms"
    cluster.queue(*(f"100_{index}|PENDING|Priority" for index in range(8)))
    code, out, _ = zoo("run", "norms.py", "--slurm")
    assert code == 0
    assert "all runs that are left are in the queue already" in out
    write_status(sweep / RUNS[0], state="done", step=40)
    write_status(sweep / RUNS[1], state="failed", step=3, reason="boom")
    cluster.queue(*(f"100_{index}|PENDING|Priority" for index in range(2, 8)))
    assert "submitted: 1 runs as jobs 101\n" in zoo("run", "norms.py", "--slurm")[1]
    assert f"(\n    {RUNS[1]}\n)" in (sweep / "slurm/2.sh").read_text()
    assert len(cluster.calls()) == 2
    # Queued runs are neither trained here nor moved aside.
    line = "{} runs of runs/norms are in SLURM's queue: wait for them, or cancel them with scancel {}"
    cluster.queue("101_0|RUNNING|None", "100_4|PENDING|None")
    for arguments in ((), ("--fresh", "--slurm"), ("--fresh",)):
        assert zoo("run", "norms.py", *arguments)[::2] == (2, f"error: {line.format(2, '101 100')}\n")


def test_the_report_is_written_when_all_runs_are_done(zoo, cluster, tmp_path):
    assert zoo("run", "norms.py")[0] == 0
    (tmp_path / "runs/norms/report.html").unlink()
    code, out, _ = zoo("run", "norms.py", "--slurm")
    assert (code, cluster.calls()) == (0, [])
    assert out.splitlines()[-1].startswith("Supported (arms not tuned): ")
    assert (tmp_path / "runs/norms/report.html").exists()


def test_arms_wait_for_the_jobs_of_their_prerequisites(zoo, cluster, tmp_path):
    assert zoo("run", "staged.py", "--slurm")[0] == 0
    assert [arguments for _, arguments in cluster.calls()] == [
        "--parsable slurm/1.sh",
        "--parsable --dependency=afterok:100_0 --kill-on-invalid-dep=yes slurm/2.sh",
        "--parsable --dependency=afterok:100_2 --kill-on-invalid-dep=yes slurm/3.sh",
    ]
    sweep = tmp_path / "runs/staged"
    scripts = [(sweep / f"slurm/{number}.sh").read_text() for number in (1, 2, 3)]
    bodies = [path.name for path in sorted(sweep.glob("body-seed*"))]
    assert f"(\n    {bodies[0]}\n    start=fresh-seed0\n    {bodies[1]}\n    start=fresh-seed1\n)" in scripts[0]
    assert "(\n    start=trained-seed1\n)" in scripts[2]
    arm = json.loads((sweep / "start=trained-seed1/config.json").read_text())
    assert arm["training"]["start_from"] == f"runs/staged/{bodies[1]}"
    # Arms of a later command wait for jobs that are still in the queue.
    cluster.queue("100_0|RUNNING|None", "100_2|PENDING|None")
    assert zoo("run", "staged.py", "--slurm")[0] == 0
    assert [arguments for _, arguments in cluster.calls()[3:]] == [
        "--parsable slurm/4.sh",
        "--parsable --dependency=afterok:100_0 --kill-on-invalid-dep=yes slurm/5.sh",
        "--parsable --dependency=afterok:100_2 --kill-on-invalid-dep=yes slurm/6.sh",
    ]


def test_a_dry_run_needs_no_cluster_and_writes_nothing(zoo, tmp_path):
    code, out, err = zoo(
        "run", "staged.py", "--slurm", "--partition", "gpu", "--nodes", "2", "--sbatch=--constraint=ib", "--dry-run"
    )
    assert (code, err) == (0, "")
    assert out.count("#!/bin/bash") == 3
    assert "#SBATCH --nodes=2\n" in out
    assert "#SBATCH --constraint=ib\n" in out
    assert "# sbatch slurm/2.sh  # waits for body-seed0-" in out
    assert "dry run: 6 of 6 runs would be submitted, in runs/staged" in out
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ["--slurm"],
            "--slurm: sbatch not found: this machine is not part of a SLURM cluster (--dry-run shows what would be submitted)",
        ),
        (["--partition", "gpu", "--nodes", "2"], "--partition, --nodes: only with --slurm"),
        (["--sbatch=--exclusive"], "--sbatch: only with --slurm"),
        (["--slurm", "--dry-run", "--nodes", "3"], "--nodes: data.batch_size=2 is not divisible by 3 processes"),
        (["--slurm", "--dry-run", "--sbatch=--array=3"], "--sbatch --array=3: --array is set by zoo run itself"),
        (
            ["--slurm", "--dry-run", "--output", "a\nb"],
            "--output '{}/a\\nb': with --slurm a path must not contain line breaks or \\",
        ),
    ],
)
def test_bad_flags_are_reported_in_one_line(zoo, tmp_path, arguments, line):
    code, _, err = zoo("run", "norms.py", *arguments)
    assert (code, err) == (2, f"error: {line.format(tmp_path)}\n")
    assert not (tmp_path / "runs").exists()


def test_errors_of_sbatch_are_passed_on(zoo, cluster):
    cluster.program("sbatch", "echo 'sbatch: error: invalid partition specified: gpuu' >&2; exit 1")
    code, _, err = zoo("run", "norms.py", "--slurm", "--partition", "gpuu")
    assert (code, err) == (2, "error: sbatch: invalid partition specified: gpuu\n")


def run_statuses(zoo, folder="runs/norms"):
    code, out, err = zoo("status", folder, "--json")
    assert (code, err) == (0, "")
    return {run["folder"]: run for run in json.loads(out)["runs"]}


def test_status_of_a_sweep_in_the_queue(zoo, cluster, tmp_path):
    zoo("run", "norms.py", "--slurm")
    sweep = tmp_path / "runs/norms"
    write_status(sweep / RUNS[1], state="running", step=0)
    (sweep / RUNS[1] / "metrics.jsonl").write_text('{"step": 12, "train/loss": 3.0}\n')
    long_ago = time.time() - 500
    for name in ("metrics.jsonl", "status.json"):
        os.utime(sweep / RUNS[1] / name, (long_ago, long_ago))
    write_status(sweep / RUNS[2], state="preempted", step=20, reason="stopped at step 20 of 40 and saved")
    write_status(sweep / RUNS[3], state="failed", step=3, reason="ValueError: boom")
    write_status(sweep / RUNS[4], state="done", step=40)
    write_status(sweep / RUNS[5], state="running", step=7)
    write_status(sweep / RUNS[6], state="diverged", step=9, reason="loss nan")
    cluster.queue("100_0|PENDING|Priority", "100_1|RUNNING|None", "100_2|PENDING|BeginTime")
    found = run_statuses(zoo)
    assert [(run["state"], run["step"]) for run in found.values()] == [
        ("waiting", 0),
        ("running", 12),
        ("preempted", 20),
        ("failed", 3),
        ("done", 40),
        ("preempted", 7),
        ("diverged", 9),
        ("failed", 0),
    ]
    assert [found[run]["reason"] for run in RUNS] == [
        "in SLURM's queue: Priority",
        "",
        "in SLURM's queue: BeginTime",
        "ValueError: boom",
        "",
        "its job ended without a status; zoo run continues it",
        "loss nan",
        "its job left the queue before it started; see runs/norms/slurm/100_7.txt",
    ]
    assert 500 <= found[RUNS[1]]["silent"] < 560
    assert found[RUNS[0]]["silent"] is None
    assert found[RUNS[1]]["job"] == "100_1"
    code, out, err = zoo("status", "runs/norms")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[2].split() == [RUNS[1], "running", "12/40", "8", "min", "ago", "100_1"]
    assert lines[-1] == "norms: 1 running, 1 waiting, 2 preempted, 2 failed, 1 diverged, 1 done"
    # So does a process that holds the run, on whichever node it is.
    cluster.queue("100_5|PENDING|BeginTime")
    with contextlib.closing(lock_run_folder(sweep / RUNS[5])), contextlib.closing(lock_run_folder(sweep / RUNS[3])):
        found = run_statuses(zoo)
    assert (found[RUNS[3]]["state"], found[RUNS[5]]["state"]) == ("running", "running")
    # The queue takes precedence over the files of a run, so a resubmitted run is not failed.
    cluster.queue("100_2|RUNNING|None", "100_3|RUNNING|None")
    found = run_statuses(zoo)
    assert (found[RUNS[2]]["state"], found[RUNS[3]]["state"]) == ("running", "running")


def test_status_says_why_an_arm_never_started(zoo, cluster, tmp_path):
    zoo("run", "staged.py", "--slurm")
    sweep = tmp_path / "runs/staged"
    body = next(sweep.glob("body-seed0-*"))
    write_status(body, state="diverged", step=9, reason="loss nan")
    cluster.queue("100_2|RUNNING|None", "102_0|PENDING|Dependency")
    found = run_statuses(zoo, "runs/staged")
    assert next(iter(found)) == body.name
    assert (found["start=trained-seed0"]["state"], found["start=trained-seed0"]["reason"]) == (
        "failed",
        f"it starts from {body.name}, which is diverged",
    )
    assert (found["start=trained-seed1"]["state"], found["start=trained-seed1"]["reason"]) == (
        "waiting",
        "in SLURM's queue: Dependency",
    )


def test_status_of_a_sweep_on_this_machine(zoo, tmp_path):
    zoo("run", "norms.py")
    sweep = tmp_path / "runs/norms"
    assert {run["state"] for run in run_statuses(zoo).values()} == {"done"}
    for run in RUNS[:3]:
        write_status(sweep / run, state="running", step=3)
    # The lock names the process that holds the folder of a run.
    (sweep / RUNS[0] / ".lock").write_text(f"process {os.getpid()} on {os.uname().nodename}")
    (sweep / RUNS[1] / ".lock").write_text(f"process {2**22 + 1} on {os.uname().nodename}")
    (sweep / RUNS[2] / ".lock").write_text(f"process {2**22 + 1} on another-machine")
    (sweep / RUNS[3] / "status.json").unlink()
    found = run_statuses(zoo)
    assert [found[run]["state"] for run in RUNS[:4]] == ["running", "preempted", "running", "waiting"]
    assert found[RUNS[1]]["reason"] == "its process ended without a status; zoo run continues it"
    assert found[RUNS[2]]["silent"] < 60


def test_status_refuses_folders_that_are_not_sweeps(zoo, cluster, tmp_path):
    (tmp_path / "empty").mkdir()
    write_status(tmp_path / "single", state="done", step=3)
    for name, text in (
        ("torn", "{"),
        ("outside", '{"name": "x", "runs": [{"folder": "../single"}]}'),
        ("deep", "[" * 100_000),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "experiment.json").write_text(text)
    for folder, line in (
        ("nowhere", "nowhere is not a folder"),
        ("empty", "empty is not a sweep: it has no experiment.json"),
        ("single", "single is a single run: it has no experiment.json"),
        ("torn", "torn/experiment.json is not a record of a sweep"),
        ("outside", "outside/experiment.json is not a record of a sweep"),
        ("deep", "deep/experiment.json is not a record of a sweep"),
    ):
        assert zoo("status", folder)[::2] == (2, f"error: {line}\n")
    zoo("run", "norms.py", "--slurm")
    cluster.program(
        "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
    )
    assert zoo("status", "runs/norms")[::2] == (
        2,
        "error: squeue: slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
    )


def test_status_imports_no_heavy_libraries():
    import subprocess

    program = "import sys, zoo.cli.sweeps.status, zoo.lab.launch.run_status; print([name for name in ('jax', 'rich', 'scipy') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert done.stdout.strip() == "[]"


def write_trials(folder, **content):
    """Ends the tuning runs of a folder, with a minimum of the loss near 0.0018."""
    for config_file in folder.glob("*/config.json"):
        rate = json.loads(config_file.read_text())["optimizer"]["learning_rate"]
        loss = 2 + 0.2 * math.log(rate / 0.0018) ** 2 + 1e-4 * math.sin(1e5 * rate)
        write_status(config_file.parent, **{"state": "done", "step": 40, **content})
        (config_file.parent / "metrics.jsonl").write_text(json.dumps({"step": 40, "eval/loss": loss}) + "\n")


def following(sweep):
    """The script that was submitted last and goes on with the command, and the words of that."""
    script = max((sweep / "slurm").glob("*.sh"), key=lambda path: int(path.stem))
    command = shlex.split(script.read_text().splitlines()[-1])
    assert command[:4] == ["exec", sys.executable, "-m", "zoo.cli.main"]
    return script.name, command[4:]


def test_tuning_runs_are_followed_by_the_arms_and_these_by_the_report(zoo, cluster, tmp_path, monkeypatch):
    arguments = ("run", "norms.py", "--slurm", "--partition", "gpu", "--tune", "optimizer.learning_rate=0.001,0.002")
    code, out, err = zoo(*arguments, "--fresh")
    assert (code, err) == (0, "")
    assert "when they have ended, a job submits what follows from them, or writes the report" in out
    sweep, trials = tmp_path / "runs/norms", tmp_path / "runs/norms/tuning"
    assert cluster.calls() == [
        [str(trials), "--parsable slurm/1.sh"],
        [str(trials), "--parsable --dependency=afterany:100 slurm/2.sh"],
    ]
    # What continues a sweep does not archive it.
    assert following(trials) == ("2.sh", list(arguments))
    text = (trials / "slurm/2.sh").read_text()
    assert "#SBATCH --partition=gpu\n" in text
    assert f"\ncd -- {tmp_path} || exit 1\n" in text
    assert not [line for line in text.splitlines() if "array" in line]
    # The command is repeated by hand: runs and what follows are in the queue already.
    cluster.queue(*(f"100_{index}|PENDING|None" for index in range(8)), "101|PENDING|Dependency")
    assert zoo(*arguments)[0] == 0
    assert zoo(*arguments, "--fresh")[0] == 2
    line = (
        "error: what follows in runs/norms/tuning is in SLURM's queue: wait for them, or cancel them with scancel 101\n"
    )
    cluster.queue("101|PENDING|Dependency")
    assert zoo("run", "norms.py", "--tune", "optimizer.learning_rate=0.001,0.002")[::2] == (2, line)
    assert len(cluster.calls()) == 2
    # Job 101 goes on with the values around the best of the bracket, job 103 with the arms.
    for job, folder, runs in ((101, trials, 4 * (4 * 3 - 1)), (103, sweep, 8)):
        monkeypatch.setenv("SLURM_JOB_ID", str(job))
        cluster.queue(f"{job}|RUNNING|None")
        write_trials(trials)
        code, out, err = zoo(*arguments)
        assert (code, err) == (0, "")
        assert f"submitted: {runs} runs as jobs {job + 1}\n" in out
        assert cluster.calls()[-1][0] == str(folder)
        assert f"--dependency=afterany:{job + 1} " in cluster.calls()[-1][1]
    # The last one writes the report.
    monkeypatch.setenv("SLURM_JOB_ID", "105")
    cluster.queue("105|RUNNING|None")
    write_trials(sweep)
    calls = len(cluster.calls())
    assert "report: runs/norms/report.html" in zoo(*arguments)[1]
    assert len(cluster.calls()) == calls


def test_a_job_that_goes_on_does_not_submit_failed_runs_again(zoo, cluster, tmp_path, monkeypatch):
    arguments = ("run", "norms.py", "--slurm", "--tune", "optimizer.learning_rate=0.001,0.002")
    zoo(*arguments)
    write_trials(tmp_path / "runs/norms/tuning")
    failed = sorted((tmp_path / "runs/norms/tuning").glob("*/status.json"))[0].parent
    write_status(failed, state="failed", step=3, reason="boom")
    with monkeypatch.context() as patch:
        patch.setenv("SLURM_JOB_ID", "101")
        cluster.queue("101|RUNNING|None")
        code, _, err = zoo(*arguments)
    assert (code, len(cluster.calls())) == (1, 2)
    assert err.startswith("error: 1 of 8 runs were not finished (")
    assert err.endswith("), and what follows needs them; the command that started the sweep submits them again\n")
    # That command does, with the next values of the other arms; what follows waits for the new job.
    cluster.queue()
    assert f"submitted: {1 + 3 * (4 * 3 - 1)} runs as jobs 102\n" in zoo(*arguments)[1]
    assert cluster.calls()[-1][1].startswith("--parsable --dependency=afterany:102 ")


def test_looks_follow_the_runs(zoo, cluster, tmp_path, monkeypatch):
    arguments = ("run", "norms.py", "--slurm", "--until-decided", "--seeds", "2", "--max-seeds", "3")
    assert zoo(*arguments)[0] == 0
    sweep = tmp_path / "runs/norms"
    assert following(sweep) == ("2.sh", list(arguments))
    monkeypatch.setenv("SLURM_JOB_ID", "101")
    cluster.queue("101|RUNNING|None")
    for index, path in enumerate(sorted(sweep.glob("*/config.json"))):
        write_status(path.parent, state="done", step=40)
        # Losses that decide nothing.
        loss = 2 + math.sin(index)
        (path.parent / "metrics.jsonl").write_text(json.dumps({"step": 40, "eval/loss": loss}) + "\n")
    code, out, err = zoo(*arguments)
    assert (code, err) == (0, "")
    assert "Undecided (" in out
    assert "submitted: 4 runs as jobs 102\n" in out
    assert f"(\n    {RUNS[0].replace('seed0', 'seed2')}\n" in (sweep / "slurm/3.sh").read_text()
    assert json.loads((sweep / "experiment.json").read_text())["seeds"] == [0, 1, 2]
