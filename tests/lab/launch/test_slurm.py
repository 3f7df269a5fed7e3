"""Batch scripts for SLURM: their content, and their behaviour when bash runs them with stand-ins for
SLURM's commands.
"""

import json
import os
import shlex
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.launch.run_outcome import record_outcome
from zoo.lab.launch.slurm import (
    JobArray,
    SlurmLauncher,
    SlurmOptions,
    batch_script,
    batch_size_problems,
    group_into_arrays,
    path_problems,
)
from zoo.lab.launch.slurm_queue import queued_jobs, read_jobs, record_job, run_slurm_command
from zoo.lab.launch.sweep_folder import write_status
from zoo.lab.planning import arm_resolution
from zoo.lab.planning.plan import make_plan
from zoo.training.runtime.folder_lock import lock_run_folder

fake = config.import_file(Path(__file__).parents[1] / "fake_run.py", "helper")
HOSTILE = 'it\'s "%j" $(touch hacked) `touch hacked` \\n; #'


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    factors = {"x": {"a": {"model.dim": 64}, "b": {"model.dim": 32}}}
    return make_plan(fake.experiment(factors=factors, contrasts=(), seeds=(0, 1), allow=("parameters", "flops"))).runs


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def directives(text):
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]


def test_options_become_directives(runs, tmp_path):
    options = SlurmOptions(
        partition="gpu",
        account="lab",
        qos="long",
        time="4:00:00",
        mem="64G",
        gpus_per_node="a100:4",
        cpus_per_task=8,
        nodes=2,
        max_parallel=3,
        grace=60,
        raw=("--constraint=ib", "--exclusive"),
    )
    text = batch_script(JobArray(tuple(runs)), tmp_path, "norms and more", options)
    assert text.startswith("#!/bin/bash\n")
    assert directives(text) == [
        "--job-name=norms-and-more",
        "--array=0-3%3",
        f"--output={tmp_path}/slurm/%A_%a.txt",
        "--open-mode=append",
        "--requeue",
        "--signal=TERM@60",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--partition=gpu",
        "--account=lab",
        "--qos=long",
        "--time=4:00:00",
        "--mem=64G",
        "--gpus-per-node=a100:4",
        "--cpus-per-task=8",
        "--constraint=ib",
        "--exclusive",
    ]
    # SLURM ignores directives after the first command.
    assert "#SBATCH" not in text[text.index("runs=(") :]
    assert "srun --kill-on-bad-exit=1 " in text
    assert [line.strip() for line in text[text.index("runs=(\n") + 7 : text.index("\n)")].splitlines()] == [
        run.folder for run in runs
    ]


def test_unset_options_are_left_to_the_cluster(runs, tmp_path):
    text = batch_script(JobArray(tuple(runs[:1])), tmp_path, "x", SlurmOptions())
    assert directives(text) == [
        "--job-name=x",
        "--array=0-0",
        f"--output={tmp_path}/slurm/%A_%a.txt",
        "--open-mode=append",
        "--requeue",
        "--signal=TERM@120",
        "--nodes=1",
        "--ntasks-per-node=1",
    ]


@pytest.fixture
def task(runs, tmp_path, monkeypatch):
    """Runs task 1 of a script in a sweep with a hostile name; srun writes `status` and ends with
    `code`. Returns (exit code, commands that were called, folder of the run).
    """
    here, sweep, bin = (tmp_path / name for name in (HOSTILE, f"{HOSTILE} sweep", "bin"))
    for folder in (here, sweep, bin, sweep / runs[1].folder):
        folder.mkdir()
    monkeypatch.chdir(here)

    def go(code, status=None):
        run = sweep / runs[1].folder
        written = "" if status is None else f'printf %s {shlex.quote(json.dumps(status))} >"$folder/status.json"'
        program(
            bin,
            "srun",
            f"""printf '%s\\n' "$PWD" "$@" >{tmp_path}/srun.txt
folder=${{@: -1}}; folder=${{folder#--workdir=}}
sleep 0.01
{written}
echo noise; echo "ValueError: boom" >&2
echo "srun: error: n1: task 0: Exited with exit code {code}" >&2; exit {code}""",
        )
        for name in ("scontrol", "sleep"):
            program(bin, name, f'echo {name} "$@" >>{tmp_path}/calls.txt')
        path = tmp_path / "job.sh"
        path.write_text(batch_script(JobArray(tuple(runs)), sweep, "x", SlurmOptions()))
        assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
        done = subprocess.run(
            ["bash", path],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "PATH": f"{bin}:{os.environ['PATH']}",
                "SLURM_ARRAY_TASK_ID": "1",
                "SLURM_ARRAY_JOB_ID": "70",
                "SLURM_JOB_ID": "70",
                "PYTHONPATH": str(Path(__file__).parents[3]),
            },
        )
        calls = tmp_path / "calls.txt"
        called = [line for line in calls.read_text().splitlines() if line != "sleep 0.01"] if calls.exists() else []
        calls.unlink(missing_ok=True)
        assert not list(tmp_path.rglob("hacked"))
        return done.returncode, called, run

    return go


