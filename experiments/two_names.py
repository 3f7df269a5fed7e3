"""An A/A sweep, a check of this laboratory (S2): two names for one arm are not told apart, except by
chance.

    zoo run experiments/two_names.py
    zoo run experiments/two_names.py:small

Twenty arms in ten pairs. All are the decoder of `zoo.lab.sizes`, with 1 to 20 more ids in its
vocabulary than the bytes of the text need. No text contains these ids, so no arm is better than
another, but their rows change the shape of the embedding and of the head, and with it their random
initial values. As in other experiments, everything else begins with the same values and reads the
same batches in the same order. (Two arms that do not differ at all are the same run bit for bit, and
are refused.)

Stated beforehand, on `eval/loss` at the last step:

* Of each pair, the first is said to end below the second (superiority, margin 0). None of the ten is
  true. Each interval of 95 % excludes 0 by chance in one of twenty cases, on either side: at most two
  of the ten may (three or more have a chance of 1.2 %), and the verdict, in which refutations are
  corrected for their number, must be undecided.
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, sized_name

PAIRS = 10
# Ids of bytes, and the token that opens documents.
IDS = 257


def get_experiment(size: str = "tiny") -> Experiment:
    """Ten pairs of arms that differ in nothing that matters."""

    def side(extra: int) -> Side:
        return Side({"ids": str(IDS + extra)})

    return Experiment(
        name=sized_name("two_names", size),
        question="Does an experiment tell two arms apart between which there is no difference?",
        base=decoder(size),
        factors={"ids": levels("model.vocab_size", *(IDS + extra for extra in range(1, 2 * PAIRS + 1)))},
        # The rows of the further ids.
        allow=("parameters", "flops"),
        claim=Claim("S2", "Two names for one arm are told apart by chance alone", "a check of this laboratory"),
        contrasts=tuple(
            Contrast(
                f"pair {pair}",
                a=side(2 * pair - 1),
                b=side(2 * pair),
                rule="superiority",
                margin=0.0,
                expected=f"pair {pair} is undecided",
            )
            for pair in range(1, PAIRS + 1)
        ),
        size=size,
    )
