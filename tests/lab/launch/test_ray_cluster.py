"""Sweeps on a Ray cluster of three nodes on this machine, of which one is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from tests.support.small_runs import curves
from zoo import load
from zoo.cli.main import main
from zoo.lab.report import build
from zoo.training.records.run_folder import RunFolder

ray = pytest.importorskip("ray")
cluster_utils = pytest.importorskip("ray.cluster_utils")

ROOT = Path(__file__).parents[3]
pytestmark = [pytest.mark.promise(reason="a Ray cluster of three nodes is started"), pytest.mark.faults]

EXPERIMENT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.small_runs import small
from zoo import config
from zoo.lab.experiment import Experiment, Prerequisite

def get_experiment(size=""):
    base = small(training__steps=1000, training__log_every=10, training__eval_every=0, training__checkpoint_every=50)
    first = config.override(base, {{"training.steps": 20, "data.batch_size": 4}})
    return Experiment(
        name="staged", question="Does it help?", base=base, seeds=(0,), contrasts=(), allow=("tokens",),
        prerequisites={{"first": Prerequisite(first)}},
        factors={{"start": {{"trained": {{"training.start_from": "prerequisite:first"}}, "fresh": {{"training.start_from": ""}}}}}})
"""


@pytest.fixture
def cluster(monkeypatch):
    """Three nodes of one core each; the first one is the head."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # By default, a node that is silent is given up after half a minute.
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    node = {"num_cpus": 1, "memory": 4 << 30, "object_store_memory": 80 << 20}
    found = cluster_utils.Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False, "_system_config": quick}
    )
    for _ in range(2):
        found.add_node(**node)
    yield found
    found.shutdown()


def parent_of(process):
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def descendants(process):
    every = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    children = [other for other in every if parent_of(other) == process]
    return [*children, *(below for child in children for below in descendants(child))]


def kill(node):
    """Kills all processes of a node at once, as when its machine is lost."""
    raylet = node.all_processes["raylet"][0].process.pid
    for process in [raylet, *descendants(raylet)]:
        os.kill(process, signal.SIGKILL)


def node_of(run, nodes):
    """The node that trains a run; None if none does."""
    process = int((run / ".lock").read_text().split()[1])
    for node in nodes:
        if process in descendants(node.all_processes["raylet"][0].process.pid):
            return node
    return None


def zoo(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "zoo.cli.main", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def output(process):
    text = process.communicate()[0]
    assert process.returncode == 0, text
    return text


def until(condition, process, seconds=200):
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "too slow"
        time.sleep(0.02)


@pytest.fixture
def results(tmp_path, monkeypatch, capsys):
    """Returns what the report of a sweep says, without its figures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "write_figures", lambda sweep, folder: [])

    def read(name):
        assert main(["report", name, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found.pop("report") == f"{name}/report.html"
        return found

    return read


def parameters(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(load(run).parameters)]


def test_a_sweep_outlives_a_node(cluster, results, tmp_path):
    (tmp_path / "it.py").write_text(EXPERIMENT)
    kill_at = random.SystemRandom().randrange(150, 600)
    sweep, run = tmp_path / "spread", tmp_path / "spread/start=fresh-seed0"
    process = zoo(tmp_path, "run", "it.py", "--output=spread", f"--ray={cluster.address}")
    until(lambda: RunFolder(run).tail().step >= kill_at, process)
    kill(node_of(run, [cluster.head_node, *cluster.worker_nodes]))
    out = output(process)
    assert "retry    start=fresh seed 0: Ray has started it again" in out
    assert "report: spread/report.html" in out
    assert "continuing from step " in (run / "log.txt").read_text(), f"killed at {kill_at}"
    output(zoo(tmp_path, "run", "it.py", "--output=together"))
    folders = [path.parent.name for path in sorted(sweep.glob("*/status.json"))]
    assert len(folders) == 3
    for name in folders:
        here, there = sweep / name, tmp_path / "together" / name
        assert json.loads((here / "status.json").read_text())["state"] == "done"
        assert (here / "log.txt").read_text().count("done: ") == 1
        assert curves(here) == curves(there)
        for mine, theirs in zip(parameters(here), parameters(there), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert results("spread") == results("together")
