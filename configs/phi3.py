"""Phi-3 (Abdin et al. 2024a) and Phi-4 (Abdin et al. 2024b): LLaMA with windows or LongRoPE, trained on
filtered and synthetic text.

    python train.py --config=configs/phi3.py:tiny --workdir=runs/phi3

Sizes: mini (3,821,079,552 parameters), medium (13,960,238,080), phi-4 (14,659,507,200) and phi-4-mini
(3,836,021,760); tiny and smoke for a CPU. Shapes are those of the published checkpoints for rows of
4096 tokens; that of phi-4 was trained on 16,384 afterwards, with the base of RoPE that stands here. mini
and medium saw 3.3 and 4.8 trillion tokens, phi-4 10 trillion at a peak rate of 3e-4 with linear decay,
decay of weights 0.1 and 5760 rows per update (section 3), and phi-4-mini 5 trillion. Not stated for the
others: rates and batches (those of phi-4). The checkpoints for 128k tokens stretch RoPE by factors that an
import brings; they are found by a search.

As it stands, mini fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, kv_heads: int, hidden: int, steps: int, **more) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.num_kv_heads": kv_heads,
        "model.ffn.hidden_dim": hidden,
        "training.steps": steps,
    } | more


SIZES = {
    "mini": _size(3072, 32, 32, 32, 8192, 140_000, **{"model.attention.window": 2047}),
    "medium": _size(5120, 40, 40, 10, 17920, 203_500, **{"model.attention.window": 2047}),
    "phi-4": _size(
        5120, 40, 40, 10, 17920, 424_000,
        **{"model.position.theta": 2.5e5, "data.tokenizer.vocab_size": 100352},
    ),
    "phi-4-mini": _size(
        3072, 32, 24, 8, 8192, 212_000,
        **{
            "model.tie_embeddings": True, "model.position.fraction": 0.75, "data.tokenizer.vocab_size": 200064,
        },
    ),
}  # fmt: skip


def get_config(argument: str = "mini"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 8,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 32064,
            "data.sequence_length": 4096,
            "data.batch_size": 5760,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-4,
            "optimizer.weight_decay": 0.1,
            "schedule.kind": "linear",
            "schedule.warmup_steps": 2000,
        },
    )
    return sized(argument, base, SIZES)
