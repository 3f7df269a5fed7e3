"""GPT (Radford et al. 2018): post-norm decoder, LayerNorm, learned positions, GELU (tanh), tied
head.

    python train.py --config=configs/gpt1.py:tiny --workdir=runs/gpt1

Sizes: base (116,534,784 parameters); tiny and smoke for a CPU. Stated by the paper (section 4.1):
12 layers, D 768, 12 heads, hidden width 3072, 512 tokens, batches of 64, Adam with a peak rate of
2.5e-4 after 2000 updates, a cosine to 0, decay 0.01 on weights, dropout 0.1 on embeddings,
sublayers and attention, initial values N(0, 0.02), 40,000 merges. Not stated: the betas; the number
of updates is the million that Devlin et al. 2019 (appendix A.4) give for 100 passes over
BooksCorpus.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {"base": {"model.dim": 768, "model.num_layers": 12, "model.attention.num_heads": 12}}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "learned",
            "model.position.max_length": 512,
            "model.ffn.kind": "gelu",
            "model.ffn.gelu_approximation": "tanh",
            "model.tie_embeddings": True,
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 40478,
            "data.sequence_length": 512,
            "data.batch_size": 64,
            "training.steps": 1_000_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 2.5e-4,
            "optimizer.weight_decay": 0.01,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 2000,
        },
    )
    return sized(argument, base, SIZES)
