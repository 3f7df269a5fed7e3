"""Claim V58 (Grazzi et al. 2024; Merrill et al. 2024): a delta rule tracks permutations if its rates
go up to 2, and neither does so with rates up to 1 nor does attention.

    zoo run experiments/state_tracking.py
    zoo run experiments/state_tracking.py:small

A document is a few swaps of two of five places, and the place to which they move what was at the
first one: a word problem of the group S_5. A swap is I - 2 u u^T with a vector u of length 1, which a
delta rule can write with a rate of 2 (`attention.negative_eigenvalues`); with rates up to 1 no
matrix of a token has an eigenvalue below 0. Documents of seven lengths from 1 to 12 are learned
together, since the shorter ones lead to the longer ones. Arms are Gated DeltaNet with rates up to 1,
the same with rates up to 2, and softmax attention with RoPE, in two layers, with the parameters that
each has, and each at three learning rates, about a factor of 3 apart.

No rate is tuned. There are few different short documents, and of these the held-out ones are none of
those that are trained on, so that `eval/loss` does not fall where more answers are right; a search by
it found no minimum and was stopped. So one learning rate of the rates up to 2 is compared with each
learning rate of the others.

Seen before this file was written: one run of rates up to 2 with five places, and one of each other
arm with three. Seen before it was changed as above: losses of the search, and the answers of six runs
of rates up to 2 with a third of the updates, of which two, at 2 and 4 times the rate of the size, were
right at all lengths. So learning rates are higher now, and runs are longer: one of the other four,
seed 1 at twice the rate of the size, then was right at all lengths too. Seen besides were single runs
with three places, with other shares of the lengths, and without a decay.

Stated beforehand, on `measured/probe_permutations` at the last step, the mean over the lengths of the
share of 1,024 new documents whose answer is right (0.2 for a random place):

* The share of rates up to 2, at the middle learning rate, is more than 0.05 above that of rates up to
  1 at each learning rate (superiority).
* It is more than 0.05 above that of softmax attention at each learning rate (superiority).
"""

from typing import Any

from zoo.lab.experiment import Claim, Contrast, Experiment, Side
from zoo.lab.sizes import RATES, decoder, sized_name

MARGIN, METRIC = 0.05, "measured/probe_permutations"
# Learning rates, as multiples of that of the size, and the one of rates up to 2 that is judged.
LADDER, JUDGED = (0.6, 2, 6), 2
LENGTHS = (1, 2, 3, 4, 6, 8, 12)
TASK = {
    "data.source": "mixture",
    "data.mixture": tuple(
        f"{1 / len(LENGTHS):.4f}*synthetic:permutations;length={length};documents=100000" for length in LENGTHS
    ),
    "data.isolate_documents": True,
    "model.num_layers": 2,
}
TINY = {"data.sequence_length": 32, "data.batch_size": 64, "training.steps": 3600, "schedule.warmup_steps": 100}
DELTA = {"model.attention.kind": "gated_delta", "model.position.kind": "none"}


def rates_compared(
    size: str, name: str, question: str, claim: Claim, task: dict[str, Any], metric: str, margin: float
) -> Experiment:
    """Returns the experiment that compares rates up to 2, at one learning rate, with rates up to 1 and
    with softmax attention, at each of three.

    Args:
        size, name, question, claim: of the experiment.
        task: flat overrides of the decoder of that size.
        metric: share of right answers.
        margin: by how much the share of rates up to 2 has to be above each other one.
    """

    def share(mixing: str, factor: float) -> Side:
        return Side({"mixing": mixing, "rate": f"{factor} x"}, metric)

    def beats(other: str, factor: float) -> Contrast:
        return Contrast(
            f"more than {other} at {factor} times the rate",
            a=share("rates up to 2", JUDGED),
            b=share(other, factor),
            rule="superiority",
            margin=margin,
            expected=f"rates up to 2 answer more than {margin} more than {other} at {factor} times the learning rate",
        )

    return Experiment(
        name=sized_name(name, size),
        question=question,
        base=decoder(size, task),
        factors={
            "mixing": {
                "softmax": {},
                "rates up to 1": DELTA,
                "rates up to 2": DELTA | {"model.attention.negative_eigenvalues": True},
            },
            "rate": {f"{factor} x": {"optimizer.learning_rate": RATES[size] * factor} for factor in LADDER},
        },
        allow=("parameters", "flops"),
        claim=claim,
        contrasts=tuple(beats(other, factor) for other in ("rates up to 1", "softmax") for factor in LADDER),
        size=size,
    )


def get_experiment(size: str = "tiny") -> Experiment:
    """Softmax attention and Gated DeltaNet with rates up to 1 and to 2, at three learning rates."""
    claim = Claim(
        "V58",
        "A delta rule whose rates go up to 2 tracks permutations better than one with rates up to 1, and than "
        "attention",
        "Grazzi et al. 2024, Negative Eigenvalues; Merrill et al. 2024, The Illusion of State",
    )
    question = "Does a delta rule track permutations if its rates go up to 2?"
    task = TASK | (TINY if size == "tiny" else {})
    return rates_compared(size, "state_tracking", question, claim, task, METRIC, MARGIN)
