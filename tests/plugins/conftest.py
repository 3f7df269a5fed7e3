"""Isolates the loaded and trusted plug-ins of each test."""

import pytest

from tests.plugins.plugin_files import unloading
from zoo.config import plugins


@pytest.fixture(autouse=True)
def isolated_plugins(tmp_path, monkeypatch):
    """Gives each test its own record of trusted plug-ins, and unloads its plug-ins."""
    monkeypatch.setattr("zoo.config.plugins.cache_directory", lambda: tmp_path / "cache")
    # Those that come with zoo may have been loaded by other tests; others belong to the test's module.
    for plugin in reversed(plugins.loaded()):
        if plugin.shipped:
            plugins.unload(plugin)
    with unloading():
        yield
