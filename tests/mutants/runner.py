"""Runs the tests of a deliberate fault on a copy of the repository."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
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
GROUPS = "not gpu and not slow"
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


def fails(copy: Path, tests: tuple[str, ...]) -> bool:
    """Whether a test fails on the copy as it is.

    Raises:
        RuntimeError: pytest could not run them: there is no test of that name, for one.
    """
    done = run_tests(copy, tests)
    if done.returncode not in (0, *FAILED):
        raise RuntimeError(
            f"{', '.join(tests)}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode in FAILED


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Whether a test that is named for the fault fails when the fault is there."""
    with mutant.applied(copy):
        return fails(copy, mutant.tests)


def failing_without_fault(mutants: Sequence[Mutant], copy: Path) -> list[str]:
    """Returns the tests that fail without any fault, and so cannot notice one."""
    return [", ".join(tests) for tests in dict.fromkeys(mutant.tests for mutant in mutants) if fails(copy, tests)]
