"""No test here leaves a plug-in loaded, or trusts one that another has loaded."""

import pytest

from tests.plugins.plugin_files import unloading


@pytest.fixture(autouse=True)
def separate(tmp_path, monkeypatch):
    """Each test has a record of trusted texts of its own."""
    monkeypatch.setattr("zoo.config.plugins.cache_directory", lambda: tmp_path / "cache")
    with unloading():
        yield
