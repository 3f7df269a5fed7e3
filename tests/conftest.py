"""Stands here so that pytest puts this folder on the import path: `reference` and `building` serve the tests of several folders."""
