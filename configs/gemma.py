"""Gemma (Gemma Team 2024a): heads of 256, GeGLU, RMSNorm whose scale is stored as its difference from 1,
an embedding times sqrt(D) that is the head too.

    python train.py --config=configs/gemma.py:tiny --workdir=runs/gemma

Sizes: 2b (2,506,172,416 parameters), with one key and value head, and 7b (8,537,680,896); tiny and
smoke for a CPU. Shapes, rows of 8192 tokens and the budgets of 3 and 6 trillion tokens are Table 1 and
section 2 and 3 of the report. Not stated: optimizer, rate, schedule and batch (here those of LLaMA 2,
at 4 million tokens per update).

As it stands, 2b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, kv_heads: int, hidden: int, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "model.attention.head_dim": 256,
        "model.ffn.hidden_dim": hidden,
        "training.steps": steps,
    }


SIZES = {"2b": _size(2048, 18, 8, 1, 16384, 715_000), "7b": _size(3072, 28, 16, 16, 24576, 1_430_000)}


def get_config(argument: str = "2b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.embedding.scale": "sqrt_dim",
            "model.norm.unit_offset": True,
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.bias": False,
            "model.ffn.kind": "geglu",
            "model.ffn.gelu_approximation": "tanh",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 256000,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
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
