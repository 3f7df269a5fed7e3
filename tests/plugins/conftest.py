"""Isolates the loaded and trusted plug-ins of each test."""

import pytest

from tests.plugins.plugin_files import unloading


@pytest.fixture(autouse=True)
def isolated_plugins(tmp_path, monkeypatch):
    """Gives each test its own record of trusted plug-ins, and unloads its plug-ins."""
    monkeypatch.setattr("zoo.config.plugins.cache_directory", lambda: tmp_path / "cache")
    with unloading():
        yield
