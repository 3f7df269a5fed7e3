"""Mixtral (Jiang et al. 2024): Mistral with 8 experts in each feed-forward layer. A router sends each
token to 2 of them, weighted by a softmax over their two logits.

    python train.py --config=configs/mixtral.py:tiny --workdir=runs/mixtral

Sizes: 8x7b (46,702,792,704 parameters, 12,879,925,248 of them active) and 8x22b (140,620,634,112;
39,152,031,744); tiny and smoke for a CPU. Shapes are Table 1 of the paper and the published files. The
paper states no optimizer, schedule, batch or budget, and no balancing loss; those of LLaMA 2 (Touvron et
al. 2023b, section 2.2) stand here, and the weight 0.02 of the published files.

As it stands, 8x7b fits on 64 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 8,
        "model.attention.head_dim": 128,
        "model.ffn.hidden_dim": hidden,
    }


SIZES = {"8x7b": _size(4096, 32, 32, 14336), "8x22b": _size(6144, 56, 48, 16384)}


def get_config(argument: str = "8x7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 1e6,
            "model.attention.bias": False,
            "model.ffn.kind": "moe",
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": 8,
            "model.ffn.experts.per_token": 2,
            "model.ffn.experts.balance_weight": 0.02,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 32000,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
            "training.steps": 500_000,
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
