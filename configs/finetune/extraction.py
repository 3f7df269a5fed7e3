"""Fine-tuning for the answer to a question in a context, from any run or, at the size of a toy,
from scratch.

    python train.py --config=configs/finetune/extraction.py:tiny --workdir=runs/answers
    python train.py --config=configs/finetune/extraction.py:from=runs/bert --workdir=runs/squad \\
        --config.data.source=squad:train-v1.1.json --config.data.held_out=squad:dev-v1.1.json

`tiny` finds defaults of parameters and first lines of docstrings in the heads of Python's
functions. `from=RUN` as in classification.py, with rows of 384 tokens that move on by 128 over long
contexts, and a rate of 5e-5 (Devlin et al. 2019, section 4.2 and its code).
"""

from zoo.config import finetuned


def get_config(argument: str = "tiny"):
    """Returns the config of "tiny" or "from=RUN", with "field=value" behind commas."""
    return finetuned(
        argument, {"objective.kind": "extraction"}, {"data.sequence_length": 384, "optimizer.learning_rate": 5e-5}
    )
