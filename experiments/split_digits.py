"""Claim O17 (Touvron et al. 2023): numbers are split into digits, which helps to calculate.

    zoo run experiments/split_digits.py
    zoo run experiments/split_digits.py:small
    zoo run experiments/split_digits.py:full

A decoder over byte-level BPE whose vocabulary holds numbers of several digits, as merging finds them,
against one over BPE of the same size with a token for each digit (`data.tokenizer.split_digits`), as
LLaMA has (section 2.4). A fifth of the rows are docstrings of the standard library, the others are
sums such as 123+456=0579 (`synthetic:addition`). Merging cuts a number from the left by what is
frequent, so that the same digit of two numbers is in tokens of different places and lengths; a digit
of its own is the same token in every number. LLaMA's paper splits digits without a comparison; Lee et
al. 2023 and Singh & Strouse 2024 measure what the format and the tokens of numbers do to sums.

The arms have equally many parameters, updates and tokens. Sums have more tokens where digits are
split, so that this arm sees fewer of them, which makes the test harder.

Stated beforehand:

* With split digits the share of new sums that are right as a whole, `measured/probe_addition`, ends
  more than 0.05 above that without (superiority).
* The held-out text, docstrings and sums together, ends at most 0.02 bits per byte above that without
  (non-inferiority).

`tiny` shows that the comparison runs, and is too short for sums: with half of the rows of each kind,
1,500 updates of one run with split digits took 227 seconds of processor time and gave 0.4 % of the
sums. `small` and `full` are for an accelerator.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size

SUMS_MARGIN, TEXT_MARGIN = 0.05, 0.02
SIZES = {
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 2,
        "data.batch_size": 32,
        "training.steps": 3000,
        "schedule.warmup_steps": 150,
    },
    "small": {
        "model.dim": 128,
        "model.num_layers": 4,
        "data.batch_size": 64,
        "training.steps": 10_000,
        "schedule.warmup_steps": 500,
        "optimizer.learning_rate": 2e-3,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "data.batch_size": 64,
        "training.steps": 20_000,
        "schedule.warmup_steps": 1000,
        "optimizer.learning_rate": 1e-3,
    },
}
# Digits of a number, number of sums and of tokens in the vocabulary.
DATA = {"tiny": (3, 100_000, 1024), "small": (3, 100_000, 1024), "full": (5, 1_000_000, 4096)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Merged and split digits."""
    changes = choose_size(size, SIZES)
    digits, sums, vocabulary = DATA[size]
    base = config.override(
        config.default(),
        {
            "model.attention.num_heads": 4,
            "model.position.kind": "rope",
            "data.source": "mixture",
            "data.mixture": ("0.2*stdlib:docstrings", f"0.8*synthetic:addition,documents={sums},length={digits}"),
            "data.tokenizer.kind": "bpe",
            "data.tokenizer.vocab_size": vocabulary,
            "data.sequence_length": 64,
            "optimizer.learning_rate": 3e-3,
            "schedule.kind": "cosine",
            "training.eval_every": 0,
            "training.eval_batches": 0,
            **changes,
        },
    )

    def side(digits: str, metric: str) -> Side:
        return Side({"digits": digits}, metric)

    return Experiment(
        name="split_digits" if size == "tiny" else f"split_digits-{size}",
        question="Does a token for each digit help a decoder to add?",
        base=base,
        factors={"digits": {"merged": {}, "split": {"data.tokenizer.split_digits": True}}},
        seeds=(0, 1, 2),
        metric="measured/probe_addition",
        claim=Claim(
            "O17",
            "Splitting numbers into digits helps a model to add, and costs the rest of the text nothing",
            "Touvron et al. 2023, LLaMA, section 2.4",
        ),
        contrasts=(
            Contrast(
                "split digits add better",
                a=side("split", "measured/probe_addition"),
                b=side("merged", "measured/probe_addition"),
                rule="superiority",
                margin=SUMS_MARGIN,
                expected=f"with split digits more than {SUMS_MARGIN} more of the sums are right",
            ),
            Contrast(
                "split digits cost no loss",
                a=side("split", "eval/bits_per_byte"),
                b=side("merged", "eval/bits_per_byte"),
                rule="non_inferiority",
                margin=TEXT_MARGIN,
                expected=f"with split digits the loss ends at most {TEXT_MARGIN} bits per byte higher",
            ),
        ),
        size=size,
    )
