"""`zoo new`: files that work as they are written."""

import errno
import os

import pytest

from zoo import config as configs
from zoo.cli import main, new_file
from zoo.config import plugins


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_experiment_can_be_run(folder, capsys):
    assert main.main(["new", "experiment", "my_norms"]) == 0
    output = capsys.readouterr().out
    assert "zoo run my_norms.py --dry-run" in output
    assert main.main(["run", "my_norms.py", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "6 of 6 runs would be trained, 1 at a time, in runs/my_norms" in planned
    assert "expected: they end within 0.02 nats" in planned
    assert [path.name for path in folder.iterdir()] == ["my_norms.py"]


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(monkeypatch, capsys):
    def refuse(path, content):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(new_file, "write_atomic", refuse)
    assert main.main(["new", "variant", "my_square"]) == 2
    assert capsys.readouterr().err == "error: my_square.py: Read-only file system\n"


def test_a_new_variant_can_be_described_and_chosen(folder, capsys):
    assert main.main(["new", "variant", "my_square"]) == 0
    assert "class MySquare(plugin.FeedForward)" in (folder / "my_square.py").read_text()
    plugin = plugins.load_plugin("my_square.py")
    try:
        assert "my_square" in configs.BY_PATH["model.ffn.kind"].choices
        assert main.main(["describe", "my_square"]) == 0
        assert "max(0, x W_up)^2 W_down" in capsys.readouterr().out
    finally:
        plugins.unload(plugin)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["experiment", "../x"], "use lower-case letters"),
        (["experiment", "There"], "use lower-case letters"),
        (["variant", "there"], "there.py exists already; nothing was written"),
        (["config", "x"], "invalid choice: 'config'"),
    ],
)
def test_bad_names_and_existing_files_are_refused(folder, capsys, words, message):
    (folder / "there.py").write_text("mine")
    assert main.main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert (folder / "there.py").read_text() == "mine"
    assert len(list(folder.iterdir())) == 1