def test_a_task_trains_its_run_in_folders_with_hostile_names(task, tmp_path):
    code, calls, run = task(0, {"state": "done", "step": 40, "steps": 40})
    assert (code, calls) == (0, [])
    assert (tmp_path / "srun.txt").read_text().split("\n--kill-on-bad-exit=1\n") == [
        str(tmp_path / HOSTILE),
        f"{sys.executable}\n-m\nzoo.cli.train\n--config={run}/config.json\n--workdir={run}\n",
    ]
    assert (run / "log.txt").read_text() == (
        "noise\nValueError: boom\nsrun: error: n1: task 0: Exited with exit code 0\n"
    )


def test_a_preempted_run_is_requeued(task):
    code, calls, run = task(75, {"state": "preempted", "step": 7, "steps": 40, "reason": "stopped at step 7"})
    assert (code, calls) == (75, ["scontrol requeue 70_1", "sleep 600"])
    assert json.loads((run / "status.json").read_text())["reason"] == "stopped at step 7"
    # Another scheduler that goes on would count the stop again.
    assert not (run / ".attempt").exists()


def test_the_status_decides_if_srun_killed_the_process_that_wrote_it(task):
    # srun kills process 0 as soon as another one has ended with 75.
    assert task(137, {"state": "preempted", "step": 7, "steps": 40})[:2] == (75, ["scontrol requeue 70_1", "sleep 600"])


def test_a_run_that_is_terminated_during_startup_is_requeued(task):
    code, calls, run = task(143, {"state": "running", "step": 0, "steps": 40})
    assert (code, calls) == (75, ["scontrol requeue 70_1", "sleep 600"])
    assert json.loads((run / "status.json").read_text())["state"] == "preempted"


@pytest.mark.parametrize(
    ("code", "status", "state", "reason"),
    [
        (1, None, "failed", "ValueError: boom"),
        (2, {"state": "running", "step": 3, "steps": 40}, "failed", "ValueError: boom"),
        (
            137,
            {"state": "running", "step": 3, "steps": 40},
            "failed",
            "killed by SIGKILL, as the system does when memory runs out",
        ),
        (4, {"state": "diverged", "step": 3, "steps": 40, "reason": "loss nan"}, "diverged", "loss nan"),
        (1, {"state": "failed", "step": 3, "steps": 40, "reason": "the disk is full"}, "failed", "the disk is full"),
        (0, {"state": "running", "step": 3, "steps": 40}, "failed", "ended without a status"),
    ],
)
def test_other_outcomes_are_recorded(task, code, status, state, reason):
    exit_code, calls, run = task(code, status)
    assert (exit_code, calls) == (code or 1, [])
    recorded = json.loads((run / "status.json").read_text())
    assert (recorded["state"], recorded["reason"]) == (state, reason)


def test_the_status_of_an_earlier_attempt_is_ignored(task):
    task(75, {"state": "preempted", "step": 7, "steps": 40})
    code, calls, run = task(2)
    assert (code, calls) == (2, [])
    assert json.loads((run / "status.json").read_text())["state"] == "failed"


@pytest.mark.parametrize("status", [None, {"state": "running", "step": 3, "steps": 40}])
def test_the_status_of_a_run_that_another_process_trains_is_left_to_it(task, status, runs, tmp_path):
    with closing(lock_run_folder(tmp_path / f"{HOSTILE} sweep" / runs[1].folder)):
        code, calls, run = task(2, status)
        assert (code, calls) == (75, ["scontrol requeue 70_1", "sleep 600"])
        assert (run / "status.json").exists() == (status is not None)
        assert not write_status(run, "failed", 40, "boom")
        assert (run / ".attempt").exists()
    assert task(2, status)[:2] == (2, [])
    assert json.loads((run / "status.json").read_text())["state"] == "failed"


def test_a_run_that_another_process_finished_during_the_attempt_is_done(task):
    assert task(2, {"state": "done", "step": 40, "steps": 40})[:2] == (0, [])


def test_a_run_without_progress_is_not_requeued_forever(task):
    status = {"state": "preempted", "step": 7, "steps": 40}
    outcomes = [task(75, status) for _ in range(3)]
    assert [end[:2] for end in outcomes] == [(75, ["scontrol requeue 70_1", "sleep 600"])] * 2 + [(1, [])]
    run = outcomes[0][2]
    assert json.loads((run / "status.json").read_text())["reason"].startswith("was stopped 3 times at the same step")


