"""Controls: a small decoder, and the same with one of its parts taken out or made poorer.

    python train.py --config=configs/controls.py:no_residual --workdir=runs/no_residual

Sizes: baseline (3,290,880 parameters), batchnorm (3,290,880; BatchNorm in place of LayerNorm),
no_norm (3,286,272), no_residual (3,290,880; each sublayer's output alone), nope (3,225,344; no
positions but the causal mask's) and single_head (3,290,880; one head as wide as the model); tiny
and smoke for a CPU, which shrink the baseline. None is published: what they show is why a
Transformer has the part, so some of them are meant to train badly or to diverge. All have one
recipe: AdamW, rate 1e-3 after 100 steps, a cosine to a tenth, 2000 steps of 32 rows of 256 bytes of
Python's own library.
"""

from zoo.config import default, override, sized

SIZES = {
    "baseline": {},
    "batchnorm": {"model.norm.kind": "batchnorm"},
    "no_norm": {"model.norm.kind": "none"},
    "no_residual": {"model.residual": False},
    "nope": {"model.position.kind": "none"},
    "single_head": {"model.attention.num_heads": 1},
}


def get_config(argument: str = "baseline"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.dim": 256,
            "model.num_layers": 4,
            "model.attention.num_heads": 4,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.position.kind": "learned",
            "model.ffn.kind": "gelu",
            "data.sequence_length": 256,
            "data.batch_size": 32,
            "training.steps": 2000,
            "training.eval_every": 250,
            "training.checkpoint_every": 500,
            "optimizer.learning_rate": 1e-3,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 100,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
