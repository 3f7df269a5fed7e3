"""Sweeps on a real SLURM cluster: submitted runs are trained, resume after a stop, and give the same
curves on several nodes.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugins.plugin_files import POWER
from tests.support.small_runs import curves, lines

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.promise(reason="a SLURM of two nodes is started")

EXPERIMENT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.small_runs import small
from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, levels

def get_experiment(size="12"):
    base = small(training__steps=int(size), training__log_every=4, training__eval_every=0, training__checkpoint_every=0)
    if size == "4":
        arms = levels("model.norm.placement", "pre", "post")
        pre, post = Side({{"norm": "pre"}}), Side({{"norm": "post"}})
        contrasts = (Contrast("pre wins", pre, post, "superiority", 0.0, "pre ends below post"),)
        claim = Claim("X1", "pre is better", "nobody", floor="none", floor_reason="Four steps are a test of jobs.")
        return Experiment(
            name="looks", question="?", base=base, factors={{"norm": arms}}, seeds=(0, 1), contrasts=contrasts, claim=claim)
    if size != "12":
        return Experiment(name="long", question="?", base=base, factors={{}}, seeds=(0,), contrasts=())
    base = config.override(base, {{"model.ffn.kind": "relu_power"}})
    return Experiment(
        name="staged", question="Does it help?", base=base, seeds=(0,), contrasts=(), allow=("tokens",),
        prerequisites={{"first": Prerequisite(config.override(base, {{"data.batch_size": 4}}))}},
        factors={{"start": {{"trained": {{"training.start_from": "prerequisite:first"}}, "fresh": {{"training.start_from": ""}}}}}})
"""


