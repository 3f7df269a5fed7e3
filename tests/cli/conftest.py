"""Runs here share compiled programs; `zoo run` works in a folder with a config file."""

from functools import partial
from pathlib import Path

import pytest

FAKE_RUN = Path(__file__).parents[1] / "lab" / "fake_run.py"


@pytest.fixture(autouse=True, scope="module")
def all_share_programs(shared_programs):
    """Every module here uses `shared_programs`."""


@pytest.fixture
def folder(tmp_path):
    """The working directory, with a config file in it."""
    (tmp_path / "small.py").write_text(
        "from zoo import config\ndef get_config(argument='x'):\n    return config.override("
        "config.default(), {'training.steps': 40, 'data.batch_size': 2, "
        f"'data.source': 'text:{FAKE_RUN}'}})\n"
    )
    return tmp_path


@pytest.fixture
def zoo(folder, command_line):
    """`zoo run`, called with its arguments."""
    return partial(command_line, "run")
