"""ModernBERT (Warner et al. 2024): a pre-norm encoder without biases, with RoPE, GeGLU, and two local
layers to a global one.

    python train.py --config=configs/modernbert.py:tiny --workdir=runs/modernbert

Sizes, with the head for masked tokens: base (149,655,232 parameters; the paper prints 149 million)
and large (395,881,664; 395 million); tiny and smoke for a CPU. Local layers see 129 tokens, 64 on
either side, and rotate by base 10,000; global ones by base 160,000 (10,000 before rows became
longer). The embedding is normalised, so that the first layer has no norm before its attention
(section 2.1 and Table 4). This is the first phase of training (section 2.2 and Table 3): 1.7 trillion
tokens in rows of 1024, 30 % of the tokens hidden, StableAdamW in place of clipping by the gradient's
norm, a decay that is not multiplied by the rate (appendix A.4), a warm-up over 3 billion tokens (large:
2 billion), then a constant rate. Not done: batches that grow at first, dropout of 0.1 on the output of
attention alone, rows of 8192 afterwards, and for large the start from tiled weights of base and the
lower rate of its second half.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized


def _size(dim: int, layers: int, heads: int, hidden: int) -> dict:
    pattern = ("first", *(("local", "local", "global") * layers)[: layers - 1])
    return {
        "model.dim": dim,
        "model.num_layers": layers,
        "model.layers.pattern": pattern,
        "model.attention.num_heads": heads,
        "model.ffn.hidden_dim": hidden,
    }


SIZES = {
    "base": _size(768, 22, 12, 1152),
    "large": _size(1024, 28, 16, 2624)
    | {
        "optimizer.learning_rate": 5e-4,
        "data.batch_size": 4928,
        "training.microbatch_size": 14,
        "training.steps": 340_600,
        "schedule.warmup_steps": 396,
    },
}


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder",
            "model.layers.kinds.first.attention.input_norm": False,
            "model.layers.kinds.local.attention.window": 129,
            "model.layers.kinds.local.position.theta": 10_000.0,
            "model.layers.kinds.global.attention.window": 0,
            "model.embedding.norm": True,
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.norm.bias": False,
            "model.position.kind": "rope",
            "model.position.theta": 160_000.0,
            "model.attention.bias": False,
            "model.ffn.kind": "geglu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.head.transform": True,
            "model.head.transform_bias": False,
            "model.head.bias": True,
            "model.init.std": 0.02,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "objective.kind": "masked",
            "objective.select_fraction": 0.3,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50367,
            "data.sequence_length": 1024,
            "data.isolate_documents": True,
            "data.batch_size": 4608,
            "training.microbatch_size": 24,
            "training.steps": 364_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.kind": "stable_adamw",
            "optimizer.learning_rate": 8e-4,
            "optimizer.weight_decay": 1e-5,
            "optimizer.weight_decay_form": "independent",
            "optimizer.beta1": 0.9,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-6,
            "schedule.kind": "constant",
            "schedule.warmup_steps": 636,
        },
    )
    return sized(argument, base, SIZES)
