"""Mutation tests (`python -m tests.mutants`): deliberate faults, each with tests that must catch it.

Each file named `faults_in_` holds the faults of one part of zoo.
"""
