"""ELECTRA (Clark et al. 2020): BERT without a next sentence, trained to find the tokens that a smaller
generator, which is trained with it, put in place of hidden ones.

    python train.py --config=configs/electra.py:tiny --workdir=runs/electra

Sizes, of the discriminator with its head, which is what is kept: small 13,549,057 parameters (the
paper prints 14 million), base 109,483,009 (110 million) and large 335,142,913 (335 million); the
generator, whose embeddings are the discriminator's, adds 647,162, 9,903,418 and 19,512,378, which
makes 14,196,219, 119,386,427 and 354,655,291 that are trained; tiny and smoke for a CPU. Stated by
the paper (section 3 and Table 6): rows of 128 tokens for small, of 512 for the others; Adam with
betas 0.9 and 0.999 and epsilon 1e-6, 10,000 steps of warm-up and linear decay, decay 0.01, dropout
0.1 everywhere; 15 % of the tokens hidden, 25 % for large, all of them shown as [MASK]; lambda 50; a
generator as deep, with 1/4, 1/3 and 1/4 of the width, heads and hidden width. From the authors'
code: gradients clipped at 1, norms' epsilon 1e-12. That code shows only 85 % of the hidden tokens
as [MASK] and the others as they are: `objective.mask_token_fraction=0.85`. Not done: rows of two
segments (rows are packed), and learning rates that fall from layer to layer in fine-tuning.

As it stands, small fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "small": {
        "model.dim": 256,
        "model.num_layers": 12,
        "model.attention.num_heads": 4,
        "model.embedding.dim": 128,
        "data.sequence_length": 128,
        "data.batch_size": 128,
        "training.steps": 1_000_000,
        "optimizer.learning_rate": 5e-4,
    },
    "base": {
        "model.dim": 768,
        "model.num_layers": 12,
        "model.attention.num_heads": 12,
        "model.generator.width_fraction": 1 / 3,
        "data.batch_size": 256,
        "training.steps": 766_000,
    },
    "large": {
        "model.dim": 1024,
        "model.num_layers": 24,
        "model.attention.num_heads": 16,
        "objective.select_fraction": 0.25,
        "data.batch_size": 2048,
        "training.microbatch_size": 32,
        "training.steps": 400_000,
    },
}


def get_config(argument: str = "small"):
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
            "model.dropout": 0.1,
            "model.attention.dropout": 0.1,
            "model.init.std": 0.02,
            "model.dtype": "bfloat16",
            "model.generator.width_fraction": 0.25,
            "objective.kind": "replaced_tokens",
            "objective.mask_token_fraction": 1.0,
            "objective.random_token_fraction": 0.0,
            "model.vocab_size": 30522,
            "data.tokenizer.kind": "wordpiece",
            "data.tokenizer.vocab_size": 30522,
            "data.sequence_length": 512,
            "training.eval_every": 1000,
            "training.checkpoint_every": 1000,
            "optimizer.learning_rate": 2e-4,
            "optimizer.weight_decay": 0.01,
            "optimizer.beta1": 0.9,
            "optimizer.beta2": 0.999,
            "optimizer.epsilon": 1e-6,
            "optimizer.clip_norm": 1.0,
            "schedule.kind": "linear",
            "schedule.warmup_steps": 10_000,
        },
    )
    return sized(argument, base, SIZES)
