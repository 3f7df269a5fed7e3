"""GPT-J (Wang & Komatsuzaki 2021): attention and feed-forward layer side by side behind one LayerNorm,
RoPE on neighbouring pairs of the first 64 of 256 dimensions of each head, no biases in attention.

    python train.py --config=configs/gpt_j.py:tiny --workdir=runs/gpt_j

Sizes: 6b (6,050,882,784 parameters); tiny and smoke for a CPU. Shape, rate and the 383,500 steps of
512 rows of 2048 tokens are those of the authors' code and model card. Their schedule ends at a tenth of
the rate after 300,000 steps and stays there; this one reaches it at the last step. Adam has optax's betas
there. Initial values have the variance 1 / fan-in; their output matrices begin at 2 / (L sqrt(D)), here
at 1 / sqrt(2 L) of the others.

As it stands, 6b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

VOCABULARY = 50_400
SIZES = {"6b": {"model.dim": 4096, "model.num_layers": 28, "model.attention.num_heads": 16}}


def get_config(argument: str = "6b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.parallel": "shared_norm",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.position.kind": "rope",
            "model.position.theta": 10000.0,
            "model.position.layout": "interleaved",
            "model.position.fraction": 0.25,
            "model.attention.bias": False,
            "model.ffn.kind": "gelu",
            "model.ffn.gelu_approximation": "tanh",
            "model.tie_embeddings": False,
            "model.head.bias": True,
            "model.init.kernel": "lecun_normal",
            "model.init.embedding_std": VOCABULARY**-0.5,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": VOCABULARY,
            "data.sequence_length": 2048,
            "data.batch_size": 512,
            "training.steps": 383_500,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 0.00012,
            "optimizer.weight_decay": 0.1,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 3000,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
