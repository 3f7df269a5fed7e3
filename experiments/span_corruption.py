"""Claim O8 (Raffel et al. 2020, Tables 4 and 5): span corruption suits encoder-decoders. Judged here:
what fine-tuning gets from three objectives of an encoder-decoder.

    zoo run experiments/span_corruption.py
    zoo run experiments/span_corruption.py:full

Raffel et al. 2020, section 3.3, pre-train one encoder-decoder with objectives at equal cost and
fine-tune it: on GLUE it scores 83.28 if it restores tokens that were replaced by sentinels, 82.96 if
it restores whole rows ("BERT-style"), and 80.69 if it continues a prefix. Here, for each seed, a small
encoder-decoder is pre-trained with each of these objectives on the standard library's docstrings, at
equal FLOPs: the number of updates evens out how many tokens an objective reads and writes. Each is
then fine-tuned, as T5 is, to write the answer of a task as text: the name of the module, one of 16,
from the first 24 words of a docstring. Docstrings of more than 64 tokens are left out. A model that
starts from random values shows what pre-training is worth. The text of the held-out examples is
part of the pre-training text, without the modules' names.

Decoders with a prefix or without one are not fine-tuned here: they have no head that writes a text
after reading another. `experiments/objective_and_architecture.py` compares both architectures by
language modelling.

Stated beforehand, on the share of held-out names that are written exactly, after the last step:

* Spans end more than 0.02 above prefixes (superiority); in the paper by 2.6 points.
* Spans end at most 0.03 below whole rows (non-inferiority); in the paper they are 0.3 points above.

The tiny size has 9 runs of pre-training and 12 of fine-tuning.
"""

from collections.abc import Mapping
from typing import Any

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size

BETTER, NOT_WORSE = 0.02, 0.03
# Settings of pre-training, and of the runs that start from it.
SIZES = {
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 2,
        "data.tokenizer.vocab_size": 1024,
        "data.sequence_length": 64,
        "data.batch_size": 16,
        "optimizer.learning_rate": 3e-3,
        "schedule.warmup_steps": 100,
    },
    "full": {
        "model.dim": 256,
        "model.num_layers": 6,
        "data.tokenizer.vocab_size": 8192,
        "data.sequence_length": 256,
        "data.batch_size": 32,
        "optimizer.learning_rate": 1e-3,
        "schedule.warmup_steps": 1000,
    },
}
TUNED = {
    "tiny": {"training.steps": 600, "schedule.warmup_steps": 60, "optimizer.learning_rate": 1e-3},
    "full": {"training.steps": 2000, "schedule.warmup_steps": 200, "optimizer.learning_rate": 3e-4},
}
SENTINELS = 100
# Updates for equal FLOPs, by objective.
STEPS = {
    "tiny": {"span": 1500, "denoising": 697, "prefix": 1479},
    "full": {"span": 10_000, "denoising": 4843, "prefix": 10_358},
}
NAMES = {"span": "spans", "denoising": "whole rows", "prefix": "prefixes"}


def pretraining(size: str) -> dict[str, Mapping[str, Any]]:
    """Returns the config of every pre-training, by its objective."""
    chosen = choose_size(size, SIZES)
    base = config.override(
        config.default(),
        {
            "model.architecture": "encoder_decoder",
            "model.attention.num_heads": 4,
            "model.position.kind": "rope",
            # One table for all objectives, with a row for every token that one of them adds.
            "model.vocab_size": chosen["data.tokenizer.vocab_size"] + SENTINELS,
            "data.source": "stdlib:docstrings",
            "data.tokenizer.kind": "bpe",
            "schedule.kind": "linear",
            "training.eval_batches": 60,
            **chosen,
        },
    )

    def trained(objective: str, steps: int) -> Mapping[str, Any]:
        own = {
            "span": {"objective.sentinels": 20},
            "prefix": {"objective.prefix_length": base.data.sequence_length // 2},
        }
        return config.override(
            base,
            {
                "objective.kind": objective,
                **own.get(objective, {}),
                "training.steps": steps,
                "training.eval_every": steps // 2,
                "training.checkpoint_every": steps,
            },
        )

    return {objective: trained(objective, steps) for objective, steps in STEPS[size].items()}


def get_experiment(size: str = "tiny") -> Experiment:
    """Three objectives of pre-training and none, one task."""
    trained = pretraining(size)
    base = config.override(
        trained["prefix"],
        {
            "objective.kind": "translation",
            "objective.prefix_length": config.default().objective.prefix_length,
            "data.source": "stdlib:classification",
            "data.tokenizer.vocab_size": config.default().data.tokenizer.vocab_size,
            "data.tokenizer.kind": "file",
            "data.sequence_length": 64,
            "data.batch_size": 16,
            "training.eval_batches": 0,
            **TUNED[size],
        },
    )
    steps = base.training.steps

    def start(folder: str, tokenizer: str) -> dict[str, str]:
        return {"training.start_from": folder, "data.tokenizer.path": f"prerequisite:{tokenizer}"}

    def arm(objective: str) -> Side:
        return Side({"pre-training": NAMES[objective]})

    return Experiment(
        name="span_corruption" if size == "tiny" else f"span_corruption-{size}",
        question="Which objective prepares an encoder-decoder best for a task?",
        base=config.override(
            base, {"training.eval_every": steps, "training.translate_every": steps, "training.checkpoint_every": 0}
        ),
        prerequisites={objective: Prerequisite(settings) for objective, settings in trained.items()},
        factors={
            "pre-training": {
                **{NAMES[objective]: start(f"prerequisite:{objective}", objective) for objective in trained},
                "none": start("", "span"),
            }
        },
        seeds=(0, 1, 2),
        metric="eval/exact_match",
        claim=Claim(
            "O8",
            "Span corruption suits encoder-decoders (against other objectives, after fine-tuning)",
            "Raffel et al. 2020, T5, section 3.3, Tables 4 and 5",
            control={"pre-training": "none"},
        ),
        contrasts=(
            Contrast(
                "spans beat prefixes",
                a=arm("span"),
                b=arm("prefix"),
                rule="superiority",
                margin=BETTER,
                expected=f"spans end more than {BETTER} above prefixes",
            ),
            Contrast(
                "spans are as good as whole rows",
                a=arm("span"),
                b=arm("denoising"),
                rule="non_inferiority",
                margin=NOT_WORSE,
                expected=f"spans end at most {NOT_WORSE} below whole rows",
            ),
        ),
        # The tokens of pre-training.
        allow=("tokens",),
        size=size,
    )
