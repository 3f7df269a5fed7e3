"""Starts one SLURM cluster for all tests of this folder, if possible."""

from pathlib import Path

import pytest

from zoo import config

cluster_of_tests = config.import_file(Path(__file__).with_name("cluster.py"), "helper")


@pytest.fixture(scope="session")
def slurm():
    if reason := cluster_of_tests.missing():
        pytest.skip(f"no SLURM can be started here: {reason}")
    cluster = cluster_of_tests.Cluster()
    yield cluster
    cluster.close()
