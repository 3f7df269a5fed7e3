"""The original Transformer (Vaswani et al. 2017): encoder and decoder, post-norm, sinusoidal
positions, ReLU, one shared embedding.

    python train.py --config=configs/transformer.py:tiny --workdir=runs/transformer

Sizes, with the 37,000 shared tokens of the paper's English-German: base (63,082,496 parameters; the
paper prints 65 million) and big (214,245,376; 213 million); tiny and smoke for a CPU. Stated by the
paper (sections 3.4, 5.1 to 5.4 and Table 3): Adam with betas 0.9 and 0.98 and epsilon 1e-9, the
rate D^-0.5 * min(step^-0.5, step * 4000^-1.5), whose peak is D^-0.5 * 4000^-0.5, about 25,000
source and 25,000 target tokens per batch, 100,000 and 300,000 steps, dropout 0.1 and 0.3 (big on
English-French: 0.1), label smoothing 0.1. The objective here is to continue a text;
configs/translation.py translates. Not stated: initial values (Glorot's uniform ones are those of
the authors' tensor2tensor) and the norm's epsilon (1e-6 there).

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

WARMUP = 4000


def _size(dim: int, hidden: int, heads: int, dropout: float, steps: int) -> dict:
    return {
        "model.dim": dim,
        "model.ffn.hidden_dim": hidden,
        "model.attention.num_heads": heads,
        "model.dropout": dropout,
        "training.steps": steps,
        "optimizer.learning_rate": dim**-0.5 * WARMUP**-0.5,
    }


SIZES = {"base": _size(512, 2048, 8, 0.1, 100_000), "big": _size(1024, 4096, 16, 0.3, 300_000)}


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
            "model.position.kind": "sinusoidal",
            "model.ffn.kind": "relu",
            "model.tie_embeddings": True,
            "model.init.kernel": "xavier_uniform",
            "model.dtype": "bfloat16",
            "objective.kind": "prefix",
            "objective.label_smoothing": 0.1,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 37000,
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
