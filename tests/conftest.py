"""Stands here so that pytest puts the checkout on the import path: several folders share `tests.reference` and `tests.building`."""
