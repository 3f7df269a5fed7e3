"""ELMo (Peters et al. 2018): characters, convolutions and highways, then two LSTM layers in each
direction with a skip connection.

    python train.py --config=configs/elmo.py:tiny --workdir=runs/elmo

Sizes: original (93,600,848 parameters and a softmax of 793,471 words, 407,050,623); tiny and smoke
for a CPU. Sizes, dropout, batch, optimizer, clipping and budget are those of the authors' own training script
(bilm-tf): rows of 20 tokens, 128 on each of 3 GPUs, ten epochs of the 1 Billion Word Benchmark's
768,648,884 tokens, a softmax over 8192 sampled words in training, Adagrad with a rate of 0.2 from a
sum of squares of 1, and a gradient norm of 10, both for the sum over a row's 20 tokens. What differs:
tokens there are words, of which rare ones share a token, here pieces of words.
`data.tokenizer.kind=words` reads words too, with a token for every word of the text, however rare.

As it stands, original fits on 8 h100, by `zoo plan`.
"""

from zoo.config import default, override, sized

SIZES = {
    "original": {
        "model.dim": 512,
        "model.num_layers": 2,
        "model.vocab_size": 793_471,
        "model.elmo.characters": 50,
        "model.elmo.character_dim": 16,
        "model.elmo.filters": (1, 32, 2, 32, 3, 64, 4, 128, 5, 256, 6, 512, 7, 1024),
        "model.elmo.highways": 2,
        "model.elmo.cell_dim": 4096,
    }
}


def get_config(argument: str = "original"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "elmo",
            "objective.kind": "bidirectional",
            "objective.sampled_softmax": 8192,
            "model.residual": True,
            "model.dropout": 0.1,
            "model.elmo.cell_clip": 3.0,
            "model.elmo.projection_clip": 3.0,
            # LSTMs: Glorot's uniform; characters: uniform between -1 and 1, which has this
            # deviation.
            "model.init.kernel": "xavier_uniform",
            "model.init.embedding_std": 3**-0.5,
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 50_257,
            "data.sequence_length": 20,
            "data.batch_size": 384,
            "training.steps": 1_000_840,
            "training.eval_every": 10_000,
            "training.checkpoint_every": 10_000,
            "optimizer.kind": "adagrad",
            "optimizer.learning_rate": 0.2,
            # 1 for the sum over a row's 20 tokens; the loss here is their mean.
            "optimizer.adagrad_initial": 1 / 20**2,
            "optimizer.clip_norm": 0.5,
        },
    )
    return sized(argument, base, SIZES)
