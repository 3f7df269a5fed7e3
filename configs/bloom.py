"""BLOOM (BigScience 2022): pre-norm decoder, ALiBi, LayerNorm after the embedding too, GELU (tanh),
biases, tied head.

    python train.py --config=configs/bloom.py:tiny --workdir=runs/bloom

Sizes: 560m (559,214,592 parameters), 1b1 (1,065,314,304), 1b7 (1,722,408,960), 3b (3,002,557,440),
7b1 (7,069,016,064) and 176b (176,247,271,424); tiny and smoke for a CPU. Rates, batches of rows of
2048 tokens, 341 billion tokens (176b: 366), 375 million of them warm-up, Adam with betas 0.9 and
0.95, decay 0.1 and clipping at 1 are Table 3 of the paper; its cosine ends at 1e-5 (176b: 6e-6)
after 410 billion tokens, here with the last step. Initial values and epsilon are those of the
authors' launch scripts.

As it stands, 560m fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

LENGTH = 2048


def _size(
    dim: int, layers: int, heads: int, batch: int, rate: float, tokens: float = 341e9, last: float = 1e-5
) -> dict:
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.attention.num_heads": heads,
        "data.batch_size": batch,
        "optimizer.learning_rate": rate,
        "schedule.final_fraction": last / rate,
        "schedule.warmup_steps": round(375e6 / (batch * LENGTH)),
        "training.steps": round(tokens / (batch * LENGTH)),
    }


SIZES = {
    "560m": _size(1024, 24, 16, 256, 3e-4),
    "1b1": _size(1536, 24, 16, 256, 2.5e-4),
    "1b7": _size(2048, 24, 16, 512, 2e-4),
    "3b": _size(2560, 30, 32, 512, 1.6e-4),
    "7b1": _size(4096, 30, 32, 512, 1.2e-4),
    "176b": _size(14336, 70, 112, 2048, 6e-5, 366e9, 6e-6),
}


def get_config(argument: str = "560m"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "alibi",
            "model.ffn.kind": "gelu",
            "model.ffn.gelu_approximation": "tanh",
            "model.tie_embeddings": True,
            "model.init.std": 0.0048,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 250880,
            "data.sequence_length": LENGTH,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.weight_decay": 0.1,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
        },
    )
    return sized(argument, base, SIZES)
