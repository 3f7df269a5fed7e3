"""Fine-tuning for a number that a text or a pair of texts has, from any run or, at the size of a
toy, from scratch.

    python train.py --config=configs/finetune/regression.py:tiny --workdir=runs/similarity
    python train.py --config=configs/finetune/regression.py:from=runs/bert --workdir=runs/stsb \\
        --config.data.source=csv:train.csv --config.data.held_out=csv:dev.csv --config.data.header=false \\
        --config.data.column=0 --config.data.second_column=1 --config.data.label_column=2

`tiny` tells how many words two texts share, from 0 to 5. `from=RUN` as in classification.py.
"""

from zoo.config import finetuned


def get_config(argument: str = "tiny"):
    """Returns the config of "tiny" or "from=RUN", with "field=value" behind commas."""
    return finetuned(argument, {"objective.kind": "regression"})
