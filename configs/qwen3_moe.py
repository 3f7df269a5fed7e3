"""Qwen 3 with experts (Yang et al. 2025): 128 small experts per layer, with top-8 routing; the gate
weights of a token add up to 1. Attention is that of the dense models (qwen3.py).

    python train.py --config=configs/qwen3_moe.py:tiny --workdir=runs/qwen3_moe

Sizes: 30b-a3b (30,532,122,624 parameters, 3,353,032,704 of them active) and 235b-a22b (235,093,634,560;
22,190,763,520); tiny and smoke for a CPU. Shapes are Table 2 of the report and the published files. The
report balances over the whole batch and states neither the weight of that loss, for which 0.001 of the
files stands here, nor an optimizer; what stands here is that of qwen3.py.

As it stands, 30b-a3b fits on 64 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 4,
        "model.attention.head_dim": 128,
        "model.ffn.hidden_dim": hidden,
    }


SIZES = {"30b-a3b": _size(2048, 48, 32, 768), "235b-a22b": _size(4096, 94, 64, 1536)}


def get_config(argument: str = "30b-a3b"):
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
            "model.ffn.kind": "moe",
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": 128,
            "model.ffn.experts.per_token": 8,
            "model.ffn.experts.balance_weight": 0.001,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
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