@pytest.fixture
def zoo(slurm, tmp_path):
    (tmp_path / "it.py").write_text(EXPERIMENT)
    (tmp_path / "mine.py").write_text(POWER)

    def call(*arguments):
        environment = {**slurm.environment, "PYTHONPATH": str(ROOT)}
        completed = subprocess.run(
            [sys.executable, "-m", "zoo.cli.main", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert completed.returncode == 0, completed.stdout + completed.stderr
        return completed.stdout

    return call


def states(zoo, sweep):
    return {run["folder"]: run for run in json.loads(zoo("status", sweep, "--json"))["runs"]}


def jobs(sweep):
    """The ids of the jobs that were submitted for a sweep."""
    return [job["id"] for job in json.loads((sweep / "slurm/jobs.json").read_text())["jobs"]]


def queue_is_empty(slurm):
    return not slurm.call("squeue", "--noheader").strip()


def test_sweep_with_prerequisite_and_plugin_in_an_oddly_named_folder(slurm, zoo, tmp_path):
    sweep = 'it\'s %j "so" $HOME'
    out = zoo(
        "run",
        "it.py",
        "--plugin",
        "mine.py",
        "--slurm",
        "--partition",
        "low",
        "--time",
        "10",
        "--output",
        sweep,
        '--sbatch=--comment=it\'s "so" # big',
    )
    assert "submitted: 3 runs as jobs " in out
    assert 'it\'s "so" # big' in slurm.call("squeue", "--noheader", "--states=all", "--format=%k")
    slurm.until(lambda: queue_is_empty(slurm))
    found = states(zoo, sweep)
    assert {run["state"] for run in found.values()} == {"done"}, found
    meta = json.loads((tmp_path / sweep / "start=trained-seed0/meta.json").read_text())
    assert meta["started_from"]["folder"].startswith(f"{sweep}/first-seed0-")
    assert (tmp_path / sweep / "start=trained-seed0/plugins/mine.py").read_text() == POWER
    assert "report: " in zoo("run", "it.py", "--plugin", "mine.py", "--slurm", "--output", sweep)


def test_a_stopped_job_resumes_from_its_last_step(slurm, zoo, tmp_path):
    zoo("run", "it.py:2000", "--slurm", "--output", "stopped")
    run = tmp_path / "stopped/long-seed0"
    job = json.loads((tmp_path / "stopped/slurm/jobs.json").read_text())["jobs"][0]["id"]
    slurm.until(lambda: (run / "metrics.jsonl").exists() and len((run / "metrics.jsonl").read_bytes()) > 0)
    slurm.call("scancel", "--signal=TERM", job)
    slurm.until(lambda: "continuing" in (run / "log.txt").read_text())
    step = int(re.search(r"stopped at step (\d+) of 2000", (run / "log.txt").read_text())[1])
    assert 0 < step < 2000
    # Meanwhile, the same run is trained without a stop.
    zoo("run", "it.py:2000", "--output", "straight")
    slurm.until(lambda: queue_is_empty(slurm))
    assert states(zoo, "stopped")["long-seed0"]["state"] == "done"
    assert f"continuing from step {step} of 2000" in (run / "log.txt").read_text()
    assert curves(run) == curves(tmp_path / "straight/long-seed0")


def test_a_task_that_fails_before_its_run_records_anything_shows_its_own_error(slurm, zoo, tmp_path):
    zoo("run", "it.py:13", "--slurm", "--output", "bad", "--sbatch=--begin=now+3600")
    run, job = tmp_path / "bad/long-seed0", jobs(tmp_path / "bad")[0]
    # A held job waits, and is not submitted again.
    slurm.call("scontrol", "hold", job)
    assert "in SLURM's queue: JobHeld" in states(zoo, "bad")["long-seed0"]["reason"]
    assert "in the queue already" in zoo("run", "it.py:13", "--slurm", "--output", "bad")
    record = json.loads((run / "config.json").read_text())
    record["data"]["source"] = "text:gone.txt"
    (run / "config.json").write_text(json.dumps(record))
    slurm.call("scontrol", "release", job)
    slurm.call("scontrol", "update", f"jobid={job}", "StartTime=now")
    slurm.until(lambda: queue_is_empty(slurm))
    found = states(zoo, "bad")["long-seed0"]
    assert found["state"] == "failed"
    assert "gone.txt" in found["reason"]
    assert "srun" not in found["reason"]


def test_a_run_on_a_lost_node_keeps_its_status_while_its_job_is_requeued_elsewhere(slurm, zoo, tmp_path):
    zoo("run", "it.py:1000", "--slurm", "--output", "lost")
    run, job = tmp_path / "lost/long-seed0", jobs(tmp_path / "lost")[0]
    slurm.until(lambda: (run / "metrics.jsonl").exists() and len((run / "metrics.jsonl").read_bytes()) > 0)
    node = slurm.call("squeue", "--noheader", "--array", "--format=%N", f"--job={job}").strip()
    process = int((run / ".lock").read_text().split()[1])
    # It stands still until another attempt has begun.
    os.kill(process, signal.SIGSTOP)
    try:
        with slurm.lost(node):
            slurm.until(lambda: "is in use by process" in (run / "log.txt").read_text())
            slurm.until(lambda: "PENDING" in slurm.call("squeue", "--noheader", "--format=%T"))
            assert states(zoo, "lost")["long-seed0"]["state"] == "running"
            assert "in the queue already" in zoo("run", "it.py:1000", "--slurm", "--output", "lost")
            os.kill(process, signal.SIGCONT)
            slurm.until(lambda: queue_is_empty(slurm))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
    assert states(zoo, "lost")["long-seed0"]["state"] == "done"
    assert "continuing" not in (run / "log.txt").read_text()


def test_two_nodes_give_the_curves_of_one_process(slurm, zoo, tmp_path):
    zoo("run", "it.py:13", "--slurm", "--nodes", "2", "--output", "two")
    zoo("run", "it.py:13", "--output", "one")
    slurm.until(lambda: queue_is_empty(slurm))
    one, two = (lines(tmp_path / name / "long-seed0") for name in ("one", "two"))
    assert json.loads((tmp_path / "two/long-seed0/meta.json").read_text())["device"]["count"] == 2
    assert [line["step"] for line in one] == [line["step"] for line in two]
    for ours, theirs in zip(one, two, strict=True):
        for name in {"train/loss", "eval/loss", "tokens"} & ours.keys():
            assert theirs[name] == pytest.approx(ours[name], rel=1e-5)


def test_looks_and_the_report_follow_by_themselves(slurm, zoo, tmp_path):
    """The job after the first runs adds a seed, and another job, which writes the report."""
    zoo("run", "it.py:4", "--until-decided", "--max-seeds", "3", "--slurm", "--output", "looks")
    slurm.until(lambda: queue_is_empty(slurm), seconds=500)
    sweep = tmp_path / "looks"
    assert [len(job["runs"]) for job in json.loads((sweep / "slurm/jobs.json").read_text())["jobs"]] == [4, 0, 2, 0]
    assert {run["state"] for run in states(zoo, "looks").values()} == {"done"}
    assert (sweep / "report.html").exists()
    assert "report: looks/report.html" in (sweep / f"slurm/{jobs(sweep)[-1]}.txt").read_text()
