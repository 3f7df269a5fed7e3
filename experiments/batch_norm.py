"""Claim N6 (Shen et al. 2020): BatchNorm suffers with few rows in a batch, LayerNorm does not.

    zoo run experiments/batch_norm.py
    zoo run experiments/batch_norm.py:small

The decoder of `zoo.lab.sizes` with BatchNorm and with LayerNorm, on batches of 2, 4, 8 and 32 rows.
The steps are the same, so that larger batches have read more text; what is judged is the distance
between the two norms, not that between batches.

Stated beforehand, on `eval/loss` at the last step, where BatchNorm uses its running statistics:

* With 2 rows LayerNorm ends more than 0.05 nats below BatchNorm (superiority).
* With 32 rows BatchNorm ends at most 0.05 nats above LayerNorm (non-inferiority).

The other half of the claim, text of another kind in evaluation than in training, is not asked here.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, levels
from zoo.lab.sizes import decoder, sized_name

MARGIN = 0.05


def get_experiment(size: str = "tiny") -> Experiment:
    """Two norms, four batch sizes."""

    def arm(norm: str, rows: str) -> Side:
        return Side({"norm": norm, "rows": rows})

    return Experiment(
        name=sized_name("batch_norm", size),
        question="Does BatchNorm need larger batches than LayerNorm?",
        # All held-out text is scored, as a sample would depend on the size of the batches.
        base=config.override(
            decoder(size), {"training.eval_batches": 0, "training.eval_every": 0, "data.validation_fraction": 0.01}
        ),
        factors={
            "norm": levels("model.norm.kind", "batchnorm", "layernorm"),
            "rows": levels("data.batch_size", 2, 4, 8, 32),
        },
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
