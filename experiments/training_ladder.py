"""Claim O4 (Liu et al. 2019, Table 4): BERT-like models are under-trained; more data and more steps
keep helping.

    zoo run experiments/training_ladder.py
    zoo run experiments/training_ladder.py:full

Liu et al. 2019, section 5, train one model on 16 GB of text, then on 160 GB, then for three and
five times as many steps, and each step improves it. Here a RoBERTa is trained for three budgets,
each twice the one before and with its own schedule, on a small share of the standard library's
training text and on all of it. All arms have the same held-out text and vocabulary.

Stated beforehand, on the loss of masked tokens at the last step:

* On the whole text, each doubling of the steps lowers the loss by more than 0.02 nats
  (superiority). Below 2 % of perplexity per doubling, one would stop.
* At the longest budget the whole text ends more than 0.02 below the small share (superiority). In
  `tiny` the share is then read about 25 times and half of the whole once. `full` needs a longer
  text (`--set data.source=text:...`): it reads the standard library 125 times.

The claim is about models of 355 million parameters, which these cannot settle. They can show
whether the loss still falls at the end of each size's ladder.

An update of this model on twice as many rows takes 73 milliseconds of processor time
(`masking_recipe.py`), so the 18 runs of the tiny size take less than twelve minutes on two idle
cores.
"""

from itertools import pairwise
from pathlib import Path

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size

MARGIN = 0.02
ROBERTA = Path(__file__).parents[1] / "configs" / "roberta.py"
SIZES = {
    "tiny": {
        "model.position.max_length": 64,
        "data.sequence_length": 64,
        "data.tokenizer.vocab_size": 2048,
        "data.batch_size": 16,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "model.ffn.hidden_dim": 1024,
        "model.position.max_length": 128,
        "data.sequence_length": 128,
        "data.tokenizer.vocab_size": 8192,
        "data.batch_size": 64,
        "optimizer.learning_rate": 5e-4,
    },
}
# The budgets, and the small share of the text.
LADDERS = {"tiny": ((400, 800, 1600), 0.02), "full": ((5_000, 10_000, 20_000, 40_000), 0.2)}


def get_experiment(size: str = "tiny") -> Experiment:
    """Steps x text."""
    base = config.override(
        config.load(f"{ROBERTA}:tiny"),
        {
            "model.dropout": 0.0,
            "model.attention.dropout": 0.0,
            "data.tokenizer.kind": "bpe",
            "optimizer.learning_rate": 1e-3,
            "training.eval_every": 200,
            "training.eval_batches": 60,
            **choose_size(size, SIZES),
        },
    )
    budgets, share = LADDERS[size]
    whole, small = "all", f"{100 * share:g} %"

    def arm(text: str, steps: int) -> Side:
        return Side({"text": text, "steps": str(steps)})

    longer = tuple(
        Contrast(
            f"{more} steps are better than {fewer}",
            a=arm(whole, more),
            b=arm(whole, fewer),
            rule="superiority",
            margin=MARGIN,
            expected=f"on the whole text {more} steps end more than {MARGIN} nats below {fewer}",
        )
        for fewer, more in pairwise(budgets)
    )
    return Experiment(
        name="training_ladder" if size == "tiny" else f"training_ladder-{size}",
        question="Do more steps and more text keep helping a RoBERTa?",
        base=base,
        allow=("tokens",),
        factors={
            "text": {whole: {"data.training_fraction": 1.0}, small: {"data.training_fraction": share}},
            "steps": {str(steps): {"training.steps": steps, "schedule.warmup_steps": steps // 10} for steps in budgets},
        },
        seeds=(0, 1, 2),
        claim=Claim(
            "O4",
            "BERT-like models are under-trained: more data and steps keep helping",
            "Liu et al. 2019, RoBERTa, section 5 and Table 4",
        ),
        contrasts=(
            *longer,
            Contrast(
                "more text is better",
                a=arm(whole, budgets[-1]),
                b=arm(small, budgets[-1]),
                rule="superiority",
                margin=MARGIN,
                expected=f"after {budgets[-1]} steps the whole text ends more than {MARGIN} nats below {small} of it",
            ),
        ),
        size=size,
    )
