"""`zoo new`: files that work as they are written."""

import errno
import os
import shlex

import pytest

from tests.support.building import by_default
from zoo import config as configs
from zoo.checks import PROPERTIES, Subject
from zoo.checks.check import few_optimisations, outcome_of
from zoo.cli import main, new_file
from zoo.cli.variant_templates import TEMPLATES
from zoo.config import plugins
from zoo.lab.launch import cpu_processes


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_new_experiment_can_be_run(folder, capsys, monkeypatch):
    monkeypatch.setattr(cpu_processes, "available_cores", lambda: 3)
    assert main.main(["new", "experiment", "my_norms"]) == 0
    output = capsys.readouterr().out
    assert "zoo run my_norms.py --dry-run" in output
    assert main.main(["run", "my_norms.py", "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "6 of 6 runs would be trained, 3 at a time, in runs/my_norms" in planned
    assert "expected: they end within 0.02 nats" in planned
    assert [path.name for path in folder.iterdir()] == ["my_norms.py"]


def test_a_folder_that_cannot_be_written_is_reported_in_one_line(monkeypatch, capsys):
    def refuse(path, content):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(new_file, "write_atomic", refuse)
    assert main.main(["new", "variant", "my_square"]) == 2
    assert capsys.readouterr().err == "error: my_square.py: Read-only file system\n"


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_new_variant_can_be_described_chosen_and_checked(folder, capsys, monkeypatch, kind):
    few = {name: PROPERTIES[name] for name in ("shapes", "reference")}
    monkeypatch.setattr("zoo.checks.check.PROPERTIES", few)
    assert main.main(["new", "variant", "my_own", "--kind", kind]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].strip() == "zoo check --plugin my_own.py"
    plugin = plugins.load_plugin("my_own.py")
    try:
        field = TEMPLATES[kind][0]
        assert "my_own" in configs.BY_PATH[field].choices
        assert main.main(["describe", "my_own"]) == 0
        assert "this text is unchecked" in capsys.readouterr().out
        assert main.main(["check", "my_own"]) == 0
        shapes, reference = capsys.readouterr().out.splitlines()[1:3]
        assert shapes.split()[:2] == ["shapes", "pass"]
        compared = "not applicable" if kind in ("position", "objective") else "pass            they agree to"
        assert compared in reference
        # The command of the file's first lines is the one to use.
        words = shlex.split(said[2])
        assert words[:2] == ["zoo", "run"]
        assert main.main([*words[1:], "--dry-run"]) == 0
    finally:
        plugins.unload(plugin)


# About each of them, what `zoo check` compiles most for.
HARD = {"attention": ("cached generation", "beams", "causality", "packed documents"), "position": ("cached generation",),
        "norm": ("gradients",), "objective": ("gradients",), "optimizer": ("resume",), "schedule": ("resume",)}  # fmt: skip


@pytest.mark.parametrize(
    "kind", by_default(["attention"], HARD, pytest.mark.promise(reason="more small programs are compiled"))
)
def test_a_new_variant_has_the_properties_that_are_hard_to_have(folder, kind):
    assert main.main(["new", "variant", "my_own", "--kind", kind]) == 0
    plugin = plugins.load_plugin("my_own.py")
    try:
        subject = Subject.of(plugins.kinds_of(plugin)[0])
        with few_optimisations():
            assert {name: outcome_of(name, subject).state for name in HARD[kind]} == dict.fromkeys(HARD[kind], "pass")
    finally:
        plugins.unload(plugin)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["experiment", "../x"], "use lower-case letters"),
        (["experiment", "There"], "use lower-case letters"),
        (["variant", "there"], "there.py exists already; nothing was written"),
        (["config", "x"], "invalid choice: 'config'"),
        (["variant", "x", "--kind", "ffn"], "invalid choice: 'ffn'"),
        (["experiment", "x", "--kind", "norm"], "--kind norm is for zoo new variant"),
    ],
)
def test_bad_names_and_existing_files_are_refused(folder, capsys, words, message):
    (folder / "there.py").write_text("mine")
    assert main.main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert (folder / "there.py").read_text() == "mine"
    assert len(list(folder.iterdir())) == 1
