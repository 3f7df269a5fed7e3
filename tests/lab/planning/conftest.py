"""A tuned sweep with fake training runs (`tests.support.tuned_norms`)."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.support.tuned_norms import CURVES, FLAGS


@pytest.fixture
def zoo(command_line):
    """`zoo run` of the experiment with the two arms of `experiment`."""
    text = Path("norms.py").read_text()
    own = (
        'factors={"norm": levels("model.norm.placement", "pre", "post"), "warm-up": levels("schedule.warmup_steps", 0)}'
    )
    changed = text.replace("fake_run.experiment(size=size)", f"fake_run.experiment(size=size, {own})")
    assert changed != text
    Path("norms.py").write_text("from zoo.lab.experiment import levels\n" + changed)
    return partial(command_line, "run", "norms.py")


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """The folder in which the finished sweep of `tuned` is kept for other tests."""
    return tmp_path_factory.mktemp("tuned") / "runs"


@pytest.fixture
def tuned(zoo, kept):
    """`zoo run` in a folder with the finished sweep of `FLAGS` and `CURVES`."""
    if kept.exists():
        shutil.copytree(kept, "runs")
    else:
        assert zoo(*FLAGS, curves=CURVES)[0] == 0
        shutil.copytree("runs", kept)
    return partial(zoo, curves=CURVES)
