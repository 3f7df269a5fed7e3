"""What `benchmarks/gpu_suite.py` measures, stage by stage."""
