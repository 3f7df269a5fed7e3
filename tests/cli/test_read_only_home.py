"""Where the home folder cannot be written, Matplotlib does not warn in every process."""

import os
import subprocess
import sys

import pytest

from zoo.files import keep_matplotlib_quiet

HERE = {"HOME": "/dev/null/home", "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}


@pytest.fixture
def home(monkeypatch):
    """A home below a file, in which no user can write."""
    for name, value in HERE.items():
        monkeypatch.setenv(name, value)
    # Set first, so that it is restored.
    monkeypatch.setenv("MPLCONFIGDIR", "")
    monkeypatch.delenv("MPLCONFIGDIR")
    return monkeypatch


def test_matplotlib_gets_a_folder_that_can_be_written(home, tmp_path):
    home.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    keep_matplotlib_quiet()
    assert os.environ["MPLCONFIGDIR"] == str(tmp_path / "cache" / "matplotlib")
    home.delenv("MPLCONFIGDIR")
    home.delenv("ZOO_CACHE")
    keep_matplotlib_quiet()
    assert os.environ["MPLCONFIGDIR"].endswith(f"zoo-matplotlib-{os.getuid()}")


def test_a_folder_that_is_given_or_can_be_written_is_left_alone(home, tmp_path):
    home.setenv("MPLCONFIGDIR", "chosen")
    keep_matplotlib_quiet()
    assert os.environ["MPLCONFIGDIR"] == "chosen"
    home.delenv("MPLCONFIGDIR")
    home.setenv("HOME", str(tmp_path / "new"))
    keep_matplotlib_quiet()
    assert "MPLCONFIGDIR" not in os.environ
    assert not (tmp_path / "new").exists()


def test_a_figure_is_drawn_without_a_warning(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "MPLCONFIGDIR"}
    command = [
        sys.executable,
        "-m",
        "zoo.cli.main",
        "draw",
        "sinusoids",
        "--length",
        "8",
        "--dim",
        "8",
        "--format",
        "svg",
        "--out",
        "out",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | HERE | {"ZOO_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "out/sinusoids.svg\n"), done.stderr
    assert "atplotlib created" not in done.stderr
