"""RoBERTa (Liu et al. 2019): BERT without the next sentence, on larger batches for longer;
positions count from 2, one segment.

    python train.py --config=configs/roberta.py:tiny --workdir=runs/roberta

Sizes, with the head for masked tokens: base (124,697,433 parameters) and large (355,412,057); tiny
and smoke for a CPU. Stated by the paper (sections 3.1 and 5, Table 9): batches of 8000 rows of 512
tokens, 500,000 steps, rates 6e-4 and 4e-4 after 24,000 and 30,000 steps, linear decay, Adam with
beta2 0.98 and epsilon 1e-6, decay 0.01, dropout 0.1, no clipping; full sentences across documents,
with new masks whenever a row is read (sections 4.1 and 4.2). The model's 50,265 ids hold [MASK] and
the separator.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "base": {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 12},
    "large": {
        "model.dim": 1024,
        "model.num_layers": 24,
        "model.attention.num_heads": 16,
        "optimizer.learning_rate": 4e-4,
        "schedule.warmup_steps": 30_000,
    },
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
            "model.position.max_length": 512,
            "model.position.offset": 2,
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
            "data.row_format": "full_sentences",
            "data.tokenizer.vocab_size": 50263,
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
