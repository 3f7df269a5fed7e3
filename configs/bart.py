"""BART (Lewis et al. 2020): a post-norm encoder-decoder with learned positions that count from 2, a
norm over the embeddings, GELU, one embedding for both sides and the head, and a bias of the logits.

    python train.py --config=configs/bart.py:tiny --workdir=runs/bart

Sizes: base (139,470,681 parameters) and large (406,341,721), of which 50,265 are the bias of the
logits, which published files hold as zeros; tiny and smoke for a CPU. Stated by the paper (section 5,
for large): 500,000 updates of 8000 rows, 30 % of the tokens of a document hidden, dropout 0.1.
Each hidden span is one [MASK] there, and sentences are shuffled; here each token is hidden by a [MASK]
of its own (`objective.kind=denoising`, "token masking" in section 2.2), and the decoder writes the
whole row as there. Not stated: rate, warm-up, Adam's constants and the length of rows; these are
RoBERTa's, whose data it also read.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int) -> dict:
    return {"model.dim": dim, "model.num_layers": layers, "model.attention.num_heads": heads}


SIZES = {
    "base": _size(768, 6, 12),
    "large": _size(1024, 12, 16) | {"optimizer.learning_rate": 4e-4, "schedule.warmup_steps": 30_000},
}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder_decoder",
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "learned",
            "model.position.max_length": 1024,
            "model.position.offset": 2,
            "model.ffn.kind": "gelu",
            "model.tie_embeddings": True,
            "model.head.bias": True,
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "objective.kind": "denoising",
            "objective.select_fraction": 0.3,
            "objective.mask_token_fraction": 1.0,
            "objective.random_token_fraction": 0.0,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50264,
            "data.sequence_length": 512,
            "data.batch_size": 8000,
            "training.microbatch_size": 50,
            "training.steps": 500_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 6e-4,
            "optimizer.weight_decay": 0.01,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-6,
            "schedule.kind": "linear",
            "schedule.warmup_steps": 24_000,
        },
    )
    return sized(argument, base, SIZES)
