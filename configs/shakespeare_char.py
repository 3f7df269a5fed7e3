"""Characters of Shakespeare: the CPU setting of nanoGPT, as an anchor that a small machine can
reach.

    python train.py --config=configs/shakespeare_char.py
    --config.data.source=text:PATH/TO/tinyshakespeare.txt --workdir=runs/shakespeare

The text is the 1,115,394 characters known as tinyshakespeare; it has to be given, the last 10 % are
held out. Published: validation loss 1.88 on random crops (README of nanoGPT, 4 layers, 4 heads,
width 128, context 64, batch 12, 2000 steps, no dropout).
"""

from zoo.config import default, override, parse_argument, shrink

SIZES = {"cpu": {}}


def get_config(argument: str = "cpu"):
    """Returns the config of "cpu", "tiny" or "smoke", with ",field=value" overrides."""
    size, options = parse_argument(argument, SIZES)
    config = override(
        default(),
        {
            "model.dim": 128,
            "model.num_layers": 4,
            "model.attention.num_heads": 4,
            "model.attention.bias": False,
            "model.norm.bias": False,
            "model.ffn.bias": False,
            "model.init.scale_residual": True,
            "data.source": "text:tinyshakespeare.txt",
            "data.tokenizer.kind": "characters",
            "data.sequence_length": 64,
            "data.batch_size": 12,
            "training.steps": 2000,
            "training.eval_every": 250,
            "training.eval_batches": 0,
            "training.checkpoint_every": 500,
            "optimizer.learning_rate": 1e-3,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.99,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 100,
            "schedule.final_fraction": 0.1,
        },
    )
    return override(config if size == "cpu" else shrink(config, size), options)
