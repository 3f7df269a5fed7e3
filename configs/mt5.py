"""mT5 (Xue et al. 2021): T5 1.1 with a vocabulary of 250,112 for 101 languages.

    python train.py --config=configs/mt5.py:tiny --workdir=runs/mt5

Sizes: small (300,176,768 parameters), base (582,401,280), large (1,229,581,312), xl (3,742,619,648)
and xxl (12,921,057,280); tiny and smoke for a CPU. Stated by the paper (section 3.2): a million
steps of 1024 rows of 1024 tokens (what is left of 1137), no dropout, Adafactor, the rate and the
spans of T5; languages sampled in proportion to n^0.3, which is `data.mixture_exponent` of a mixture
of your own texts. As in `configs/t5.py`, one deviation for the initial values of all matrices gives scores
as large as the authors'.

As it stands, small fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int, head_dim: int = 64) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.attention.head_dim": head_dim,
        "model.ffn.hidden_dim": hidden,
        "model.init.std": dim**-0.5 * head_dim**-0.25,
    }


SIZES = {
    "small": _size(512, 8, 6, 1024),
    "base": _size(768, 12, 12, 2048),
    "large": _size(1024, 24, 16, 2816),
    "xl": _size(2048, 24, 32, 5120),
    "xxl": _size(4096, 24, 64, 10240),
}


def get_config(argument: str = "small"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder_decoder",
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "relative_bias",
            "model.position.buckets": 32,
            "model.position.max_distance": 128,
            "model.position.shared": True,
            "model.attention.scale": 1.0,
            "model.attention.bias": False,
            "model.ffn.kind": "geglu",
            "model.ffn.gelu_approximation": "tanh",
            "model.ffn.bias": False,
            "model.tie_embeddings": False,
            "model.init.embedding_std": 1.0,
            "model.dtype": "bfloat16",
            "model.vocab_size": 250112,
            "objective.kind": "span",
            "data.tokenizer.kind": "unigram",
            "data.tokenizer.vocab_size": 250000,
            "data.tokenizer.lowercase": False,
            "data.sequence_length": 1137,
            "data.batch_size": 1024,
            "training.microbatch_size": 16,
            "mesh.fsdp": -1,
            "training.steps": 1_000_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.kind": "adafactor",
            "optimizer.learning_rate": 0.01,
            "schedule.kind": "inverse_sqrt",
            "schedule.warmup_steps": 10_000,
            "schedule.hold": True,
        },
    )
    return sized(argument, base, SIZES)
