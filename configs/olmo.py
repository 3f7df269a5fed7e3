"""OLMo (Groeneveld et al. 2024): LLaMA with LayerNorm that has no parameters; the version of 7B parameters of
April 2024 clips queries, keys and values at 8.

    python train.py --config=configs/olmo.py:tiny --workdir=runs/olmo

Sizes: 1b (1,176,764,416 parameters, tied head), 7b and 7b-0424 (6,888,095,744 each); tiny and smoke for a
CPU. Shapes, rates, the batch of 4 million tokens, 2 and 2.46 trillion tokens, the warm-up, betas 0.9 and
0.95, the epsilon of 1e-5 and the linear decay to a tenth are the paper's. The decay of 0.1 and initial
values with deviations of dim ** -0.5 are those of the authors' configuration files, where 7b-0424
alone decays the embedding, has a cosine and rows of 4096 tokens; it saw 2.05 trillion.

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import by_role, default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int, rate: float, steps: int, warmup: int, **more) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.ffn.hidden_dim": hidden,
        "model.init.std": dim**-0.5,
        "optimizer.learning_rate": rate,
        "training.steps": steps,
        "schedule.warmup_steps": warmup,
    } | more


PLAIN_EMBEDDING = by_role(embedding={"weight_decay": 0.0})
SIZES = {
    "1b": _size(2048, 16, 16, 8192, 4e-4, 476_800, 2000, **PLAIN_EMBEDDING, **{"model.tie_embeddings": True}),
    "7b": _size(4096, 32, 32, 11008, 3e-4, 586_500, 5000, **PLAIN_EMBEDDING),
    "7b-0424": _size(
        4096, 32, 32, 11008, 3e-4, 488_800, 2500,
        **{
            "model.attention.clip": 8.0, "data.sequence_length": 4096, "data.batch_size": 1024,
            "schedule.kind": "cosine",
        },
    ),
}  # fmt: skip


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.scale": False,
            "model.norm.bias": False,
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.attention.bias": False,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50304,
            "data.sequence_length": 2048,
            "data.batch_size": 2048,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-5,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "linear",
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
