"""Claims P1, P2, P10: the value of position encodings within the training length.

    zoo run experiments/positions_trained.py
    zoo run experiments/positions_trained.py:small

An encoder that predicts masked tokens, because without positions it sees a bag of tokens, as the
exact half of P1 shows (`tests/claims/test_exact.py`), whereas a decoder's causal mask still reveals
order. The arms have no positions, learned vectors, sinusoidal vectors, ALiBi's fixed linear bias,
or T5's learned bias of the distance. Embeddings are initialised with a standard deviation of 1, the
scale of the sinusoids (Vaswani et al. 2017, section 3.4). Each arm uses its best learning rate,
fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step:

* P1: learned positions end more than 0.1 nats below none (superiority). The claim is about
  positions of any kind; the other arms show those, and no rule judges them.
* P2: learned and sinusoidal positions end within 0.05 nats of each other (equivalence; Vaswani et
  al. 2017, Table 3 row E).
* P10: T5's learned bias ends below ALiBi's fixed linear bias (superiority, margin 0).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name


def get_experiment(size: str = "tiny") -> Experiment:
    """Five position schemes in an encoder."""

    def at(positions: str) -> Side:
        return Side({"positions": positions})

    return Experiment(
        name=sized_name("positions_trained", size),
        question="What are positions worth inside the trained length?",
        base=config.override(
            decoder(size),
            {"model.architecture": "encoder", "objective.kind": "masked", "model.init.embedding_std": 1.0},
        ),
        factors={"positions": levels("model.position.kind", "none", "learned", "sinusoidal", "alibi", "relative_bias")},
        tune=rates(size, 0.4, 1, 2.5, 6.25),
        # The arms differ by the table and the biases.
        allow=("parameters",),
        claim=Claim(
            "P1, P2, P10",
            "Without positions an encoder reads a bag of words; learned and sinusoidal ones perform alike; a "
            "learned bias beats ALiBi's fixed line",
            "Vaswani et al. 2017, Table 3 row E; Press et al. 2021",
        ),
        contrasts=(
            Contrast(
                "positions are needed",
                a=at("learned"),
                b=at("none"),
                rule="superiority",
                margin=0.1,
                expected="learned positions end more than 0.1 nats below none",
                claim="P1",
            ),
            Contrast(
                "learned and sinusoidal are alike",
                a=at("learned"),
                b=at("sinusoidal"),
                rule="equivalence",
                margin=0.05,
                expected="they end within 0.05 nats of each other",
                claim="P2",
            ),
            Contrast(
                "a fixed line is more restrictive",
                a=at("relative_bias"),
                b=at("alibi"),
                rule="superiority",
                margin=0.0,
                expected="T5's bias ends below ALiBi",
                claim="P10",
            ),
        ),
        size=size,
    )
