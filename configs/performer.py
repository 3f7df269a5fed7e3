"""Performers (Choromanski et al. 2021) over the bytes of enwik8, with learned positions and with
RoPE (Su et al. 2021, section 4.4).

    python train.py --config=configs/performer.py:tiny --config.data.source=text:PATH/TO/enwik8
    --workdir=runs/performer

Sizes: enwik8 (86,237,441 parameters; learned positions) and enwik8-rope (85,451,009); tiny and
smoke for a CPU. The counts are of this implementation. Stated by Su et al.: 12 layers, D 768, 12
heads, rate 1e-4, batches of 128, rows of 1024; that with RoPE the loss falls faster is shown as a
figure, without numbers. Not stated: number of updates (here 100,000), schedule, the rest of the
optimizer, and the shape beside the three numbers (here pre-norm, GELU, hidden width 4 D, an untied
head). K ln K = 266 random features, drawn anew every 1000 steps, are the defaults of the code that
they name.

As it stands, enwik8 fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {"enwik8": {"model.position.kind": "learned"}, "enwik8-rope": {"model.position.kind": "rope"}}


def get_config(argument: str = "enwik8"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.dim": 768,
            "model.num_layers": 12,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.attention.kind": "performer",
            "model.attention.num_heads": 12,
            "model.attention.redraw_every": 1000,
            "model.ffn.kind": "gelu",
            "model.tie_embeddings": False,
            "model.head.bias": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "data.source": "text:enwik8",
            "data.tokenizer.kind": "bytes",
            "data.sequence_length": 1024,
            "data.batch_size": 128,
            "training.steps": 100_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 1e-4,
        },
    )
    return sized(argument, base, SIZES)
