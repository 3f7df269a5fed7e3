"""Annotations of types and shapes hold in a step of training, an evaluation and decoding, in every
architecture.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# One of each architecture, of each kind of attention and position, and of each kind of examples.
FEW = (
    "gpt",
    "llama",
    "buckets, deepnorm",
    "shaw, post-norm",
    "kinds, scanned",
    "band",
    "bert",
    "longformer",
    "performer",
    "prefix",
    "translation",
    "elmo",
    "tagging",
    "extraction",
)


def problems(cases):
    """Returns what a process that checks annotations prints about `cases`, all by default; nothing if
    every annotation holds.
    """
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    run = subprocess.run(
        [sys.executable, "-m", "tests.shape_checks", *cases],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    return run.stdout + run.stderr if run.returncode else ""


@pytest.mark.promise
def test_annotations_hold():
    assert problems(FEW) == ""


@pytest.mark.slow
def test_annotations_hold_in_all_cases():
    assert problems(()) == ""
