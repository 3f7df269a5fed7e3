"""Claim N6 (Shen et al. 2020): BatchNorm suffers with few rows in a batch, LayerNorm does not.

    zoo run experiments/batch_norm.py
    zoo run experiments/batch_norm.py:small

An encoder of the sizes of `zoo.lab.sizes` that predicts masked tokens, with BatchNorm and with
LayerNorm, on batches of 2, 4, 8 and 32 rows. It is not a decoder, because the statistics of a batch
would reveal something about the tokens that a decoder is to predict. All arms take the same number of
steps, so larger batches read more text. The contrasts compare the two norms at one batch size, not
batch sizes. Each arm uses its best learning rate, fitted with separate seeds.

Stated beforehand, on `eval/loss` at the last step, where BatchNorm uses its running statistics:

* With 2 rows LayerNorm ends more than 0.05 nats below BatchNorm (superiority).
* With 32 rows BatchNorm ends at most 0.05 nats above LayerNorm (non-inferiority).

`experiments/batch_norm_domain.py` tests the other half of the claim, evaluation on another kind of
text than training.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, rates, sized_name

MARGIN = 0.05


def get_experiment(size: str = "tiny") -> Experiment:
    """Two norms, four batch sizes."""

    def arm(norm: str, rows: str) -> Side:
        return Side({"norm": norm, "rows": rows})

    return Experiment(
        name=sized_name("batch_norm", size),
        question="Does BatchNorm need larger batches than LayerNorm?",
        # All held-out text is scored, because a sample would depend on the batch size.
        base=config.override(
            decoder(size),
            {
                "model.architecture": "encoder",
                "objective.kind": "masked",
                "training.eval_batches": 0,
                "training.eval_every": 0,
                "data.validation_fraction": 0.01,
            },
        ),
        factors={
            "norm": levels("model.norm.kind", "batchnorm", "layernorm"),
            "rows": levels("data.batch_size", 2, 4, 8, 32),
        },
        tune=rates(size),
        allow=("tokens",),
        claim=Claim("N6", "BatchNorm suffers at batch < 8; LayerNorm does not", "Shen et al. 2020, PowerNorm"),
        contrasts=(
            Contrast(
                "few rows hurt BatchNorm",
                a=arm("layernorm", "2"),
                b=arm("batchnorm", "2"),
                rule="superiority",
                margin=MARGIN,
                expected=f"with 2 rows LayerNorm ends more than {MARGIN} nats below BatchNorm",
            ),
            Contrast(
                "many do not",
                a=arm("batchnorm", "32"),
                b=arm("layernorm", "32"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"with 32 rows BatchNorm ends at most {MARGIN} nats above LayerNorm",
            ),
        ),
        size=size,
    )
