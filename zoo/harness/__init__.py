"""Tasks of EleutherAI's lm-evaluation-harness on trained and imported runs (docs/harness.md).

`lm_eval` is imported by `lm_eval_model` and `evaluation` alone; what scores and generates needs no
more than zoo itself.
"""
