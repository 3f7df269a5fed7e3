"""Claim O15 (a lecture; Devlin et al. 2019, section 3.2): the first token, [CLS], is enough for
classification.

    zoo run experiments/pooling.py
    zoo run experiments/pooling.py:full

For each seed, a masked language model is trained on the standard library's docstrings, on rows that
begin with [CLS] and end with [SEP], like those of the task. Three runs start from it and learn to
classify docstrings by their module, one of 16. They differ in the vector from which the class is
predicted: that of the first token, that of the last one ([SEP]), or the mean of all.

Stated beforehand, on the accuracy on the held-out docstrings after the last step:

* The first token ends at most 0.02 below the mean (non-inferiority).
* The first token ends at most 0.02 below the last one (non-inferiority).

Pre-training does not make [CLS] a summary here: as in RoBERTa, there is no next-sentence
prediction.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size, levels

MARGIN = 0.02
# Settings of pre-training, and of the runs that start from it.
SIZES = {
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 2,
        "data.tokenizer.vocab_size": 2048,
        "data.sequence_length": 32,
        "training.steps": 1500,
        "schedule.warmup_steps": 150,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "data.tokenizer.vocab_size": 8192,
        "data.sequence_length": 128,
        "training.steps": 20_000,
        "schedule.warmup_steps": 2000,
        "optimizer.learning_rate": 5e-4,
    },
}
TUNED = {
    "tiny": {"training.steps": 600, "schedule.warmup_steps": 60, "optimizer.learning_rate": 1e-3},
    "full": {"training.steps": 2000, "schedule.warmup_steps": 200, "optimizer.learning_rate": 3e-4},
}


def get_experiment(size: str = "tiny") -> Experiment:
    """Three vectors of a row."""
    trained = config.override(
        config.default(),
        {
            "model.architecture": "encoder",
            "model.attention.num_heads": 4,
            "model.position.kind": "learned",
            "objective.kind": "masked",
            "data.source": "stdlib:docstrings",
            "data.tokenizer.kind": "wordpiece",
            "data.row_format": "doc_sentences",
            "data.batch_size": 32,
            "optimizer.learning_rate": 1e-3,
            "schedule.kind": "linear",
            "training.eval_every": 500,
            **choose_size(size, SIZES),
        },
    )
    first, last, mean = (Side({"vector": name}) for name in ("first", "last", "mean"))
    return Experiment(
        name="pooling" if size == "tiny" else f"pooling-{size}",
        question="Is the vector of [CLS] enough to classify a text?",
        base=config.with_body_of(
            trained,
            "prerequisite:bert",
            {
                "objective.kind": "classification",
                "data.batch_size": 16,
                "data.sequence_length": trained.data.sequence_length,
                "training.eval_every": 0,
                "training.checkpoint_every": 0,
                **TUNED[size],
            },
        ),
        prerequisites={"bert": Prerequisite(trained)},
        factors={"vector": levels("model.head.pooling", "first", "last", "mean")},
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        claim=Claim(
            "O15",
            "[CLS] is enough for classification; compare mean pooling and last token",
            "a lecture; Devlin et al. 2019, section 3.2",
        ),
        contrasts=tuple(
            Contrast(
                f"the first token is as good as {name}",
                a=first,
                b=other,
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"the first token ends at most {MARGIN} of accuracy below {name}",
            )
            for name, other in (("the mean", mean), ("the last token", last))
        ),
        size=size,
    )
