"""Qwen 3 (Yang et al. 2025), the dense models: LLaMA with grouped heads of 128 and an RMSNorm of each
head's queries and keys in place of Qwen 2's biases.

    python train.py --config=configs/qwen3.py:tiny --workdir=runs/qwen3

Sizes: 0.6b (596,049,920 parameters), 1.7b (1,720,574,976), 4b (4,022,468,096), 8b (8,190,735,360),
14b (14,768,307,200) and 32b (32,762,123,264); tiny and smoke for a CPU. Up to 4b the head is the
token table. Shapes are Table 1 of the report and the published checkpoints, whose RoPE has the base
of the stage of long contexts, 1e6. The report states 36 trillion tokens, of which 30 and more in rows
of 4096, and no optimizer, rate, schedule or batch; those of LLaMA 2 stand here, at 4 million tokens
per update.

As it stands, 0.6b fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int, tied: bool) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 8,
        "model.attention.head_dim": 128,
        "model.ffn.hidden_dim": hidden,
        "model.tie_embeddings": tied,
    }


SIZES = {
    "0.6b": _size(1024, 28, 16, 3072, True),
    "1.7b": _size(2048, 28, 16, 6144, True),
    "4b": _size(2560, 36, 32, 9728, True),
    "8b": _size(4096, 36, 32, 12288, False),
    "14b": _size(5120, 40, 40, 17408, False),
    "32b": _size(5120, 64, 64, 25600, False),
}


def get_config(argument: str = "0.6b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 1e6,
            "model.attention.bias": False,
            "model.attention.qk_norm": "head",
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 151936,
            "data.sequence_length": 4096,
            "data.batch_size": 1024,
            "training.steps": 8_600_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 0.0003,
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
