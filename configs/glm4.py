"""GLM-4 0414 (GLM Team 2024; Z.ai 2025): norms before and after the sublayers, two key/value heads, RoPE
over neighbouring pairs of half of each head, and in 9b biases of queries, keys and values alone.

    python train.py --config=configs/glm4.py:tiny --workdir=runs/glm4

Sizes: 9b (9,400,279,040 parameters) and 32b (32,566,081,536); tiny and smoke for a CPU. Shapes are those of
the published checkpoints. The report (arXiv:2406.12793) states 10 trillion tokens for the models of 2024,
whose 9b has norms before the sublayers alone; the authors' page states 15 trillion for 32b. Neither states
an optimizer, rate, schedule or batch; those of LLaMA 2 stand here, at 4 million tokens per update.

As it stands, 9b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int, bias: bool, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": 2,
        "model.attention.head_dim": 128,
        "model.attention.bias": bias,
        **({"model.attention.output_bias": False} if bias else {}),
        "model.ffn.hidden_dim": hidden,
        "training.steps": steps,
    }


SIZES = {"9b": _size(4096, 40, 32, 13696, True, 2_400_000), "32b": _size(6144, 61, 48, 23040, False, 3_576_000)}


def get_config(argument: str = "9b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "sandwich",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.position.fraction": 0.5,
            "model.position.layout": "interleaved",
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 4,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 151552,
            "data.sequence_length": 8192,
            "data.batch_size": 512,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
