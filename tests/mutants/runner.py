"""Runs the tests of a deliberate fault on a copy of the repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.mutants.mutant import Mutant

PARTS = (
    "zoo",
    "tests",
    "configs",
    "experiments",
    "docs",
    "benchmarks",
    "train.py",
    "eval.py",
    "pyproject.toml",
    "README.md",
    "Makefile",
)
# What continuous integration runs.
GROUPS = "not gpu and (not slow or promise)"
# Exit codes of pytest: some tests failed; interrupted, as where a module cannot be imported.
FAILED = (1, 2)


def copy_sources(root: Path, folder: Path) -> Path:
    """Copies what the tests need into `folder` and returns it."""
    for part in PARTS:
        if (root / part).is_dir():
            shutil.copytree(root / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(root / part, folder / part)
    return folder


def run_tests(copy: Path, tests: tuple[str, ...]) -> subprocess.CompletedProcess:
    """Runs tests of the copy, those of continuous integration, until the first failure."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        GROUPS,
        "--durations=0",
        *tests,
    ]
    environment = os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Whether a test that is named for the fault fails when the fault is there.

    Raises:
        RuntimeError: pytest could not run them: there is no test of that name, for one.
    """
    with mutant.applied(copy):
        done = run_tests(copy, mutant.tests)
    if done.returncode not in (0, *FAILED):
        raise RuntimeError(
            f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode in FAILED
