"""Claim O10 (Xue et al. 2022): bytes trade sequence length for embedding parameters.

    zoo run experiments/bytes_or_subwords.py
    zoo run experiments/bytes_or_subwords.py:full

A decoder over bytes (257 ids) against one over byte-level BPE, trained on the same text with equal
FLOPs. Rows of bytes are three times as long (`full`: four times), so that rows of both kinds hold
about as much text. A byte costs less than a token, because fewer ids are scored, but there are more
of them: at equal FLOPs, bytes get fewer updates. Depth and width are the same, so the model over
bytes has fewer parameters only because its embedding table is smaller.

The arms are compared in bits per byte of the whole held-out text (`training.eval_batches=0`),
because their tokens differ.

Stated beforehand:

* Bytes end at most 0.1 bits per byte above BPE at equal FLOPs (non-inferiority). ByT5 keeps up with
  mT5 (Xue et al. 2022, section 4) with parameters moved from the table into depth and width; none
  are moved here, which makes the test harder.

A run of the tiny size takes 111 seconds of processor time with bytes and 60 with BPE; all 6, two at
a time, took 10 minutes on two cores that also did other work.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size

MARGIN = 0.1
SIZES = {
    "tiny": {"model.dim": 64, "model.num_layers": 2, "schedule.warmup_steps": 80},
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "data.batch_size": 32,
        "schedule.warmup_steps": 1000,
        "optimizer.learning_rate": 1e-3,
    },
}
# Vocabulary, tokens per row and updates of BPE; bytes per row and updates of bytes, with equal
# total FLOPs.
BUDGETS = {"tiny": (2048, 64, 1500, 192, 852), "full": (8192, 128, 30_000, 512, 9_440)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Bytes and BPE at equal FLOPs."""
    base = config.override(
        config.default(),
        {
            "model.attention.num_heads": 4,
            "model.position.kind": "rope",
            "data.batch_size": 16,
            "optimizer.learning_rate": 3e-3,
            "schedule.kind": "cosine",
            "training.eval_every": 0,
            "training.eval_batches": 0,
            **choose_size(size, SIZES),
        },
    )
    vocabulary, tokens, updates, length, byte_updates = BUDGETS[size]
    return Experiment(
        name="bytes_or_subwords" if size == "tiny" else f"bytes_or_subwords-{size}",
        question="What do bytes cost a decoder against subwords at equal FLOPs?",
        base=base,
        allow=("tokens", "parameters", "flops"),
        factors={
            "tokens": {
                "bytes": {
                    "data.tokenizer.kind": "bytes",
                    "data.sequence_length": length,
                    "training.steps": byte_updates,
                },
                "bpe": {
                    "data.tokenizer.kind": "bpe",
                    "data.tokenizer.vocab_size": vocabulary,
                    "data.sequence_length": tokens,
                    "training.steps": updates,
                },
            }
        },
        seeds=(0, 1, 2),
        metric="eval/bits_per_byte",
        claim=Claim(
            "O10",
            "Bytes (vocabulary 256 + specials) trade sequence length for embedding parameters",
            "Xue et al. 2022, ByT5",
        ),
        contrasts=(
            Contrast(
                "bytes are competitive",
                a=Side({"tokens": "bytes"}),
                b=Side({"tokens": "bpe"}),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"bytes end at most {MARGIN} bits per byte above BPE",
            ),
        ),
        size=size,
    )
