"""Claim O1 (Liu et al. 2019, Table 2): dropping next-sentence prediction costs nothing downstream.
Judged here: its cost in pre-training.

    zoo run experiments/next_sentence.py
    zoo run experiments/next_sentence.py:full

Liu et al. 2019, section 4.2, compare four inputs of BERT: pairs of segments and pairs of sentences,
both with next-sentence prediction, and without it rows of full sentences and of sentences of one
document. They judge by fine-tuning; that part of the claim cannot be decided here, because nothing
is fine-tuned. Nor can the four be compared by the loss of their masked tokens: each is scored on
rows of its own kind, which differ in how much text a token sees and in how many tokens are masked;
a row of two sentences is mostly padding.

The effect of the task on masked language modelling can be judged. Therefore both kinds of pairs
also come without the task: the same pairs and the same masked tokens, without the loss of the next
sentence. `eval/loss` is the loss of the masked tokens alone.

Stated beforehand, on `eval/loss` at the last step:

* Pairs of segments without the task end at most 0.05 nats above the same pairs with it
  (non-inferiority).
* So do pairs of sentences.

0.05 nats are 5 % of perplexity. Rows of full sentences and of one document are shown but not
judged; their value is a question for fine-tuning.

An update of this model takes 73 milliseconds of processor time, so the 18 runs of the tiny size
take seven minutes on two idle cores.
"""

from pathlib import Path

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size

MARGIN = 0.05
BERT = Path(__file__).parents[1] / "configs" / "bert.py"
SIZES = {
    "tiny": {
        "model.position.max_length": 64,
        "data.sequence_length": 64,
        "data.tokenizer.vocab_size": 2048,
        "training.steps": 500,
        "schedule.warmup_steps": 50,
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
WITH = {"objective.next_sentence": True, "model.head.next_sentence": True, "model.head.pooler": True}
WITHOUT = dict.fromkeys(WITH, False)


def get_experiment(size: str = "tiny") -> Experiment:
    """Two kinds of pairs, with and without the task, and two kinds of rows without pairs."""
    base = config.override(
        config.load(f"{BERT}:tiny"),
        {
            "model.dropout": 0.0,
            "model.attention.dropout": 0.0,
            "data.tokenizer.kind": "wordpiece",
            "data.batch_size": 32,
            "objective.mask_copies": 0,
            "optimizer.learning_rate": 1e-3,
            "training.eval_every": 250,
            "training.eval_batches": 60,
            **choose_size(size, SIZES),
        },
    )
    inputs = {
        "segment pairs, task": {"data.row_format": "segment_pairs", **WITH},
        "segment pairs": {"data.row_format": "segment_pairs", **WITHOUT},
        "sentence pairs, task": {"data.row_format": "sentence_pairs", **WITH},
        "sentence pairs": {"data.row_format": "sentence_pairs", **WITHOUT},
        "full sentences": {"data.row_format": "full_sentences", **WITHOUT},
        "sentences of a document": {"data.row_format": "doc_sentences", **WITHOUT},
    }

    def free(pairs: str) -> Contrast:
        return Contrast(
            f"{pairs} without the task",
            a=Side({"input": pairs}),
            b=Side({"input": f"{pairs}, task"}),
            rule="non_inferiority",
            margin=MARGIN,
            expected=f"without next-sentence prediction {pairs} end at most {MARGIN} nats above the same with it",
        )

    return Experiment(
        name="next_sentence" if size == "tiny" else f"next_sentence-{size}",
        question="What does next-sentence prediction cost or give the prediction of hidden tokens?",
        base=base,
        # The contrasts compare arms with the same rows.
        allow=("parameters", "rows", "targets"),
        factors={"input": inputs},
        seeds=(0, 1, 2),
        claim=Claim(
            "O1",
            "Dropping next-sentence prediction costs nothing (in pre-training; downstream is not judged here)",
            "Liu et al. 2019, RoBERTa, section 4.2 and Table 2",
        ),
        contrasts=(free("segment pairs"), free("sentence pairs")),
        size=size,
    )
