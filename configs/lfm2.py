"""LFM2 (Liquid AI 2025): layers of a gated short convolution, and some of grouped-query attention.

    python train.py --config=configs/lfm2.py:tiny --workdir=runs/lfm2

Sizes: 350m (354,483,968 parameters), 700m (742,489,344), 1.2b (1,170,340,608) and 2.6b (2,569,272,320);
tiny and smoke for a CPU. Shapes are those of the published checkpoints: six layers of attention among
16, eight among 30. The report states 10 to 12 trillion tokens and rows of 4096, and no optimizer, rate
or batch; those of LLaMA 2 stand here, at 4 million tokens per update.

As it stands, 350m fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

# The layers of attention, counted from 0.
ATTENTION = {16: (2, 5, 8, 10, 12, 14), 30: (2, 6, 10, 14, 18, 21, 24, 27)}


def _size(dim: int, layers: int, heads: int, hidden: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.layers.pattern": tuple("full" if layer in ATTENTION[layers] else "conv" for layer in range(layers)),
        "model.attention.num_heads": heads,
        "model.ffn.hidden_dim": hidden,
    }


SIZES = {
    "350m": _size(1024, 16, 16, 4608),
    "700m": _size(1536, 16, 24, 6912),
    "1.2b": _size(2048, 16, 32, 8192),
    "2.6b": _size(2048, 30, 32, 10752),
}


def get_config(argument: str = "350m"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": ("conv", "full"),
            "model.layers.kinds.conv.attention.kind": "gated_convolution",
            "model.layers.kinds.full.attention.kind": "softmax",
            "model.layers.kinds.full.attention.num_kv_heads": 8,
            "model.layers.kinds.full.attention.qk_norm": "head",
            "model.layers.kinds.full.position.kind": "rope",
            "model.layers.kinds.full.position.theta": 1e6,
            "model.position.kind": "none",
            "model.attention.bias": False,
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 65536,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.steps": 2_400_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-5,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
