"""Claim O1 (Liu et al. 2019, Table 2): dropping next-sentence prediction costs nothing downstream.

    zoo run experiments/next_sentence.py
    zoo run experiments/next_sentence.py:full

Liu et al. 2019, section 4.2, compare inputs of BERT by fine-tuning: pairs of segments with
next-sentence prediction (90.4 F1 on SQuAD 1.1, 84.0 on MNLI), and without it rows of full sentences
(90.4, 84.7) and rows of sentences of one document (90.6, 84.7). Here, for each seed, a small BERT is
pre-trained on the standard library's docstrings in each of these ways, and on pairs of segments
without the task, which separates the task from the rows. Each of the four is fine-tuned on two
tasks: to classify docstrings by their module, one of 16, and to tell whether one paragraph follows
another. The second is the task that next-sentence prediction trains, so it is the harder test
of the claim. The text of the held-out examples is part of the pre-training text, without labels.

Stated beforehand, on the held-out accuracy after the last step of fine-tuning:

* On either task, full sentences without next-sentence prediction end at most 0.03 below pairs of
  segments with it (non-inferiority).
* So do sentences of one document.

And on the loss of masked tokens at the end of pre-training, which only the pairs of segments can
compare, because other rows hide other tokens: without the task it is at most 0.05 nats above that
with it (non-inferiority), 5 % of perplexity. Fine-tuned pairs of segments without the task are shown
but not judged.

The tiny size has 12 runs of pre-training and 24 of fine-tuning.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size

MARGIN, LOSS_MARGIN = 0.03, 0.05
BERT = Path(__file__).parents[1] / "configs" / "bert.py"
# Settings of pre-training, and of the runs that start from it.
SIZES = {
    "tiny": {
        "model.position.max_length": 64,
        "data.sequence_length": 64,
        "data.batch_size": 16,
        "data.tokenizer.vocab_size": 2048,
        "training.steps": 1500,
        "schedule.warmup_steps": 150,
        "optimizer.learning_rate": 1e-3,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "model.ffn.hidden_dim": 1024,
        "model.position.max_length": 128,
        "data.sequence_length": 128,
        "data.batch_size": 32,
        "data.tokenizer.vocab_size": 8192,
        "training.steps": 20_000,
        "schedule.warmup_steps": 2000,
        "optimizer.learning_rate": 3e-4,
    },
}
TUNED = {
    "tiny": {"training.steps": 600, "schedule.warmup_steps": 60, "optimizer.learning_rate": 1e-3},
    "full": {"training.steps": 2000, "schedule.warmup_steps": 200, "optimizer.learning_rate": 3e-4},
}
TASK = ("objective.next_sentence", "model.head.next_sentence", "model.head.pooler")
INPUTS = {
    "segment pairs with the task": ("with_task", "segment_pairs"),
    "segment pairs": ("segment_pairs", "segment_pairs"),
    "full sentences": ("full_sentences", "full_sentences"),
    "sentences of a document": ("doc_sentences", "doc_sentences"),
}
WITH, WITHOUT, *ROWS = INPUTS
TASKS = {"modules": "stdlib", "pairs": "stdlib:pairs"}


def pretraining(size: str) -> dict[str, Mapping[str, Any]]:
    """Returns the config of every pre-training, by the name of its run."""
    base = config.override(
        config.load(f"{BERT}:tiny"),
        {
            "model.dropout": 0.0,
            "model.attention.dropout": 0.0,
            "data.source": "stdlib:docstrings",
            "data.tokenizer.kind": "wordpiece",
            "objective.mask_copies": 0,
            "training.eval_batches": 60,
            **choose_size(size, SIZES),
        },
    )
    steps = base.training.steps
    return {
        run: config.override(
            base,
            {
                "data.row_format": rows,
                "training.eval_every": steps // 3,
                "training.checkpoint_every": steps,
                **dict.fromkeys(TASK, run == "with_task"),
            },
        )
        for run, rows in INPUTS.values()
    }


def get_experiment(size: str = "tiny") -> Experiment:
    """Four inputs of pre-training, two tasks."""
    trained = pretraining(size)

    def arm(pretrained: str, task: str, metric: str | None = None) -> Side:
        return Side({"pre-training": pretrained, "task": task}, metric)

    return Experiment(
        name="next_sentence" if size == "tiny" else f"next_sentence-{size}",
        question="What does pre-training without next-sentence prediction cost after fine-tuning?",
        base=config.with_body_of(
            trained["with_task"],
            "prerequisite:with_task",
            {
                "objective.kind": "classification",
                "data.batch_size": 16,
                "data.sequence_length": trained["with_task"].data.sequence_length,
                "training.eval_every": 0,
                "training.checkpoint_every": 0,
                **TUNED[size],
            },
        ),
        prerequisites={run: Prerequisite(settings) for run, settings in trained.items()},
        factors={
            "pre-training": {
                name: {"training.start_from": f"prerequisite:{run}", "data.tokenizer.path": f"prerequisite:{run}"}
                for name, (run, _) in INPUTS.items()
            },
            "task": {task: {"data.source": source} for task, source in TASKS.items()},
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        # The contrasts compare arms of one task.
        allow=("text", "parameters"),
        claim=Claim(
            "O1",
            "Dropping next-sentence prediction costs nothing downstream",
            "Liu et al. 2019, RoBERTa, section 4.2 and Table 2",
        ),
        contrasts=(
            *(
                Contrast(
                    f"{rows} are enough for {task}",
                    a=arm(rows, task),
                    b=arm(WITH, task),
                    rule="non_inferiority",
                    margin=MARGIN,
                    expected=f"on {task}, {rows} without the task end at most {MARGIN} of accuracy below segment pairs "
                    "with it",
                )
                for task in TASKS
                for rows in ROWS
            ),
            Contrast(
                "pre-training loses nothing",
                a=arm(WITHOUT, "modules", "measured/pretraining_loss"),
                b=arm(WITH, "modules", "measured/pretraining_loss"),
                rule="non_inferiority",
                margin=LOSS_MARGIN,
                expected=f"without the task, masked tokens of segment pairs end at most {LOSS_MARGIN} nats above those "
                "with it",
            ),
        ),
        size=size,
    )
