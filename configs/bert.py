"""BERT (Devlin et al. 2019): post-norm encoder, learned positions, two segments, GELU, trained on
masked tokens.

    python train.py --config=configs/bert.py:tiny --workdir=runs/bert

Sizes, with the head for masked tokens, the pooler and the head for the next sentence: base
(uncased, 110,106,428 parameters; encoder and pooler alone 109,482,240), large (uncased,
336,226,108; 335,141,888) and base-cased (108,932,934; 108,310,272); tiny and smoke for a CPU.
Stated by the paper (section 3.1 and appendix A.2): pairs of segments of which half do not belong
together, masked tokens and the next sentence; batches of 256 rows of 512 tokens, a million steps,
the first 90 % of them at 128 tokens, Adam with betas 0.9 and 0.999, rate 1e-4 after 10,000 steps,
linear decay, decay 0.01, dropout 0.1 everywhere, 15 % of the tokens predicted, 80/10/10. From the
authors' code: epsilon 1e-6, gradients clipped at 1, norms' epsilon 1e-12. Each row has ten masks,
which its epochs take in turn, as in the authors' data (Liu et al. 2019, section 4.1). A tenth of
their rows is shorter, which here takes `data.short_row_fraction=0.1`; all are full otherwise.

The two lengths are two runs, with one table of positions; the second goes on with the parameters
and the rate of the first, and with fresh moments of Adam. `base` has 512 tokens throughout.

    python train.py --config=configs/bert.py:base-phase1 --workdir=runs/bert-128 python train.py
    --config=configs/bert.py:base-phase2 --config.training.start_from=runs/bert-128
    --workdir=runs/bert-512

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

BASE = {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 12}
SIZES = {
    "base": BASE,
    "large": {"model.dim": 1024, "model.num_layers": 24, "model.attention.num_heads": 16},
    "base-phase1": BASE | {"data.sequence_length": 128, "training.steps": 900_000, "schedule.final_fraction": 0.1},
    "base-phase2": BASE | {"training.steps": 100_000, "optimizer.learning_rate": 1e-5, "schedule.warmup_steps": 0},
    "base-cased": BASE
    | {"model.vocab_size": 28996, "data.tokenizer.vocab_size": 28996, "data.tokenizer.lowercase": False},
}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder",
            "model.embedding.segments": 2,
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-12,
            "model.position.kind": "learned",
            "model.position.max_length": 512,
            "model.ffn.kind": "gelu",
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
            "data.row_format": "segment_pairs",
            "model.vocab_size": 30522,
            "data.tokenizer.kind": "wordpiece",
            "data.tokenizer.vocab_size": 30522,
            "data.sequence_length": 512,
            "data.batch_size": 256,
            "training.steps": 1_000_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 1e-4,
            "optimizer.weight_decay": 0.01,
            "optimizer.epsilon": 1e-6,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "linear",
            "schedule.warmup_steps": 10_000,
        },
    )
    return sized(argument, base, SIZES)
