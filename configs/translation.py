"""Translation with a small Transformer: English to German captions (Multi30k), or dates in words to
ISO 8601 without any download.

    python train.py --config=configs/translation.py:dates --workdir=runs/dates
    python train.py --config=configs/translation.py:multi30k --workdir=runs/multi30k \\
        --config.data.source="parallel:DIR/multi30k.train.{en,de}.gz" \\
        --config.data.held_out="parallel:DIR/multi30k.val.{en,de}.gz"
    zoo average runs/multi30k --last 10 --out runs/multi30k-averaged
    python eval.py runs/multi30k-averaged --translate --pairs "parallel:DIR/multi30k.test2016.{en,de}.gz"

Sizes: multi30k (2,605,056 parameters), multi30k-short (the same 2,605,056), dates (1,389,056); tiny
and smoke for a CPU, on dates as bytes. multi30k is the text-only Transformer-Tiny of Wu et al. 2021
("Good for Misconceived Reasons"): 4 + 4 layers of width 128, hidden width 256, 4 heads, one BPE of
10,000 tokens for both sides, dropout 0.3, label smoothing 0.1, the rate 0.005 after 2,000 steps of
warm-up, 8,000 updates of 4,096 x 2 tokens, the last 10 checkpoints averaged, 5 beams: 41.02 BLEU on
test2016. Not stated, and fairseq's defaults here: one matrix for all embeddings, post-norm,
sinusoidal positions, ReLU, betas 0.9 and 0.98, the rate as 1 / sqrt(step). Scores here are
sacrebleu's on plain text; BLEU of text that was prepared otherwise is another number.

A batch has about data.batch_size x data.sequence_length = 64 x 128 = 8,192 places on either side,
in twelve shapes (`zoo data show`). multi30k-short takes batches of half the size, dropout 0.1, and
stops after 2,000 updates, 15 times through the data. It is not what was published; it came to 24.8
BLEU on the validation pairs in 52 minutes of processor time (docs/results/translation.md).
"""

from zoo.config import default, override, sized

SIZES = {
    "multi30k": {},
    "multi30k-short": {
        "data.batch_size": 32,
        "data.buckets": 8,
        "model.dropout": 0.1,
        "training.steps": 2000,
        "schedule.warmup_steps": 300,
        "training.eval_every": 300,
        "training.checkpoint_every": 50,
    },
    "dates": {
        "data.source": "stdlib:translation",
        "data.held_out": "",
        "data.tokenizer.vocab_size": 500,
        "data.sequence_length": 32,
        "data.batch_size": 32,
        "data.buckets": 3,
        "model.dropout": 0.0,
        "objective.label_smoothing": 0.0,
        "training.steps": 1000,
        "training.eval_every": 250,
        "training.checkpoint_every": 250,
        "training.keep_checkpoints": 2,
        "optimizer.learning_rate": 2e-3,
        "schedule.warmup_steps": 100,
    },
}


def get_config(argument: str = "multi30k"):
    """Returns the config of "size" or "size,field=value,..."."""
    base = override(
        default(),
        {
            "model.architecture": "encoder_decoder",
            "model.dim": 128,
            "model.num_layers": 4,
            "model.dropout": 0.3,
            "model.embedding.scale": "sqrt_dim",
            "model.norm.kind": "layernorm",
            "model.norm.placement": "post",
            "model.position.kind": "sinusoidal",
            "model.attention.num_heads": 4,
            "model.ffn.kind": "relu",
            "model.ffn.hidden_dim": 256,
            "model.init.kernel": "xavier_uniform",
            "model.tie_embeddings": True,
            "objective.kind": "translation",
            "objective.label_smoothing": 0.1,
            "objective.beams": 5,
            "data.source": "parallel:data/multi30k.train.{en,de}.gz",
            "data.held_out": "parallel:data/multi30k.val.{en,de}.gz",
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": 10000,
            "data.sequence_length": 128,
            "data.batch_size": 64,
            "data.buckets": 12,
            "optimizer.learning_rate": 5e-3,
            "optimizer.beta2": 0.98,
            "schedule.kind": "inverse_sqrt",
            "schedule.warmup_steps": 2000,
            "training.steps": 8000,
            "training.eval_every": 500,
            "training.eval_batches": 0,
            "training.checkpoint_every": 100,
            "training.keep_checkpoints": 10,
        },
    )
    return sized(argument, base, SIZES)
