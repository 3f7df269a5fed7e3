"""MPT (MosaicML 2023): pre-norm decoder, ALiBi, GELU, no biases anywhere, those of the norms
included, tied head.

    python train.py --config=configs/mpt.py:tiny --workdir=runs/mpt

Sizes: 7b (6,649,286,656 parameters); tiny and smoke for a CPU. By its model card it saw a trillion
tokens in rows of 2048, trained by Lion; its rate, betas and decay are not published. Optimizer,
schedule and batch here are those of the 7b recipe of the authors' llm-foundry, which they call an
example and not that of the trained model (AdamW, rate 1.2e-4 after 100 steps, a cosine to a tenth,
betas 0.9 and 0.95, no decay, 1024 rows). Initial values are He's, divided by
depth where a sublayer ends, as in its code.

As it stands, 7b fits on 16 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {"7b": {"model.dim": 4096, "model.num_layers": 32, "model.attention.num_heads": 32}}


def get_config(argument: str = "7b"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.norm.kind": "layernorm",
            "model.norm.placement": "pre",
            "model.norm.epsilon": 1e-5,
            "model.norm.bias": False,
            "model.position.kind": "alibi",
            "model.attention.bias": False,
            "model.ffn.kind": "gelu",
            "model.ffn.bias": False,
            "model.tie_embeddings": True,
            "model.init.kernel": "he_normal",
            "model.init.embedding_std": 0.02,
            "model.init.scale_residual": True,
            "model.dtype": "bfloat16",
            "model.remat": "full",
            "mesh.fsdp": -1,
            "training.microbatch_size": 16,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50432,
            "data.sequence_length": 2048,
            "data.batch_size": 1024,
            "training.steps": 477_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 1.2e-4,
            "optimizer.beta2": 0.95,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": 100,
            "schedule.final_fraction": 0.1,
        },
    )
    return sized(argument, base, SIZES)
