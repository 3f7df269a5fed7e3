"""A language model of the One Billion Word Benchmark (Chelba et al. 2013), from TensorFlow Datasets,
after the example `lm1b` of Flax.

    python train.py --config=configs/lm1b.py:base --workdir=runs/lm1b
    python train.py --config=configs/lm1b.py:tiny --workdir=runs/lm1b-tiny

Sizes: base (49,653,040 parameters); tiny and smoke for a CPU, on Python's own standard library without a
download. The data set is tfds:lm1b, which TFDS prepares when it is first read (10 GB, needs the package
`tensorflow-datasets` and the network; `data.hub.folder` says where). Held out is 1 % of the training
split.

As in the example: 6 layers of width 512, 8 heads, pre-norm, sinusoids, ReLU, no bias in attention, a
head of its own with a bias, 30,000 pieces, packed rows of 128 tokens, 256 of them in a batch (8
devices), dropout 0.1, AdamW with betas 0.9 and 0.98 and decay 0.1, of biases and norms too, the rate
0.05 / sqrt(step) after 1,000 steps of warm-up, 500,000 steps. The example reports a loss of 3.127 on
the test split, which is not held out here.

As it stands, base fits on 8 h100, by `zoo plan`.
"""

from zoo.config import by_role, default, override, sized

SIZES = {"base": {}}
WARMUP = 1000


def get_config(argument: str = "base"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.dim": 512,
            "model.num_layers": 6,
            "model.dropout": 0.1,
            "model.dtype": "bfloat16",
            "model.norm.epsilon": 1e-6,
            "model.position.kind": "sinusoidal",
            "model.attention.num_heads": 8,
            "model.attention.dropout": 0.1,
            "model.attention.bias": False,
            "model.ffn.kind": "relu",
            "model.ffn.hidden_dim": 2048,
            "model.tie_embeddings": False,
            "model.vocab_size": 30_000,
            "model.head.bias": True,
            "model.init.kernel": "xavier_uniform",
            "model.init.embedding_std": 1.0,
            "data.source": "tfds:lm1b",
            "data.validation_fraction": 0.01,
            "data.tokenizer.kind": "unigram",
            "data.tokenizer.vocab_size": 30_000,
            "data.tokenizer.lowercase": False,
            "data.sequence_length": 128,
            "data.batch_size": 256,
            "training.steps": 500_000,
            "training.eval_every": 1000,
            "training.checkpoint_every": 10_000,
            "optimizer.learning_rate": 0.05 * WARMUP**-0.5,
            "optimizer.beta2": 0.98,
            "optimizer.epsilon": 1e-9,
            "optimizer.weight_decay": 0.1,
            **by_role(vector={"weight_decay": 0.1}),
            "schedule.kind": "inverse_sqrt",
            "schedule.warmup_steps": WARMUP,
        },
    )
    return sized(argument, base, SIZES)
