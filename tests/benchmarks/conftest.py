"""Fixtures that import the programs of benchmarks/ and read their results."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def benchmark_module(monkeypatch):
    """Imports a module of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


@pytest.fixture
def lines_of():
    """Reads the lines of a folder of results."""

    def read(folder):
        path = folder / "lines.jsonl"
        return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []

    return read
