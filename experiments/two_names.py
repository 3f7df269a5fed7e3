"""An A/A sweep, a check of this laboratory (S2): names for one arm are told apart by chance alone.

    zoo run experiments/two_names.py
    zoo run experiments/two_names.py:small

Ten arms in five pairs. All are the decoder of `zoo.lab.sizes`, with 1 to 10 more ids in its
vocabulary than the bytes of the text need. No text contains these ids, so no arm is better than
another, but their rows change the shape of the embedding and of the head, and with it their random
initial values. As in other experiments, everything else begins with the same values and reads the
same batches in the same order. (Two arms that do not differ at all are the same run bit for bit, and
are refused.) The learning rate is tuned in each of the ten, as if they were different models.

Stated beforehand, on `eval/loss` at the last step:

* The two arms of each pair are equal. Each interval of 95 % excludes 0 by chance in at most one of
  twenty cases, on either side: the check fails if two or more of the five do, which by chance
  happens in at most 2.3 % of sweeps.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

PAIRS = 5
# Ids of bytes, and the token that opens documents.
IDS = 257


def get_experiment(size: str = "tiny") -> Experiment:
    """Five pairs of arms that differ in nothing that matters, each arm at its own rate."""

    def side(extra: int) -> Side:
        return Side({"ids": str(IDS + extra)})

    return Experiment(
        name=sized_name("two_names", size),
        question="Does an experiment tell two arms apart between which there is no difference?",
        base=decoder(size),
        factors={"ids": levels("model.vocab_size", *(IDS + extra for extra in range(1, 2 * PAIRS + 1)))},
        tune=rates(size),
        # The rows of the further ids.
        allow=("parameters", "flops"),
        claim=Claim("S2", "Two names for one arm are told apart by chance alone", "a check of this laboratory"),
        contrasts=tuple(
            Contrast(
                f"pair {pair}",
                a=side(2 * pair - 1),
                b=side(2 * pair),
                rule="equal",
                margin=0.0,
                expected=f"the interval of pair {pair} contains 0",
            )
            for pair in range(1, PAIRS + 1)
        ),
        size=size,
    )
