"""Claim O9: segment embeddings help next-sentence prediction.

    zoo run experiments/segment_embeddings.py
    zoo run experiments/segment_embeddings.py:full

BERT adds to every token one of two vectors that say which segment it is in (Devlin et al. 2019,
section 3.2); according to the lecture, this helps to predict whether the second segment follows the
first. Without them a model can still distinguish the segments by the [SEP] between them. Both arms
are BERT on pairs of segments of the standard library's text, where a file is a document, and differ
only in the table of two vectors.

Stated beforehand, on held-out pairs at the last step:

* `eval/next_accuracy` is more than 0.01 higher with segment embeddings than without (superiority).
  The paper's ablations distinguish fine-tuned scores by about one point in a hundred; a smaller
  effect would not count as help.
* The loss of the masked tokens is at most 0.05 nats higher with them (non-inferiority): what helps
  one task must not hurt the other.

The 6 runs of the tiny size took 11 minutes, two at a time, on two cores that also did other work.
Both arms are still improving at the end; the verdict is about that point of training.
"""

from pathlib import Path

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size, levels

ACCURACY_MARGIN, LOSS_MARGIN = 0.01, 0.05
BERT = Path(__file__).parents[1] / "configs" / "bert.py"
SIZES = {
    "tiny": {
        "model.position.max_length": 64,
        "data.sequence_length": 64,
        "data.tokenizer.vocab_size": 2048,
        "training.steps": 1000,
        "schedule.warmup_steps": 100,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "model.ffn.hidden_dim": 1024,
        "model.position.max_length": 128,
        "data.sequence_length": 128,
        "data.tokenizer.vocab_size": 8192,
        "training.steps": 20_000,
        "schedule.warmup_steps": 2000,
        "optimizer.learning_rate": 3e-4,
    },
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Two segment embeddings or none, in BERT."""
    base = config.override(
        config.load(f"{BERT}:tiny"),
        {
            "model.dropout": 0.0,
            "model.attention.dropout": 0.0,
            "data.tokenizer.kind": "wordpiece",
            "data.batch_size": 32,
            "optimizer.learning_rate": 1e-3,
            "training.eval_every": 250,
            "training.eval_batches": 120,
            **choose_size(size, SIZES),
        },
    )
    with_them, without = ({"segment embeddings": level} for level in ("2", "0"))
    return Experiment(
        name="segment_embeddings" if size == "tiny" else f"segment_embeddings-{size}",
        question="Do segment embeddings help a BERT to tell whether the second segment follows the first?",
        base=base,
        factors={"segment embeddings": levels("model.embedding.segments", 2, 0)},
        seeds=(0, 1, 2),
        metric="eval/next_accuracy",
        claim=Claim(
            "O9",
            "Segment embeddings help next-sentence prediction",
            "a lecture; the embeddings are those of Devlin et al. 2019, section 3.2",
        ),
        contrasts=(
            Contrast(
                "they help to tell pairs",
                a=Side(with_them),
                b=Side(without),
                rule="superiority",
                margin=ACCURACY_MARGIN,
                expected=f"accuracy with segment embeddings is more than {ACCURACY_MARGIN} above that without",
            ),
            Contrast(
                "they do not hurt the hidden tokens",
                a=Side(with_them, "eval/loss"),
                b=Side(without, "eval/loss"),
                rule="non_inferiority",
                margin=LOSS_MARGIN,
                expected=f"the loss with segment embeddings ends at most {LOSS_MARGIN} nats above that without",
            ),
        ),
        size=size,
    )
