"""Type and shape annotations hold in training, evaluation and decoding of every architecture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Cases that cover each architecture, kind of attention, position scheme and kind of examples.
FEW = (
    "gpt",
    "buckets, deepnorm",
    "shaw, post-norm",
    "kinds, scanned",
    "bert",
    "longformer",
    "performer",
    "translation",
    "elmo",
    "tagging",
    "extraction",
)


def problems(cases):
    """Returns the violations that an annotation-checking process prints for `cases` (all by
    default); empty if there are none.
    """
    run = subprocess.run(
        [sys.executable, "-m", "tests.project.shape_checks", *cases],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    return run.stdout + run.stderr if run.returncode else ""


@pytest.mark.promise(reason="another process checks the shapes of every call")
def test_annotations_hold_in_selected_cases():
    assert problems(FEW) == ""


@pytest.mark.slow(reason="the same with every config")
def test_annotations_hold_in_all_cases():
    assert problems(()) == ""
