"""Checks of prose (`python -m tests.lint`): docstrings, pages and records against what they describe.

A rule is a function that yields problems. It takes what it reads as arguments, so that its test can
hand it a wrong text.
"""
