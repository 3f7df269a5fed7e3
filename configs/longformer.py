"""Longformer (Beltagy et al. 2020): RoBERTa over 4096 tokens, each seeing 256 on either side, and a
first token that sees all.

    python train.py --config=configs/longformer.py:tiny --workdir=runs/longformer

Sizes, with the head for masked tokens: base (148,711,257 parameters) and large (434,653,273); tiny
and smoke for a CPU. A window of 513 is the token itself and 256 on both sides, "512" in the paper;
global tokens have query, key and value matrices of their own (section 3.1). Stated by the paper
(section 5): the weights continue RoBERTa's for 65,000 updates of 64 rows of 4096 tokens, rate 3e-5
after 500 steps, then a polynomial decay of power 3. Decay, betas and dropout
are RoBERTa's.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "base": {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 12},
    "large": {"model.dim": 1024, "model.num_layers": 24, "model.attention.num_heads": 16},
}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder",
            "model.embedding.segments": 1,
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "learned",
            "model.position.max_length": 4096,
            "model.position.offset": 2,
            "model.attention.window": 513,
            "model.attention.global_tokens": 1,
            "model.attention.global_projections": True,
            "model.ffn.kind": "gelu",
            "model.tie_embeddings": True,
            "model.head.transform": True,
            "model.head.bias": True,
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "objective.kind": "masked",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50264,
            "data.sequence_length": 4096,
            "data.batch_size": 64,
            "training.steps": 65_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 3e-5,
            "optimizer.weight_decay": 0.01,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-6,
            "schedule.kind": "polynomial",
            "schedule.power": 3.0,
            "schedule.warmup_steps": 500,
        },
    )
    return sized(argument, base, SIZES)
