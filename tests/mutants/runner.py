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
    "publication",
    "train.py",
    "eval.py",
    "pyproject.toml",
    "README.md",
    "Makefile",
)
# The tests that continuous integration runs.
GROUPS = "not gpu and not slow"
# Exit codes of pytest: tests failed, or collection was interrupted, e.g. by an import error.
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
    """Runs the tests on the copy until the first failure, without those that CI skips."""
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
    """Returns whether a test fails on the copy.

    Raises:
        RuntimeError: pytest could not run them, e.g. because there is no test of that name.
    """
    completed = run_tests(copy, tests)
    if completed.returncode not in (0, *FAILED):
        raise RuntimeError(
            f"{', '.join(tests)}: pytest ended with {completed.returncode}\n{completed.stdout[-2000:]}{completed.stderr[-2000:]}"
        )
    return completed.returncode in FAILED


def is_caught(mutant: Mutant, copy: Path) -> bool:
    """Returns whether one of the fault's tests fails when the fault is applied."""
    with mutant.applied(copy):
        return fails(copy, mutant.tests)


def failing_without_fault(mutants: Sequence[Mutant], copy: Path) -> list[str]:
    """Returns the tests that fail even without a fault, and so cannot catch one."""
    groups = dict.fromkeys(mutant.tests for mutant in mutants)
    # A process that runs all of them starts once.
    if not fails(copy, tuple(dict.fromkeys(test for tests in groups for test in tests))):
        return []
    return [", ".join(tests) for tests in groups if fails(copy, tests)]
