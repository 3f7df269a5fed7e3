"""Fine-tuning for a tag of each word, from any run or, at the size of a toy, from scratch.

    python train.py --config=configs/finetune/tagging.py:tiny --workdir=runs/tags
    python train.py --config=configs/finetune/tagging.py:from=runs/bert --workdir=runs/entities \\
        --config.data.source=conll:train.conll --config.data.held_out=conll:dev.conll

`tiny` tells the kinds of the tokens of Python code. `from=RUN` as in classification.py, at a rate
of 5e-5.
"""

from zoo.config import finetuned


def get_config(argument: str = "tiny"):
    """Returns the config of "tiny" or "from=RUN", with "field=value" behind commas."""
    return finetuned(argument, {"objective.kind": "tagging"}, {"optimizer.learning_rate": 5e-5})
