"""Averages of checkpoints: what is not averaged."""

import jax
import numpy as np

from tests.support.small_runs import small
from zoo.interop.averaging import average_run
from zoo.training.trained_run import load_trained
from zoo.training.trainer import run


def test_running_statistics_are_those_of_the_newest_checkpoint(tmp_path):
    fields = {"model__norm__kind": "batchnorm", "training__steps": 4, "training__checkpoint_every": 2}
    run(small(**fields, training__keep_checkpoints=2), tmp_path / "run", lambda line: None)
    assert average_run(tmp_path / "run", 2, tmp_path / "mean") == [2, 4]
    found, older, newest = (
        jax.tree.leaves(load_trained(tmp_path / folder, step).stats)
        for folder, step in (("mean", "4"), ("run", "2"), ("run", "4"))
    )
    assert len(found) == len(newest) > 0
    for one, before, last in zip(found, older, newest, strict=True):
        np.testing.assert_array_equal(one, last)
        assert (np.asarray(one) != np.asarray(before)).any()
