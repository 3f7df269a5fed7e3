"""ByT5 (Xue et al. 2022): mT5 over bytes, with an encoder three times as deep as the decoder.

    python train.py --config=configs/byt5.py:tiny --workdir=runs/byt5

Sizes: small (299,637,760 parameters, 12 and 4 layers), base (581,653,248, 18 and 6), large
(1,228,183,552, 36 and 12), xl (3,737,801,728, 36 and 12) and xxl (12,906,899,328, 36 and 12); tiny
and smoke for a CPU. Of the 384 ids, 359 are used: three special ones, the bytes, and a hundred
sentinels. Stated by the paper (section 3.1): a million steps of 1024 rows of 1024 bytes (what is
left of 1193), spans of 20 bytes on average, otherwise as mT5. As in `configs/t5.py`, one
deviation for the initial values of all matrices gives scores as large as the authors'.

As it stands, small fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, encoder: int, decoder: int, heads: int, hidden: int, head_dim: int = 64) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": encoder,
        "model.decoder.num_layers": decoder,
        "model.attention.num_heads": heads,
        "model.attention.head_dim": head_dim,
        "model.ffn.hidden_dim": hidden,
        "model.init.std": dim**-0.5 * head_dim**-0.25,
    }


SIZES = {
    "small": _size(1472, 12, 4, 6, 3584),
    "base": _size(1536, 18, 6, 12, 3968),
    "large": _size(1536, 36, 12, 16, 3840),
    "xl": _size(2560, 36, 12, 32, 6720),
    "xxl": _size(4672, 36, 12, 64, 12352),
}


def get_config(argument: str = "small"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder_decoder",
            "model.vocab_size": 384,
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
            "objective.kind": "span",
            "objective.mean_span_length": 20.0,
            "data.tokenizer.kind": "byt5",
            "data.sequence_length": 1193,
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
