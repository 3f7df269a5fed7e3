"""Claim O16 (a lecture): casing matters for tagging and not for the class of a text.

    zoo run experiments/casing.py
    zoo run experiments/casing.py:full

For each seed two masked language models are trained on the standard library's code, one with a
cased WordPiece vocabulary and one with a lower-case vocabulary of the same size
(`data.tokenizer.lowercase`). From each, one run learns to tag the tokens of Python code (keyword,
name, number, string, operator, comment), and one learns to classify docstrings by their module, one
of 16.

The lecture tags names of people and places, and classifies sentiment; Python comes with data for
neither. Casing distinguishes the keyword None from the name none, and little else among these tags,
so this is a weaker form of the claim. `--set data.source=conll:...` would change both tasks; use
this file as a template for other data.

Stated beforehand, on the held-out accuracy after the last step, of words and of docstrings:

* On tags, the cased model ends more than 0.005 above the uncased one (superiority): one word in two
  hundred.
* On classes, the cased model ends within 0.03 of the uncased one (equivalence).
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size, levels

TAG_MARGIN, CLASS_MARGIN = 0.005, 0.03
# Settings of pre-training, and of the runs that start from it.
SIZES = {
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 2,
        "data.tokenizer.vocab_size": 2048,
        "data.sequence_length": 64,
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
    """Two vocabularies, two tasks."""
    trained = {
        casing: config.override(
            config.default(),
            {
                "model.architecture": "encoder",
                "model.attention.num_heads": 4,
                "model.position.kind": "learned",
                "objective.kind": "masked",
                "data.tokenizer.kind": "wordpiece",
                "data.tokenizer.lowercase": casing == "uncased",
                "data.batch_size": 32,
                "optimizer.learning_rate": 1e-3,
                "schedule.kind": "linear",
                "training.eval_every": 500,
                **choose_size(size, SIZES),
            },
        )
        for casing in ("cased", "uncased")
    }

    def arm(casing: str, task: str) -> Side:
        return Side({"casing": casing, "task": task})

    return Experiment(
        name="casing" if size == "tiny" else f"casing-{size}",
        question="For which tasks does it matter whether a vocabulary has large letters?",
        base=config.with_body_of(
            trained["cased"],
            "prerequisite:cased",
            {
                "objective.kind": "classification",
                "data.batch_size": 16,
                "data.sequence_length": trained["cased"].data.sequence_length,
                "training.eval_every": 0,
                "training.checkpoint_every": 0,
                **TUNED[size],
            },
        ),
        prerequisites={casing: Prerequisite(settings) for casing, settings in trained.items()},
        factors={
            "casing": {
                casing: {
                    "training.start_from": f"prerequisite:{casing}",
                    "data.tokenizer.path": f"prerequisite:{casing}",
                }
                for casing in trained
            },
            "task": levels("objective.kind", "tagging", "classification"),
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        # The contrasts compare arms of one task.
        allow=("targets",),
        claim=Claim(
            "O16",
            "Casing matters for tagging and not for sentiment (judged on kinds of code tokens and on docstrings)",
            "a lecture",
        ),
        contrasts=(
            Contrast(
                "casing matters for tags",
                a=arm("cased", "tagging"),
                b=arm("uncased", "tagging"),
                rule="superiority",
                margin=TAG_MARGIN,
                expected=f"of tags, cased ends more than {TAG_MARGIN} of accuracy above uncased",
            ),
            Contrast(
                "casing does not matter for classes",
                a=arm("cased", "classification"),
                b=arm("uncased", "classification"),
                rule="equivalence",
                margin=CLASS_MARGIN,
                expected=f"of classes, cased ends within {CLASS_MARGIN} of uncased",
            ),
        ),
        size=size,
    )
