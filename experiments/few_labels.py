"""Claim O5 (a lecture): pre-training makes few labels enough.

    zoo run experiments/few_labels.py
    zoo run experiments/few_labels.py:full

An encoder learns to classify docstrings by their module, one of 16 of the standard library, from
some or all of 3,200 labelled examples (`data.examples`; larger subsets contain the smaller ones and
are the same for every seed). It starts from a masked language model of the library's docstrings and
is trained as a whole, or with a frozen body so that only the head learns, or it starts from random
values. All arms have the same body, vocabulary and number of updates, and are scored on the same
held-out examples. The text of the held-out examples is part of the pre-training text, without
labels, because both come from the same library: the experiment is about labels, not about new text.

Stated beforehand, on the accuracy after the last step:

* With 128 labels the pre-trained model is more than 0.05 above the one from random values
  (superiority).
* With 512 labels the pre-trained model is at most 0.05 below the one from random values with all
  3,200 (non-inferiority): pre-training is worth five labels in six.

The claim does not say that a frozen body is enough; those arms are shown but not judged. Learning
rates are not tuned: whole models share one, whatever they start from, and the head alone has at
least ten times as much.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size

MARGIN = 0.05
FEW, SOME, ALL = "128", "512", "all"
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
    "tiny": {"training.steps": 300, "schedule.warmup_steps": 30},
    "full": {"training.steps": 2000, "schedule.warmup_steps": 200},
}
# Learning rates of the pre-trained model, of the head alone, and from random values.
RATES = {"tiny": (1e-3, 1e-2, 1e-3), "full": (3e-4, 1e-2, 3e-4)}


def pretraining(size: str) -> config.ResolvedConfig:
    """Returns the config of a RoBERTa-like model of the standard library's docstrings."""
    return config.override(
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


def get_experiment(size: str = "tiny") -> Experiment:
    """Initialisation x number of labels."""
    trained = pretraining(size)
    base = config.with_body_of(
        trained,
        "prerequisite:bert",
        {
            "objective.kind": "classification",
            "model.head.pooling": "mean",
            "data.batch_size": 16,
            "data.sequence_length": trained.data.sequence_length,
            "training.eval_every": 0,
            "training.checkpoint_every": 0,
            **TUNED[size],
        },
    )
    whole, head, fresh = RATES[size]

    def start(folder: str, layers: int | str, rate: float) -> dict[str, object]:
        return {"training.start_from": folder, "training.trained_layers": layers, "optimizer.learning_rate": rate}

    def arm(way: str, labels: str) -> Side:
        return Side({"start": way, "labels": labels})

    return Experiment(
        name="few_labels" if size == "tiny" else f"few_labels-{size}",
        question="How many labels does pre-training save?",
        base=base,
        prerequisites={"bert": Prerequisite(trained)},
        factors={
            "start": {
                "pre-trained": start("prerequisite:bert", "auto", whole),
                "frozen body": start("prerequisite:bert", 0, head),
                "from scratch": start("", "auto", fresh),
            },
            "labels": {
                "32": {"data.examples": 32},
                FEW: {"data.examples": 128},
                SOME: {"data.examples": 512},
                ALL: {"data.examples": 0},
            },
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        claim=Claim(
            "O5",
            "Pre-training makes few labels enough",
            "a lecture; fine-tuning is that of Devlin et al. 2019, section 3.2",
        ),
        contrasts=(
            Contrast(
                f"pre-training helps with {FEW} labels",
                a=arm("pre-trained", FEW),
                b=arm("from scratch", FEW),
                rule="superiority",
                margin=MARGIN,
                expected=f"with {FEW} labels pre-training gives more than {MARGIN} of accuracy",
            ),
            Contrast(
                f"{SOME} labels are enough",
                a=arm("pre-trained", SOME),
                b=arm("from scratch", ALL),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"{SOME} labels after pre-training give at most {MARGIN} less than all from fresh values",
            ),
        ),
        allow=("tokens",),
        size=size,
    )
