"""Fine-tuning for the label of a text or of a pair of texts, from any run or, at the size of a toy,
from scratch.

    python train.py --config=configs/finetune/classification.py:tiny --workdir=runs/modules
    python train.py --config=configs/finetune/classification.py:tiny,data.source=stdlib:pairs --workdir=runs/pairs
    python train.py --config=configs/finetune/classification.py:from=runs/bert --workdir=runs/sst2 \\
        --config.data.source=tsv:train.tsv --config.data.held_out=tsv:dev.tsv --config.data.column=sentence

`tiny` tells which module of Python's library a docstring is from. `from=RUN` takes the body and the
tokenizer of a run, ours or imported, and what BERT is fine-tuned with (Devlin et al. 2019, appendix
A.3); set the data, and training.steps to three passes or so. With data.stride, texts longer than a
row are read in overlapping windows (docs/long_documents.md). An ELMo stays as it is, and what is
trained is a mixture of its layers and the head (Peters et al. 2018, section 3.3), at a rate of
1e-3.
"""

from zoo.config import finetuned


def get_config(argument: str = "tiny"):
    """Returns the config of "tiny" or "from=RUN", with "field=value" behind commas."""
    return finetuned(argument, {"objective.kind": "classification"})
