"""T5 (Raffel et al. 2020) and T5 1.1: encoder and decoder, RMSNorm, one table of relative biases
per side, no biases, unscaled scores.

    python train.py --config=configs/t5.py:tiny --workdir=runs/t5

Sizes: small (60,506,624 parameters), base (222,903,552), large (737,668,096), 3b (2,851,598,336),
11b (11,307,321,344) with ReLU and a tied head; v1_1-small (76,961,152), v1_1-base (247,577,856),
v1_1-large (783,150,080), v1_1-xl (2,849,757,184) and v1_1-xxl (11,135,332,352) with GeGLU (Shazeer
2020), an untied head and no dropout; tiny and smoke for a CPU. Stated by the paper (sections 2.1,
3.1.2 and 3.7): a million steps of 2048 rows of 512 tokens, dropout 0.1, Adafactor with a rate of 1
/ sqrt(max(step, 10,000)), relative to the size of each parameter. Spans of 3 tokens on average are
cut out of 568 tokens, 15 % of them: the encoder reads 512 and the decoder writes 114 (section
3.1.4). Initial values of the authors' code: embeddings 1, matrices by their fan-in, queries divided
by sqrt(K) more; here one deviation for all, chosen so that the scores come out as large.

As it stands, small fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SECOND = {
    "model.ffn.kind": "geglu",
    "model.ffn.gelu_approximation": "tanh",
    "model.tie_embeddings": False,
    "model.head.scale": "none",
    "model.dropout": 0.0,
    "model.attention.dropout": 0.0,
}


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
    "small": _size(512, 6, 8, 2048),
    "base": _size(768, 12, 12, 3072),
    "large": _size(1024, 24, 16, 4096),
    "3b": _size(1024, 24, 32, 16384, 128),
    "11b": _size(1024, 24, 128, 65536, 128),
    "v1_1-small": _size(512, 8, 6, 1024) | SECOND,
    "v1_1-base": _size(768, 12, 12, 2048) | SECOND,
    "v1_1-large": _size(1024, 24, 16, 2816) | SECOND,
    "v1_1-xl": _size(2048, 24, 32, 5120) | SECOND,
    "v1_1-xxl": _size(4096, 24, 64, 10240) | SECOND,
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
            "model.ffn.kind": "relu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.head.scale": "rsqrt_dim",
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.embedding_std": 1.0,
            "model.dtype": "bfloat16",
            "objective.kind": "span",
            "model.vocab_size": 32128,
            "data.tokenizer.kind": "unigram",
            "data.tokenizer.vocab_size": 32000,
            "data.tokenizer.lowercase": False,
            "data.sequence_length": 568,
            "data.batch_size": 2048,
            "training.microbatch_size": 64,
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
