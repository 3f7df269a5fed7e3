"""Gemma 3 (Gemma Team 2025), the text models: five local layers to a global one, each kind with its
own RoPE, normalised queries and keys.

    python train.py --config=configs/gemma3.py:tiny --workdir=runs/gemma3

Sizes: 270m (268,098,176 parameters) and 1b (999,885,952); tiny and smoke for a CPU. Local layers
see 512 keys and rotate by base 10,000, global ones all keys by base 1,000,000. Window, layout,
sequences of 32,768 tokens and the 2 trillion tokens of 1b are section 2 of the report; 270m came
later, with 6 trillion tokens by its model card. Not stated: optimizer, rate, schedule and batch
(here those of LLaMA 2, at 4 million tokens per update); the published weights were distilled from a
larger model, which this does not do.

As it stands, 1b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, hidden: int, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": 4,
        "model.attention.num_kv_heads": 1,
        "model.attention.head_dim": 256,
        "model.ffn.hidden_dim": hidden,
        "training.steps": steps,
    }


SIZES = {"270m": _size(640, 18, 2048, 1_430_000), "1b": _size(1152, 26, 6912, 480_000)}


def get_config(argument: str = "1b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": (*["local"] * 5, "global"),
            "model.layers.kinds.local.attention.window": 512,
            "model.layers.kinds.global.attention.window": 0,
            "model.layers.kinds.global.position.theta": 1e6,
            "model.embedding.scale": "sqrt_dim",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "sandwich",
            "model.norm.unit_offset": True,
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.qk_norm": "head",
            "model.attention.bias": False,
            "model.ffn.kind": "geglu",
            "model.ffn.gelu_approximation": "tanh",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 262144,
            "data.sequence_length": 32768,
            "data.batch_size": 128,
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
