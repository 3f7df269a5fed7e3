"""A small part of the standard library as training text; reading all of it takes many seconds."""

import contextlib
import shutil
import sysconfig
from pathlib import Path

import pytest

# Enough for every kind of record, and read within a second.
MODULES = (
    "json",
    "logging",
    "http",
    "asyncio",
    "wsgiref",
    "urllib",
    "email",
    "argparse.py",
    "textwrap.py",
    "heapq.py",
    "functools.py",
    "ast.py",
    "bisect.py",
    "calendar.py",
    "csv.py",
    "fractions.py",
    "gzip.py",
    "random.py",
    "statistics.py",
    "tempfile.py",
)


@contextlib.contextmanager
def small_standard_library(folder):
    """Copies the part to a folder, which replaces the standard library for data sources inside the
    context.
    """
    for name in MODULES:
        place = Path(sysconfig.get_path("stdlib")) / name
        if place.is_dir():
            shutil.copytree(place, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(place, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sysconfig, "get_path", lambda name: str(folder))
        yield folder
