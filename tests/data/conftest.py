"""A cache for each test, and real texts for the tests that use them if they are available."""

import os
from pathlib import Path

import pytest

import zoo.config


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ZOO_CACHE", str(folder))
    return folder


@pytest.fixture
def make_config():
    """make_config({"data.source": ...}) -> resolved config with small batches."""

    def make(overrides):
        small = {"data.sequence_length": 8, "data.batch_size": 4}
        return zoo.config.resolve(zoo.config.override(zoo.config.default(), small | overrides))

    return make


@pytest.fixture
def real_text():
    """real_text("tinyshakespeare.txt") -> its path; skips the test if the file is missing."""

    def find(name):
        beside_checkout = Path(__file__).resolve().parents[3] / "shared" / "data"
        path = Path(os.environ.get("ZOO_TEST_DATA", beside_checkout)) / "text" / name
        if not path.is_file():
            pytest.skip(f"no {path}; set ZOO_TEST_DATA to a folder that holds text/{name}")
        return path

    return find
