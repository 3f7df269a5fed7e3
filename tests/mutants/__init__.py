"""Deliberate faults, each with the tests that must notice it: `python -m tests.mutants`.

A guarantee without a test that can fail is none. Each file beside this one holds the faults of one
part of zoo.
"""
