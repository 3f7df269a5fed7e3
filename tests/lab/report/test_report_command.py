import argparse

import pytest

from zoo.cli.sweeps import report as command
from zoo.errors import ConfigError


@pytest.fixture
def run():
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers(required=True))

    def call(*words):
        args = parser.parse_args([str(word) for word in words])
        return args.handler(args)

    return call


def test_report_prints_path_and_verdict(run, writer, capsys):
    folder = writer.sweep()
    assert run("report", folder) == 0
    path, verdict = capsys.readouterr().out.splitlines()
    assert path == str(folder / "report.html")
    assert verdict.startswith("Supported: norm=post, warm-up=100 ends 1.022 nats below")


def test_report_writes_elsewhere(run, writer, tmp_path):
    assert run("report", writer.sweep(), "--output", tmp_path / "new" / "page.html") == 0
    assert (tmp_path / "new" / "page.html").exists()
    assert (tmp_path / "new" / "page" / "loss_by_step.png").exists()


def test_compare(run, writer, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = writer.run("b", final=2.0, config={"model": {"dim": 128}})
    assert run("compare", writer.run("a"), other) == 0
    assert (tmp_path / "comparison.html").exists()
    assert "lowest final eval/loss is 2, reached by" in capsys.readouterr().out


def test_bad_folders(run, tmp_path):
    with pytest.raises(ConfigError, match="no such folder"):
        run("report", tmp_path / "none")
    with pytest.raises(ConfigError, match="no such folder"):
        run("compare", tmp_path / "none")
    assert not list(tmp_path.iterdir())
