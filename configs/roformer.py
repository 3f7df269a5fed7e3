"""RoFormer (Su et al. 2021), the Chinese model: BERT whose queries and keys are rotated by
position, neighbouring dimensions in pairs.

    python train.py --config=configs/roformer.py:tiny --workdir=runs/roformer

Sizes, with the head for masked tokens: base (124,099,664 parameters; the count of 124,197,968 that
other libraries print has the fixed table of sines in it, 1536 positions of 64); tiny and smoke for
a CPU. The paper (section 4.5, Table 4) trains in six stages of rows of 128 to 1536 tokens; the
first and longest stands here, 200,000 steps of 256 rows of 512 tokens. It states no rate, schedule
or decay for them: those of BERT stand here. The 50,000 ids hold [MASK].

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {"base": {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 12}}


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
            "model.position.kind": "rope",
            "model.position.layout": "interleaved",
            "model.position.theta": 10000.0,
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
            "data.tokenizer.vocab_size": 49999,
            "data.sequence_length": 512,
            "data.batch_size": 256,
            "training.steps": 200_000,
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
