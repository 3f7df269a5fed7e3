"""Claim O16 (a lecture): casing matters for tagging and not for the class of a text.

    zoo run experiments/casing.py
    zoo run experiments/casing.py:full
    zoo run experiments/casing.py:data=FOLDER
    zoo run experiments/casing.py:full,data=FOLDER

For each seed two masked language models are trained on the same text, one with a cased WordPiece
vocabulary and one with a lower-case vocabulary of the same size (`data.tokenizer.lowercase`). From
each, one run learns to tag words and one learns to classify texts.

Without a folder, the text is the standard library's code, the tags are the kinds of the tokens of
Python code (keyword, name, number, string, operator, comment), and the classes are the modules of
docstrings, one of 16. Casing distinguishes the keyword None from the name none, and little else
among these tags, so this is a weaker form of the claim, which is about names of people and places.

A folder holds data of one's own, such as WikiText, WNUT-17 and SST-2:

    FOLDER/text/*.train.*                 text for pre-training, plain or .gz
    FOLDER/tagging/*.{train,dev}.conll    words and tags of entities
    FOLDER/classification/*.{train,dev}.tsv   text and label, without a header

Texts to classify that are in lower case already, as SST-2 is usually published, show only whether a
cased vocabulary costs anything.

Stated beforehand, on the held-out accuracy after the last step, of words and of texts:

* On tags, the cased model ends more than 0.005 above the uncased one (superiority): one word in two
  hundred. With a folder the score is the F1 of entities, and the cased model ends more than 0.01
  above.
* On classes, the cased model ends within 0.03 of the uncased one (equivalence).
"""

from typing import Any

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size, levels

TAG_MARGIN, ENTITY_MARGIN, CLASS_MARGIN = 0.005, 0.01, 0.03
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


def pretraining_data(folder: str) -> dict[str, Any]:
    """Returns the fields of the text for pre-training."""
    return {"data.source": f"text:{folder}/text/*.train.*", "data.document_separator": "\n = "} if folder else {}


def tasks(folder: str) -> dict[str, dict[str, Any]]:
    """Returns the fields of both tasks."""
    kinds = levels("objective.kind", "tagging", "classification")
    if not folder:
        return kinds
    files = {"tagging": ("conll", "conll"), "classification": ("tsv", "tsv")}
    columns = {
        "tagging": {"data.header": True, "data.column": "text", "data.label_column": "label"},
        "classification": {"data.header": False, "data.column": "0", "data.label_column": "1"},
    }
    return {
        task: {
            **kind,
            **columns[task],
            **{
                f"data.{field}": f"{files[task][0]}:{folder}/{task}/*.{part}.{files[task][1]}"
                for field, part in (("source", "train"), ("held_out", "dev"))
            },
        }
        for task, kind in kinds.items()
    }


def get_experiment(argument: str = "tiny") -> Experiment:
    """Two vocabularies, two tasks. `argument` is "[SIZE][,data=FOLDER]"."""
    size, _, folder = argument.partition("data=")
    size = size.rstrip(",") or "tiny"
    trained = {
        casing: config.override(
            config.default(),
            {
                "model.architecture": "encoder",
                "model.attention.num_heads": 4,
                "model.position.kind": "learned",
                "objective.kind": "masked",
                **pretraining_data(folder),
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

    def arm(casing: str, task: str, metric: str | None = None) -> Side:
        return Side({"casing": casing, "task": task}, metric)

    score, margin = ("eval/entity_f1", ENTITY_MARGIN) if folder else (None, TAG_MARGIN)

    return Experiment(
        name="casing" + (f"-{size}" if size != "tiny" else "") + ("-files" if folder else ""),
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
            "task": tasks(folder),
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        # The contrasts compare arms of one task.
        allow=("text", "targets") if folder else ("targets",),
        claim=Claim(
            "O16",
            "Casing matters for tagging and not for sentiment"
            + ("" if folder else " (judged on kinds of code tokens and on docstrings)"),
            "a lecture",
        ),
        contrasts=(
            Contrast(
                "casing matters for tags",
                a=arm("cased", "tagging", score),
                b=arm("uncased", "tagging", score),
                rule="superiority",
                margin=margin,
                expected=f"of tags, cased ends more than {margin} of {'F1' if folder else 'accuracy'} above uncased",
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
