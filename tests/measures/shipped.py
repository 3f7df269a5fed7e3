"""The plug-ins that come with zoo, as modules."""

import sys

from zoo.config import plugins
from zoo.config.shipped import DRAWINGS, MEASURES


def drawing(name):
    """Loads a drawing of `experiments/drawings`; returns its module."""
    plugins.load_shipped(DRAWINGS, name)
    return sys.modules[f"zoo_plugin_{name}"]


def measure(name):
    """Loads a measure of `experiments/measures`; returns its module."""
    plugins.load_shipped(MEASURES, name)
    return sys.modules[f"zoo_plugin_{name}"]
