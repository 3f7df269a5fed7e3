"""StableLM 3B (Tow et al. 2023) and StableLM 2 (Bellagente et al. 2024): LLaMA with LayerNorm and RoPE on a
quarter of each head.

    python train.py --config=configs/stablelm.py:tiny --workdir=runs/stablelm

Sizes: 3b (2,795,443,200 parameters), 2-1.6b (1,644,515,328), with biases of queries, keys and values, and
2-12b (12,143,185,920), with LayerNorm of each head's queries and keys and both sublayers side by side;
tiny and smoke for a CPU. Rows of 4096 tokens, 4 trillion tokens for 3b and 2 for StableLM 2; optimizer,
rates, clipping, decay, warm-ups, ends and initial values are those of the authors' configuration files, as
are the rows of a device, whose number is that of the report and model cards. The schedule of StableLM 2
joins a cosine, an inverse root and a linear decay; here it is a cosine.

As it stands, 2-1.6b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(
    dim: int, layers: int, kv_heads: int, hidden: int, rate: float, rows: int, steps: int, warmup: int, **more
) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_kv_heads": kv_heads,
        "model.ffn.hidden_dim": hidden,
        "optimizer.learning_rate": rate,
        "data.batch_size": rows,
        "training.steps": steps,
        "schedule.warmup_steps": warmup,
    } | more


TWO = {"data.tokenizer.vocab_size": 100352}
SIZES = {
    "3b": _size(
        2560, 32, 32, 6912, 3.2e-4, 1024, 955_000, 4775,
        **{"optimizer.epsilon": 1e-6, "schedule.final_fraction": 0.04},
    ),
    "2-1.6b": _size(
        2048, 24, 32, 5632, 1e-3, 2048, 238_400, 9720,
        **TWO, **{"model.attention.bias": True, "model.attention.output_bias": False},
    ),
    "2-12b": _size(
        5120, 40, 8, 13824, 3e-4, 1536, 317_900, 4940,
        **TWO, **{"model.parallel": "shared_norm", "model.attention.qk_norm": "head_layernorm"},
        **{"model.init.std": 0.01, "optimizer.clip_norm": 0.75},
    ),
}  # fmt: skip


def get_config(argument: str = "2-1.6b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.fraction": 0.25,
            "model.attention.num_heads": 32,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50304,
            "data.sequence_length": 4096,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
