"""ALBERT (Lan et al. 2020): BERT with one set of weights for all layers and embeddings of width 128,
trained on masked tokens and on the order of two segments.

    python train.py --config=configs/albert.py:tiny --workdir=runs/albert

Sizes, with the head for masked tokens, the pooler and the head for the order (in parentheses what the
paper prints for encoder and pooler, Table 1): base 11,813,810 parameters (12 million), large
17,847,474 (18), xlarge 59,021,490 (60) and xxlarge 223,158,450 (235; the released model has fewer);
tiny and smoke for a CPU. Stated by the paper (sections 3.1, 4.1 and 4.8): 30,000 pieces of words,
batches of 4096 rows of 512 tokens, 125,000 steps, two consecutive segments of which half change
places, LAMB at a rate of 0.00176, xxlarge without dropout. From the authors' code: tanh GELU, the
warm-up over 3125 steps and the linear decay, decay 0.01, gradient norm 1, epsilon 1e-6, norms'
epsilon 1e-12. Their LAMB does not correct the bias of the moments, which the one here does.

Not done: masks of up to three words in a row. The tenth of the rows that is shorter takes
`data.short_row_fraction=0.1`; all are full otherwise.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int) -> dict:
    return {"model.dim": dim, "model.num_layers": layers, "model.attention.num_heads": heads}


SIZES = {
    "base": _size(768, 12, 12),
    "large": _size(1024, 24, 16),
    "xlarge": _size(2048, 24, 16),
    "xxlarge": _size(4096, 12, 64) | {"model.dropout": 0.0, "model.attention.dropout": 0.0},
}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder",
            "model.layers.distinct": 1,
            "model.embedding.dim": 128,
            "model.embedding.segments": 2,
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-12,
            "model.position.kind": "learned",
            "model.position.max_length": 512,
            "model.ffn.kind": "gelu",
            "model.ffn.gelu_approximation": "tanh",
            "model.tie_embeddings": True,
            "model.head.transform": True,
            "model.head.bias": True,
            "model.head.pooler": True,
            "model.head.next_sentence": True,
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "objective.kind": "masked",
            "objective.mask_copies": 10,
            "objective.next_sentence": True,
            "data.row_format": "swapped_pairs",
            "model.vocab_size": 30000,
            "data.tokenizer.kind": "unigram",
            "data.tokenizer.vocab_size": 29998,
            "data.sequence_length": 512,
            "data.batch_size": 4096,
            "training.microbatch_size": 64,
            "training.steps": 125_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.kind": "lamb",
            "optimizer.learning_rate": 0.00176,
            "optimizer.weight_decay": 0.01,
            "optimizer.epsilon": 1e-6,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "linear",
            "schedule.warmup_steps": 3125,
        },
    )
    return sized(argument, base, SIZES)
