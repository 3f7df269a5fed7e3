"""A student of a trained run: half of its layers, taught by its predictions and hidden states
(DistilBERT, Sanh et al. 2019).

    python train.py --config=configs/bert.py:tiny --workdir=runs/bert
    python train.py --config=configs/distill.py:from=runs/bert --workdir=runs/student
    python train.py --config=configs/distill.py:distilbert,from=runs/bert --workdir=runs/student

The teacher is any run that predicts tokens, masked or one after another, ours or one that `zoo
import` made. The student has its config but for the depth, reads its data with its tokenizer, and
starts from every other of its layers, its embeddings and its head; of `from=RUN,model.num_layers=3`
from three that are spaced evenly. `training.start_layers` names others by number. The two heads
that only predict the next sentence are left out.

By the paper (sections 2 and 3): the three terms of the loss, the student's layers, no next
sentence, masks drawn anew. The weights of the terms are not in the paper; here all three are 1, at
the temperature 2. `distilbert,from=RUN` has those of the authors' training script (5 for the
divergence, 2 for the true tokens, 1 for the cosine), its beta2 of 0.98 and its layers 0, 2, 4, 7,
9, 11 of twelve; as there, the divergence is over all tokens, and masks prefer rare tokens.
Rate, schedule and clipping are those of configs/distilbert.py; the steps are 1000, for a first look.
"""

from zoo.config import distilled

# Those of the teacher.
SIZES: dict = {}


def get_config(argument: str = "from=runs/bert"):
    """Returns the config of "from=RUN" or "distilbert,from=RUN", with "field=value" behind commas."""
    return distilled(argument)
