"""Diagrams of what a config says, without a trained run: blocks, heads."""
