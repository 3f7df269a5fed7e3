"""LLaMA 1 (Touvron et al. 2023a) and LLaMA 2 (Touvron et al. 2023b): pre-norm decoder, RMSNorm,
RoPE, SwiGLU, no biases, untied head.

    python train.py --config=configs/llama.py:tiny --workdir=runs/llama

The tokenizer is not LLaMA's, which is SentencePiece's BPE with a token for each digit: `bpe` is
byte-level and trained on the text. `data.tokenizer.split_digits=true` splits its digits, and
`data.tokenizer.kind=file` reads the published one.

Sizes: 7b (6,738,415,616 parameters), 13b (13,015,864,320), 33b (32,528,943,616), 65b
(65,285,660,672); of the second generation v2-7b and v2-13b (as many as before), v2-34b
(33,743,970,304) and v2-70b (68,976,648,192), the last two with 8 key/value heads; tiny and smoke
for a CPU. Optimizer and schedule are Table 2 and section 2.3 of the first paper and section 2.2 of
the second; only that one states epsilon, 1e-5. A width D of your own has the hidden width of LLaMA's
code, such as 11008 for 4096, with `model.ffn.match_parameters=true`, `model.ffn.multiple_of=256` and
no `model.ffn.hidden_dim`; v2-70b has `model.ffn.dim_multiplier=1.3` and multiples of 4096.

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int, **more) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "model.ffn.hidden_dim": hidden,
        **more,
    }


# The two large ones read 1.4 T tokens, the others 1.0 T (Table 2).
LONGER = {"optimizer.learning_rate": 1.5e-4, "training.steps": 334_000}
SECOND = {
    "model.norm.epsilon": 1e-5,
    "data.sequence_length": 4096,
    "data.batch_size": 1024,
    "training.steps": 500_000,
    "optimizer.epsilon": 1e-5,
}
SIZES = {
    "7b": _size(4096, 32, 32, 11008),
    "13b": _size(5120, 40, 40, 13824),
    "33b": _size(6656, 60, 52, 17920) | LONGER,
    "65b": _size(8192, 80, 64, 22016) | LONGER,
    "v2-7b": _size(4096, 32, 32, 11008) | SECOND,
    "v2-13b": _size(5120, 40, 40, 13824) | SECOND,
    "v2-34b": _size(8192, 48, 64, 22016)
    | SECOND
    | {"model.attention.num_kv_heads": 8, "optimizer.learning_rate": 1.5e-4},
    "v2-70b": _size(8192, 80, 64, 28672)
    | SECOND
    | {"model.attention.num_kv_heads": 8, "optimizer.learning_rate": 1.5e-4},
}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "rmsnorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.ffn.kind": "swiglu",
            "model.ffn.bias": False,
            "model.attention.bias": False,
            "model.tie_embeddings": False,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 32000,
            "data.sequence_length": 2048,
            "data.batch_size": 2048,
            "training.steps": 250_000,
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
