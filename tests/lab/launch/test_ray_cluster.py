"""Sweeps on a Ray cluster of three nodes on this machine, of which one is killed."""

import json
import os
import random
import signal
import threading
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
    base = small(training__steps=800, training__log_every=10, training__eval_every=0, training__checkpoint_every=50)
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


def kill_node_at(step, run, nodes):
    """Starts a thread that kills the node which trains a run, once it has written that step."""

    def main():
        deadline = time.monotonic() + 400
        while RunFolder(run).tail().step < step and time.monotonic() < deadline:
            time.sleep(0.02)
        kill(node_of(run, nodes))

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    return thread


@pytest.fixture
def zoo(tmp_path, monkeypatch, capsys):
    """Calls `zoo` in a folder with the experiment; figures are left out. Returns the output."""
    (tmp_path / "it.py").write_text(EXPERIMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "write_figures", lambda sweep, folder: [])

    def call(*arguments):
        code = main(list(arguments))
        out = capsys.readouterr().out
        assert code == 0, out
        return out

    return call


def results(zoo, name):
    found = json.loads(zoo("report", name, "--json"))
    assert found.pop("report") == f"{name}/report.html"
    return found


def parameters(run):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(load(run).parameters)]


def test_a_sweep_outlives_a_node(cluster, zoo, tmp_path):
    kill_at = random.SystemRandom().randrange(150, 500)
    sweep, run = tmp_path / "spread", tmp_path / "spread/start=fresh-seed0"
    thread = kill_node_at(kill_at, run, [cluster.head_node, *cluster.worker_nodes])
    out = zoo("run", "it.py", "--output=spread", f"--ray={cluster.address}")
    thread.join(1)
    assert not thread.is_alive()
    assert "retry    start=fresh seed 0: Ray has started it again" in out
    assert "continuing from step " in (run / "log.txt").read_text(), f"killed at {kill_at}"
    zoo("run", "it.py", "--output=together")
    folders = [path.parent.name for path in sorted(sweep.glob("*/status.json"))]
    assert len(folders) == 3
    for name in folders:
        here, there = sweep / name, tmp_path / "together" / name
        assert json.loads((here / "status.json").read_text())["state"] == "done"
        assert (here / "log.txt").read_text().count("done: ") == 1
        assert curves(here) == curves(there)
        for mine, theirs in zip(parameters(here), parameters(there), strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert results(zoo, "spread") == results(zoo, "together")