def test_a_run_with_progress_is_always_requeued(tmp_path):
    for step in (5, 6, 7, 8, 9):
        (tmp_path / "checkpoints" / str(step)).mkdir(parents=True)
        assert record_outcome(tmp_path, 75, "") == 75


def test_arrays_wait_for_their_prerequisites(monkeypatch):
    monkeypatch.setattr(arm_resolution, "count_cost", fake.cost)
    staged = make_plan(fake.experiment(**staged_changes()))
    grouped = group_into_arrays(staged.in_order)
    bodies = [run.folder for run in staged.prerequisites]
    assert [([run.folder for run in array.runs], array.needs) for array in grouped] == [
        ([bodies[0], "start=fresh-seed0", bodies[1], "start=fresh-seed1"], ()),
        (["start=trained-seed0"], (bodies[0],)),
        (["start=trained-seed1"], (bodies[1],)),
    ]
    # Nothing waits for prerequisites that are done.
    assert [array.needs for array in group_into_arrays(staged.runs)] == [()]


def staged_changes():
    from zoo.lab.experiment import Prerequisite

    body = config.override(config.default(), {"model.dim": 16, "model.num_layers": 1, "training.steps": fake.STEPS})
    return {
        "name": "staged",
        "base": body,
        "contrasts": (),
        "claim": None,
        "seeds": (0, 1),
        "allow": ("tokens",),
        "prerequisites": {"body": Prerequisite(config.override(body, {"optimizer.learning_rate": 0.001}))},
        "factors": {
            "start": {"trained": {"training.start_from": "prerequisite:body"}, "fresh": {"training.start_from": ""}}
        },
    }


def test_long_arrays_are_split(runs, monkeypatch):
    monkeypatch.setattr("zoo.lab.launch.slurm.MAX_ARRAY_SIZE", 3)
    assert [len(array.runs) for array in group_into_arrays(runs)] == [3, 1]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            SlurmOptions(raw=("constraint=x",)),
            "--sbatch 'constraint=x': expected one option of sbatch as --NAME or --NAME=VALUE, on one line",
        ),
        (SlurmOptions(raw=("--comment=a\n#SBATCH --uid=0",)), "on one line"),
        (SlurmOptions(raw=("--array=0-99",)), "--sbatch --array=0-99: --array is set by zoo run itself"),
        (SlurmOptions(raw=("--partition=x",)), "--sbatch --partition=x: use zoo run's own --partition"),
        (
            SlurmOptions(raw=("--ntasks-per-node=2",)),
            "--sbatch --ntasks-per-node=2: use zoo run's own --tasks-per-node",
        ),
        (SlurmOptions(partition="a\nb"), "--partition 'a\\nb': expected a value on one line"),
        (SlurmOptions(time=""), "--time '': expected a value on one line"),
    ],
)
def test_bad_options_are_refused(options, line):
    assert line in next(options.problems())


def test_good_options_have_no_problems():
    assert not list(
        SlurmOptions(partition="a", time="1-00:00", raw=("--exclusive", "--constraint=a&b", "--gres=gpu:1")).problems()
    )


def test_options_that_sbatch_would_split_are_quoted(runs, tmp_path):
    text = batch_script(JobArray(tuple(runs)), tmp_path, "x", SlurmOptions(raw=('--comment=it\'s "so" # \\ big',)))
    assert directives(text)[-1] == '"--comment=it\'s \\"so\\" # \\\\ big"'


def test_batch_size_must_be_divisible_by_the_processes(runs):
    assert batch_size_problems(runs, SlurmOptions()) == batch_size_problems(runs, SlurmOptions(nodes=2)) == []
    assert batch_size_problems(runs, SlurmOptions(nodes=2, tasks_per_node=2)) == [
        "--nodes: data.batch_size=2 is not divisible by 4 processes"
    ]


def test_bad_paths_are_refused(tmp_path):
    assert path_problems(tmp_path / "100 % it's") == []
    assert len(path_problems(tmp_path / "a\nb")) == len(path_problems(tmp_path / "a\\b")) == 1


def test_percent_signs_of_a_path_are_escaped(runs, tmp_path):
    assert f"#SBATCH --output={tmp_path}/%%j/slurm/%A_%a.txt" in batch_script(
        JobArray(tuple(runs)), tmp_path / "%j", "x", SlurmOptions()
    )


