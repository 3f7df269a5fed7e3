"""Stands here so that pytest puts the checkout on the import path: the tests share `tests.reference` and `tests.building`."""
