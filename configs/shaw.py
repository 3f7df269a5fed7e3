"""Transformers with relative positions (Shaw et al. 2018): the original Transformer, its positions
learned vectors for clipped distances.

    python train.py --config=configs/shaw.py:tiny --workdir=runs/shaw

Sizes, with the paper's 32,768 shared word pieces: base (48,371,200 parameters, distances clipped at
16) and big (209,937,920, clipped at 8); tiny and smoke for a CPU. The counts are of this
implementation, the paper prints none. Stated by the paper (section 4.1): 6 layers, D 512 and 1024,
8 and 16 heads of 64, feed-forward 1024 and 4096, dropout 0.1 and 0.3 (0.1 on English-French),
100,000 and 300,000 steps; optimizer, schedule and batch are those of Vaswani et al. 2017. The
vectors are per layer and shared by its heads, as the paper has it for big; its base model has its
own for each head. Label smoothing is 0.1; the objective is to continue a text where the paper
translates.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

WARMUP = 4000


def _size(dim: int, hidden: int, heads: int, clip: int, dropout: float, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.ffn.hidden_dim": hidden,
        "model.attention.num_heads": heads,
        "model.position.clip": clip,
        "model.dropout": dropout,
        "training.steps": steps,
        "optimizer.learning_rate": dim**-0.5 * WARMUP**-0.5,
    }


SIZES = {"base": _size(512, 1024, 8, 16, 0.1, 100_000), "big": _size(1024, 4096, 16, 8, 0.3, 300_000)}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder_decoder",
            "model.num_layers": 6,
            "model.embedding.scale": "sqrt_dim",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "shaw",
            "model.position.relative_values": True,
            "model.ffn.kind": "relu",
            "model.tie_embeddings": True,
            "model.init.kernel": "xavier_uniform",
            "model.dtype": "bfloat16",
            "objective.kind": "prefix",
            "objective.label_smoothing": 0.1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 32768,
            "data.sequence_length": 256,
            "data.batch_size": 200,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-9,
            "schedule.kind": "inverse_sqrt",
            "schedule.warmup_steps": WARMUP,
        },
    )
    return sized(argument, base, SIZES)
