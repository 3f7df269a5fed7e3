"""A package installed from the wheel works outside the checkout."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from zoo import config as configs
from zoo.errors import ConfigError
from zoo.lab.experiment import load_experiment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the contents of the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("ablation_zoo-*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "content")
    return folder / "content"


def zoo(installed, folder, *arguments):
    """Runs a command of the installed package in a folder without the checkout."""
    return subprocess.run(
        [sys.executable, "-c", "import sys; from zoo.cli.main import main; sys.exit(main())", *arguments],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(installed)}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.promise(reason="a wheel is built")
def test_a_wheel_can_be_built_from_what_the_dockerfile_copies(tmp_path):
    ignored = (ROOT / ".dockerignore").read_text().split()
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            *sources, target = line.split()[1:]
            for source in sources:
                assert f"!{source}" in ignored
                place = tmp_path / target / source if target == "./" else tmp_path / target
                place.parent.mkdir(parents=True, exist_ok=True)
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, place)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "made")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    names = zipfile.ZipFile(next((tmp_path / "made").glob("*.whl"))).namelist()
    assert {"zoo/shipped/configs/gpt2.py", "zoo/shipped/docs/glossary.md", "zoo/cli/main.py"} <= set(names)


@pytest.mark.promise(reason="a wheel is built and installed")
def test_wheel_runs_bundled_configs_and_experiments_in_an_empty_folder(installed, tmp_path):
    planned = zoo(installed, tmp_path, "run", "norm_placement:quick", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "12 of 12 runs would be trained" in planned.stdout
    # An experiment finds the config that it builds on inside the wheel.
    listed = {each["name"] for each in json.loads(zoo(installed, tmp_path, "experiments", "--json").stdout)}
    assert listed == {path.stem for path in (ROOT / "experiments").glob("*.py")}
    built = zoo(installed, tmp_path, "run", "next_sentence", "--dry-run")
    assert built.returncode == 0, built.stderr
    checked = zoo(installed, tmp_path, "config", "validate", "finetune/tagging:tiny")
    assert checked.returncode == 0, checked.stderr
    # The glossary is a page of the documentation.
    explained = zoo(installed, tmp_path, "describe", "kv-cache")
    assert "docs/generation.md" in explained.stdout, explained.stderr
    # Their measures and drawings too.
    measured = zoo(installed, tmp_path, "run", "position_vectors", "--dry-run")
    assert measured.returncode == 0, measured.stderr
    drawn = zoo(installed, tmp_path, "draw", "neighbours", "--help")
    assert "--count" in drawn.stdout, drawn.stderr
    assert not list(tmp_path.rglob("*"))


@pytest.mark.promise(reason="a wheel is built and installed")
def test_wheel_contains_the_package_alone(installed):
    """Tests, benchmarks and what makes this repository's pages stay out."""
    assert [path.name for path in installed.iterdir() if path.suffix != ".dist-info"] == ["zoo"]


def test_bundled_names_resolve_in_any_folder_and_local_files_take_precedence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert configs.load("llama:tiny") == configs.load(f"{ROOT}/configs/llama.py:tiny")
    assert load_experiment("heads").name == load_experiment(f"{ROOT}/experiments/heads.py").name
    # A run's folder with the name of a config is read as that run.
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps({"model": {"dim": 24}}))
    assert configs.load("llama").model.dim == 24


@pytest.mark.parametrize(
    ("load", "spec", "message"),
    [
        (configs.load, "lama:tiny", 'did you mean "llama"'),
        (configs.load, "heads", "heads is the name of an experiment"),
        (configs.load, "configs/llama.py:tiny", "the one that comes with zoo is called llama"),
        (configs.load, "finetune/tagging.py:tiny", "the one that comes with zoo is called finetune/tagging"),
        (load_experiment, "llama", "llama is the name of a config"),
        (load_experiment, "head", 'did you mean "heads"'),
        (load_experiment, "experiments/heads.py", "the one that comes with zoo is called heads"),
        (load_experiment, "experiments/nothing.py", "does not exist"),
    ],
)
def test_unknown_name_is_refused_in_one_line(tmp_path, monkeypatch, load, spec, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=message):
        load(spec)
