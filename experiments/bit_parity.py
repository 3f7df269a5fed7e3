"""Claim V59 (Grazzi et al. 2024): a delta rule answers the parity of more bits than it was trained on
if its rates go up to 2, and neither does so with rates up to 1 nor does attention.

    zoo run experiments/bit_parity.py
    zoo run experiments/bit_parity.py:small

A document is a string of bits and the parity of their sum. Each bit that is 1 turns the parity around.
A state does so with an eigenvalue of -1, which a delta rule has where its rate is 2
(`attention.negative_eigenvalues`). With rates up to 1 no eigenvalue is below 0, and no such layer of
finite precision answers strings of every length (Grazzi et al., theorem 1). Documents of eight lengths
from 1 to 16 are learned together, since the shorter ones lead to the longer ones. Lengths of 20, 24
and 32 are asked about, which no document of the training has.

Arms are those of `state_tracking.py`: Gated DeltaNet with rates up to 1, the same with rates up to 2,
and softmax attention with RoPE, in two layers, with the parameters that each has, and each at three
learning rates, about a factor of 3 apart. No rate is tuned: the held-out documents of a few bits are
other ones than those of the training, so that `eval/loss` does not fall where more answers are right.
So one learning rate of the rates up to 2 is compared with each learning rate of the others.

Seen before this file was written: one run each of rates up to 1 and up to 2 with these settings, seed
0 at twice the rate of the size, which answered 0.50 and all of the longer documents; and such runs
trained on up to 32 bits and asked about up to 64, which answered 0.51 and all of them with two layers,
0.49 and 0.94 with one.

Stated beforehand, on `measured/longer_parity` at the last step, the mean over the three longer lengths
of the share of 1,024 new documents whose answer is right (0.5 by chance):

* The share of rates up to 2, at the middle learning rate, is more than 0.1 above that of rates up to 1
  at each learning rate (superiority).
* It is more than 0.1 above that of softmax attention at each learning rate (superiority).
"""

from pathlib import Path

from zoo import config
from zoo.lab.experiment import Claim, Experiment

TRACKING = config.import_file(Path(__file__).with_name("state_tracking.py"), "experiment file")
MARGIN, METRIC = 0.1, "measured/longer_parity"
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
TASK = {
    "data.source": "mixture",
    "data.mixture": tuple(
        f"{1 / len(LENGTHS):.3f}*synthetic:parity;length={length};documents=50000" for length in LENGTHS
    ),
    "data.isolate_documents": True,
    "data.sequence_length": 64,
    "model.num_layers": 2,
}
TINY = {"data.batch_size": 16, "training.steps": 1800, "schedule.warmup_steps": 100}


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention and Gated DeltaNet with rates up to 1 and to 2, at three learning rates."""
    claim = Claim(
        "V59",
        "A delta rule whose rates go up to 2 answers the parity of more bits than it was trained on, and one with "
        "rates up to 1 and attention do not",
        "Grazzi et al. 2024, Negative Eigenvalues",
    )
    question = "Does a delta rule answer the parity of more bits than it was trained on if its rates go up to 2?"
    task = TASK | (TINY if size == "tiny" else {})
    return TRACKING.rates_compared(size, "bit_parity", question, claim, task, METRIC, MARGIN)
