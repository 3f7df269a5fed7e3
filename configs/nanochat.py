"""nanochat (Karpathy 2025), the models of the code's first release: a decoder without biases and without
factors in its norms, whose shape follows from its depth.

    python train.py --config=configs/nanochat.py:tiny --workdir=runs/nanochat

Depth d has width 64 d and heads of 128. RMSNorm also of the embedding, of queries and of keys; RoPE;
squared ReLU; an untied head with a soft cap of 15; output matrices that begin at 0. Muon trains the
matrices; Adam trains the embedding and the head at rates of their own, which shrink as 1 / sqrt(width). The
rate stays constant and then falls to 0 over the last 20 % of the steps. Each model reads 20 tokens for a
parameter.

Sizes: d20 (560,988,160 parameters), d26 (1,081,999,360) and d32 (1,879,048,192); tiny and smoke for a
CPU. The head of the code begins at 0; here it begins as the other matrices do. Releases of 2026 add value
embeddings, the x0 shortcut and windows (modded.py has the first two).

As it stands, d20 fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, parameter_groups, sized

VOCABULARY, BATCH_TOKENS, TOKENS_PER_PARAMETER = 65536, 524_288, 20
RATE = 0.02
# Adam's parameters and their rates at width 768, as factors on Muon's.
GROUPS = {
    "table": {"select": "role:embedding", "rate_factor": 0.2 / RATE},
    "head": {"select": "role:head", "rate_factor": 0.004 / RATE},
}


def _size(depth: int) -> dict:
    width = 64 * depth
    parameters = 2 * VOCABULARY * width + 12 * depth * width**2
    return {
        "model.dim": width,
        "model.num_layers": depth,
        "model.attention.num_heads": width // 128,
        "training.steps": TOKENS_PER_PARAMETER * parameters // BATCH_TOKENS,
        **{
            f"optimizer.group.{name}.rate_factor": group["rate_factor"] * (width / 768) ** -0.5
            for name, group in GROUPS.items()
        },
    }


SIZES = {f"d{depth}": _size(depth) for depth in (20, 26, 32)}


def get_config(argument: str = "d20"):
    """Returns the config of "size" or "size,field=value,..."."""
    adam = {"kind": "adamw", "momentum_warmup": 0, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-10, "weight_decay": 0.0}
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.scale": False,
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.embedding.norm": True,
            "model.position.kind": "rope",
            "model.attention.bias": False,
            "model.attention.qk_norm": "head",
            "model.attention.qk_norm_scale": False,
            "model.ffn.kind": "relu_squared",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.head.softcap": 15.0,
            "model.init.kernel": "lecun_normal",
            "model.init.embedding_std": 1.0,
            "model.init.zero_outputs": True,
            "model.dtype": "bfloat16",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": VOCABULARY,
            "data.sequence_length": 2048,
            "data.batch_size": BATCH_TOKENS // 2048,
            "training.microbatch_size": 32,
            "training.eval_every": 250,
            "training.checkpoint_every": 1000,
            "optimizer.kind": "muon",
            "optimizer.muon_scale": "spectral",
            "optimizer.momentum_warmup": 300,
            "optimizer.learning_rate": RATE,
            "optimizer.weight_decay": 0.0,
            "optimizer.clip_norm": 1.0,
            **parameter_groups(**{name: group | adam for name, group in GROUPS.items()}),
            "schedule.kind": "wsd",
            "schedule.warmup_steps": 0,
            "schedule.decay_fraction": 0.2,
            "schedule.final_fraction": 0.0,
        },
    )
    return sized(argument, base, SIZES)