def test_jobs_are_recorded_and_found_in_the_queue(tmp_path, monkeypatch):
    assert read_jobs(tmp_path) == queued_jobs(tmp_path, {}) == {}
    (tmp_path / "slurm").mkdir()
    record_job(tmp_path, "12", tmp_path / "slurm/1.sh", ["a", "b", "c"], [])
    record_job(tmp_path, "13", tmp_path / "slurm/2.sh", ["c"], ["a"])
    jobs = read_jobs(tmp_path)
    assert {run: job.task for run, job in jobs.items()} == {"a": "12_0", "b": "12_1", "c": "13_0"}
    assert jobs["c"].needs == ("a",)
    bin = tmp_path / "bin"
    bin.mkdir()
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    lines = (
        "12_0|RUNNING|None",
        "12_1|CANCELLED|None",
        "12_2|PENDING|Priority",
        "13_0|PENDING|Dependency",
        "14|RUNNING|None",
    )
    program(
        bin, "squeue", f"echo \"$@\" >{tmp_path}/squeue_arguments; printf '%s\\n' {' '.join(map(shlex.quote, lines))}"
    )
    assert {run: (job.state, job.reason) for run, job in queued_jobs(tmp_path, jobs).items()} == {
        "a": ("RUNNING", ""),
        "c": ("PENDING", "Dependency"),
    }
    assert f"--user={os.getuid()}" in (tmp_path / "squeue_arguments").read_text()
    program(bin, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(ConfigError, match=r"^squeue: slurm_load_jobs error: Unable to contact slurm controller$"):
        queued_jobs(tmp_path, jobs)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert queued_jobs(tmp_path, jobs) is None


def test_damaged_job_records_are_refused(tmp_path):
    (tmp_path / "slurm").mkdir()
    for text in ("{", "[]", '{"jobs": 3}', '{"jobs": [{"id": "3"}]}', '{"jobs": [3]}'):
        (tmp_path / "slurm/jobs.json").write_text(text)
        with pytest.raises(ConfigError):
            read_jobs(tmp_path)


def test_each_step_of_a_job_has_its_own_port():
    from zoo.training.runtime.processes import from_slurm

    def group(job, step, **more):
        return from_slurm(
            {
                "SLURM_JOB_ID": str(job),
                "SLURM_STEP_ID": str(step),
                "SLURM_STEP_NUM_TASKS": "4",
                "SLURM_PROCID": "3",
                "SLURM_STEP_TASKS_PER_NODE": "1(x4)",
                **more,
            }
        )

    ports = {group(job, step).port for job in range(1000, 1060) for step in range(6)}
    assert len(ports) == 360
    assert all(20000 <= port < 32000 for port in ports)
    assert (group(7, 0).process, group(7, 0).processes, group(7, 0).all_devices) == (3, 4, True)
    assert not group(7, 0, SLURM_STEP_TASKS_PER_NODE="2(x2)").all_devices
    assert group(7, 0, SLURM_STEP_NUM_TASKS="1") is None
    assert from_slurm({"SLURM_JOB_ID": "3", "SLURM_NTASKS": "2", "SLURM_PROCID": "0"}) is None


# sbatch refuses the second script: that of another array, or that of the job which goes on.
@pytest.mark.parametrize(("array_size", "continuation", "recorded"), [(2, (), 2), (4, ("run", "it.py"), 4)])
def test_jobs_submitted_before_an_error_are_reported(runs, tmp_path, monkeypatch, array_size, continuation, recorded):
    bin = tmp_path / "bin"
    bin.mkdir()
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    monkeypatch.setattr("zoo.lab.launch.slurm.MAX_ARRAY_SIZE", array_size)
    program(
        bin,
        "sbatch",
        "[ -e once ] && { echo 'sbatch: error: Batch job submission failed: Invalid qos' >&2; exit 1; }; >once; echo 12",
    )
    with pytest.raises(ConfigError) as caught:
        SlurmLauncher("x", replace(SlurmOptions(), qos="no"), continuation=continuation).launch(runs, tmp_path)
    assert caught.value.problems == [
        "sbatch: Batch job submission failed: Invalid qos",
        "jobs 12 were submitted before; scancel cancels them",
    ]
    assert set(read_jobs(tmp_path)) == {run.folder for run in runs[:recorded]}
    assert [path.name for path in (tmp_path / "slurm").glob("*.sh")] == ["1.sh"]


def test_jobs_submitted_from_a_job_take_over_nothing_of_it(tmp_path, monkeypatch):
    bin = tmp_path / "bin"
    bin.mkdir()
    program(bin, "sbatch", "env")
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    of_user = {"SLURM_CONF": "/etc/other.conf", "SBATCH_ACCOUNT": "lab", "HOME_OF_DATA": "/data"}
    of_job = {"SLURM_CPU_BIND": "mask_cpu:0x3", "SLURM_CPUS_PER_TASK": "2", "SLURMD_NODENAME": "n1", "PMIX_RANK": "0"}
    for name, value in (of_user | of_job).items():
        monkeypatch.setenv(name, value)

    def handed_over():
        given = dict(line.split("=", 1) for line in run_slurm_command(["sbatch"]).splitlines() if "=" in line)
        return {name: given.get(name) for name in of_user | of_job}

    assert handed_over() == of_user | of_job
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    assert handed_over() == of_user | dict.fromkeys(of_job)
