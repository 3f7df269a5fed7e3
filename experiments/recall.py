"""Claim A15, asked of recall instead of text: Canon layers help to find a pair (Allen-Zhu 2025).

    zoo run experiments/recall.py
    zoo run experiments/recall.py:small

The decoder of `zoo.lab.sizes` learns associative recall alone: a document is a few pairs of a key and
a digit, a question mark, one of the keys, and its digit. Arms have softmax attention, and softmax
attention with Canon layers, which add 2 % of the parameters. Each arm uses its best learning rate of a
shared grid, found with a separate seed by `eval/loss`. `tiny` has 4 pairs of 12 keys and 2,000 steps,
other sizes have 16 pairs of 52 keys. `multi_query_recall.py` asks for all pairs of a document, which
attention alone learns sooner.

Stated beforehand, on `measured/probe_recall` at the last step, the share of 1,024 new documents whose
digit is right (0.1 for a random digit, 0.39 for the most frequent digit of the document):

* The share with Canon layers is more than 0.05 above that without (superiority).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.05
METRIC = "measured/probe_recall"
TINY = {"data.source": "synthetic:recall,length=4,symbols=12", "training.steps": 2000, "schedule.warmup_steps": 100}


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention with and without Canon layers."""
    changes = TINY if size == "tiny" else {"data.source": "synthetic:recall,length=16,symbols=52"}

    def share(mixing: str) -> Side:
        return Side({"mixing": mixing}, METRIC)

    return Experiment(
        name=sized_name("recall", size),
        question="What do Canon layers do to associative recall?",
        base=decoder(size, changes),
        factors={"mixing": {"softmax": {}, "canon": {"model.convolution.kind": "canon"}}},
        allow=("parameters", "flops"),
        tune=rates(size, 0.16, 0.4, 1, 2.5),
        claim=Claim("A15", "Canon layers help to recall pairs", "Allen-Zhu 2025, Physics of Language Models, part 4.1"),
        contrasts=(
            Contrast(
                "Canon layers help recall",
                a=share("canon"),
                b=share("softmax"),
                rule="superiority",
                margin=MARGIN,
                expected=f"Canon layers recall more than {MARGIN} more than none",
            ),
        ),
        size=size,
    )
