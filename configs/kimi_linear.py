"""Kimi Linear (Kimi Team 2025, arXiv:2510.26692): three layers of Kimi Delta Attention before one of latent
attention without positions; a dense layer, then layers of 256 small experts and a shared one.

    python train.py --config=configs/kimi_linear.py:tiny --workdir=runs/kimi_linear

Sizes: 48b-a3b (49,122,675,072 parameters, 3,484,453,248 of them active); tiny and smoke for a CPU. The shape
is that of the published file of Kimi-Linear-48B-A3B, in which the last layer is one of latent attention
too. Its checkpoints have seen 5.7 trillion tokens. The optimizer, rate and schedule are those of
DeepSeek-V3 (deepseek_v3.py), and rows of 4096 and 2048 of them in a batch are a choice made here.
"""

from zoo.config import default, override, sized

KINDS = {f"{mixer}_{ffn}": (mixer, ffn) for mixer, ffn in (("state", "dense"), ("state", "sparse"), ("full", "sparse"))}
STATE = {
    "attention.kind": "kimi_delta",
    "attention.num_heads": 32,
    "attention.head_dim": 128,
    "attention.gate_bias": False,
}
FULL = {
    "attention.kind": "latent",
    "attention.num_heads": 32,
    "attention.head_dim": 128,
    "attention.rotary_dim": 64,
    "attention.latent_dim": 512,
    "attention.bias": False,
    "attention.norm_epsilon": 1e-6,
}
DENSE = {"ffn.kind": "swiglu", "ffn.hidden_dim": 9216}
# Of 27 layers, counted from 1, each fourth and the last one are of latent attention.
PATTERN = (
    "state_dense",
    *("full_sparse" if layer % 4 == 0 or layer == 27 else "state_sparse" for layer in range(2, 28)),
)
SIZES = {"48b-a3b": {"model.dim": 2304, "model.num_layers": 27, "model.layers.pattern": PATTERN}}


def _kinds() -> dict:
    parts = {"state": STATE, "full": FULL, "dense": DENSE, "sparse": {"ffn.kind": "moe"}}
    return {
        f"model.layers.kinds.{name}.{path}": value
        for name, (mixer, ffn) in KINDS.items()
        for path, value in (parts[mixer] | parts[ffn]).items()
    }


def get_config(argument: str = "48b-a3b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.layers.pattern": tuple(KINDS),
            **_kinds(),
            "model.attention.num_heads": 32,
            "model.attention.head_dim": 128,
            "model.position.kind": "none",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.ffn.kind": "moe",
            "model.ffn.hidden_dim": 1024,
            "model.ffn.experts.kind": "swiglu",
            "model.ffn.experts.number": 256,
            "model.ffn.experts.per_token": 8,
            "model.ffn.experts.shared_dim": 1024,
            "model.ffn.experts.scores": "sigmoid",
            "model.ffn.experts.scale": 2.446,
            "model.ffn.experts.bias_rate": 0.001,
            "model.ffn.experts.sequence_balance_weight": 0.0001,
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.expert": 16,
            "mesh.fsdp": -1,
            "training.microbatch_size": 1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 163840,
            "data.sequence_length": 4096,
            "data.batch_size": 2048,
            "training.steps": 680_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 2.2e-4,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.epsilon": 1e-8,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "wsd",
            "schedule.warmup_steps": 2000,
            "schedule.decay_fraction": 0.324,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
