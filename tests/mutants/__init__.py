"""Mutation tests (`python -m tests.mutants`): deliberate faults, each with tests that must catch it.

Each file named `faults_in_` holds the faults of one part of zoo. They are few, because a change of the
code has to keep them applicable: one for each guarantee whose loss would change a result unnoticed.
"""
