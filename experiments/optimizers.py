"""Claim V25 (Wen et al. 2025): update rules that precondition matrices end below
AdamW, and those that work element by element end where it does.

    zoo run experiments/optimizers.py
    zoo run experiments/optimizers.py:small

The decoder of `zoo.lab.sizes` by AdamW; by NorMuon, MuonH and SOAP, which see a matrix as a whole;
and by Lion, AdEMAMix and schedule-free AdamW. The schedule-free rule has a constant rate after the
warm-up, as it is meant to, the others a cosine. Each arm uses its best learning rate, fitted with
separate seeds, and then, at this rate, its best weight decay, fitted likewise: Lion wants a third to a
tenth of AdamW's rate and three to ten times its decay (docs/optimizers.md). The grid of rates reaches
down to a sixteenth of the rate of its size. Betas and momenta are not tuned, so a verdict on AdEMAMix
is one on its defaults.

Stated beforehand, on `eval/loss` at the last step:

* NorMuon, MuonH and SOAP each end more than 0.02 nats below AdamW (superiority).
* Lion, AdEMAMix and schedule-free AdamW each end within 0.05 nats of AdamW (equivalence).

Published: at 0.1 B parameters all rules that precondition matrices are ahead of all that do not, by at
most 1.4 times in steps, if every rule is tuned; rules of the second kind differ little from AdamW
(arXiv 2509.02046).
"""

from zoo.lab.experiment import Claim, Contrast, Experiment, Side, Tune
from zoo.lab.sizes import decoder, rates, sized_name

AHEAD, ALIKE = 0.02, 0.05
MATRICES = {"NorMuon": "normuon", "MuonH": "muonh", "SOAP": "soap"}
ELEMENTS = {"Lion": "lion", "AdEMAMix": "ademamix", "schedule-free AdamW": "schedule_free"}


def get_experiment(size: str = "tiny") -> Experiment:
    """AdamW, three rules for matrices and three for elements."""
    optimizers = {
        name: {"optimizer.kind": kind, "schedule.kind": "constant" if kind == "schedule_free" else "cosine"}
        for name, kind in {"AdamW": "adamw", **MATRICES, **ELEMENTS}.items()
    }

    def beside_adamw(name: str, rule: str, margin: float, expected: str) -> Contrast:
        a, b = Side({"optimizer": name}), Side({"optimizer": "AdamW"})
        return Contrast(f"{name} beside AdamW", a, b, rule, margin, f"{name} {expected} AdamW")

    return Experiment(
        name=sized_name("optimizers", size),
        question="Which update rules end below AdamW after the same number of steps?",
        base=decoder(size),
        factors={"optimizer": optimizers},
        tune=(rates(size, 0.0625, 0.25, 1, 4, 16), Tune("optimizer.weight_decay", (0.1, 0.4, 1.6))),
        claim=Claim(
            "V25",
            "Update rules that precondition matrices end below AdamW, others where it does",
            "Wen et al. 2025, Fantastic Pretraining Optimizers and Where to Find Them",
            floor="unigram",
            floor_reason="the claim is about how fast a loss falls, wherever on its way it is",
        ),
        contrasts=(
            *(beside_adamw(name, "superiority", AHEAD, f"ends more than {AHEAD} nats below") for name in MATRICES),
            *(beside_adamw(name, "equivalence", ALIKE, f"ends within {ALIKE} nats of") for name in ELEMENTS),
        ),
        size=size,
    )
