"""Measurements of `benchmarks/gpu_suite.py`, stage by stage."""
