"""Claims A14, A15, asked of recall instead of text: sigmoid attention finds a pair as well as softmax
attention does (Ramapuram et al. 2024), and Canon layers help to find it (Allen-Zhu 2025).

    zoo run experiments/recall.py
    zoo run experiments/recall.py:small

The decoder of `zoo.lab.sizes` learns associative recall alone: a document is a few pairs of a key
and a digit, a question mark, one of the keys, and its digit. Arms have softmax attention, sigmoid
attention with the bias of -ln n, and softmax attention with Canon layers, which add 2 % of the
parameters. Each arm uses its best learning rate, fitted with separate seeds by `eval/loss`. `tiny`
has 4 pairs of 12 keys and 2,000 steps, other sizes have 16 pairs of 52 keys. Attention without
Canon layers does not learn to recall in these steps; `multi_query_recall.py` asks for all pairs of
a document, which it learned with one seed of five (`state_recall.py`).

Stated beforehand, on `measured/probe_recall` at the last step, the share of 1,024 new documents whose
digit is right (0.1 for a random digit, 0.38 for the most frequent digit of the document):

* A14: the share of sigmoid attention is at most 0.05 below that of softmax attention
  (non-inferiority).
* A15: the share with Canon layers is more than 0.05 above that without (superiority).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.05
METRIC = "measured/probe_recall"
TINY = {"data.source": "synthetic:recall,length=4,symbols=12", "training.steps": 2000, "schedule.warmup_steps": 100}


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention, sigmoid attention, and Canon layers."""
    changes = TINY if size == "tiny" else {"data.source": "synthetic:recall,length=16,symbols=52"}

    def share(mixing: str) -> Side:
        return Side({"mixing": mixing}, METRIC)

    return Experiment(
        name=sized_name("recall", size),
        question="What do sigmoid attention and Canon layers do to associative recall?",
        base=decoder(size, changes),
        factors={
            "mixing": {
                "softmax": {},
                "sigmoid": {"model.attention.kind": "sigmoid"},
                "canon": {"model.convolution.kind": "canon"},
            }
        },
        allow=("parameters", "flops"),
        tune=rates(size, 0.16, 0.4, 1, 2.5),
        claim=Claim(
            "A14, A15",
            "Sigmoid attention recalls pairs as well as softmax attention; Canon layers help to recall them",
            "Ramapuram et al. 2024; Allen-Zhu 2025, Physics of Language Models, part 4.1",
        ),
        contrasts=(
            Contrast(
                "sigmoids recall as well",
                a=share("sigmoid"),
                b=share("softmax"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"sigmoid attention recalls at most {MARGIN} less than softmax attention",
                claim="A14",
            ),
            Contrast(
                "Canon layers help recall",
                a=share("canon"),
                b=share("softmax"),
                rule="superiority",
                margin=MARGIN,
                expected=f"Canon layers recall more than {MARGIN} more than none",
                claim="A15",
            ),
        ),
        size=size,
    )
