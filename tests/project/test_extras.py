"""What is said about installing names extras that exist, and no package that is not on the index."""

import re
import tomllib
from pathlib import Path

from zoo.training.records.trackers import TRACKERS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = set(PROJECT["optional-dependencies"])


def texts():
    """The files that people, or commands, read advice from."""
    paths = [*ROOT.glob("*.md"), ROOT / "Makefile", *(ROOT / "docs").rglob("*.md"), *(ROOT / "zoo").rglob("*.py")]
    return {path: path.read_text(encoding="utf-8") for path in [*paths, *(ROOT / "configs").rglob("*.py")]}


def test_advice_about_installing_names_what_exists():
    for path, text in texts().items():
        # The index has no package of this name, or one of somebody else.
        assert not re.search(r"pip install[^\n]*ablation-zoo", text), path
        for names in re.findall(r"pip install[^\n]*['\"]\.\[([\w,-]+)\]", text):
            assert set(names.split(",")) <= EXTRAS, (path, names)


def test_extras_of_trackers_have_their_package():
    found = {name: package for name, (package, _) in TRACKERS.items() if name in EXTRAS}
    assert set(found) == {"tensorboard", "wandb"}
    assert all(PROJECT["optional-dependencies"][name][0].startswith(package) for name, package in found.items())
