"""Claims V29, V30 (Sahoo et al. 2024; Clark et al. 2020): masked diffusion prepares an encoder for a
task as well as masked language modelling does, and replaced tokens prepare it better.

    zoo run experiments/pretraining_objective.py
    zoo run experiments/pretraining_objective.py:full

For each seed a small RoBERTa is pre-trained on the standard library's code for the same number of
updates by each objective: masked language modelling (15 % of the tokens, 80/10/10), masked diffusion
(any share of the tokens, all shown as [MASK]), and replaced tokens (15 %, hidden by [MASK] for a
generator of a quarter of the width). It is then fine-tuned to classify docstrings by their module,
one of 16; another arm learns the task from random values. The text of the held-out examples is part
of the pre-training text, without labels.

Stated beforehand, on the held-out accuracy after the last step:

* V29: masked diffusion ends at most 0.03 below masked language modelling (non-inferiority).
* V30: replaced tokens end above masked language modelling (superiority, margin 0).

Learning rates are not tuned: all objectives share one, and so do all arms of the task. Updates are
equal and not FLOPs: replaced tokens also train the generator.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size

MARGIN = 0.03
ROBERTA = Path(__file__).parents[1] / "configs" / "roberta.py"
# Settings of pre-training, and of the runs that start from it.
SIZES = {
    "tiny": {
        "model.position.max_length": 64,
        "data.sequence_length": 64,
        "data.tokenizer.vocab_size": 2048,
        "data.batch_size": 16,
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
        "data.tokenizer.vocab_size": 8192,
        "data.batch_size": 32,
        "training.steps": 20_000,
        "schedule.warmup_steps": 2000,
        "optimizer.learning_rate": 3e-4,
    },
}
TUNED = {
    "tiny": {"training.steps": 600, "schedule.warmup_steps": 60, "optimizer.learning_rate": 1e-3},
    "full": {"training.steps": 2000, "schedule.warmup_steps": 200, "optimizer.learning_rate": 3e-4},
}
OBJECTIVES: dict[str, Mapping[str, Any]] = {
    "masked": {},
    "masked-diffusion": {"objective.kind": "masked_diffusion"},
    "replaced-tokens": {
        "objective.kind": "replaced_tokens",
        "objective.mask_token_fraction": 1.0,
        "objective.random_token_fraction": 0.0,
    },
}


def pretraining(size: str) -> dict[str, config.ResolvedConfig]:
    """Returns the config of every pre-training, by its objective."""
    base = config.override(
        config.load(f"{ROBERTA}:tiny"),
        {
            "model.dropout": 0.0,
            "model.attention.dropout": 0.0,
            "data.tokenizer.kind": "bpe",
            "training.eval_batches": 60,
            **choose_size(size, SIZES),
        },
    )
    evaluated = {"training.eval_every": base.training.steps // 3, "training.checkpoint_every": base.training.steps}
    return {name: config.override(base, {**evaluated, **changes}) for name, changes in OBJECTIVES.items()}


def get_experiment(size: str = "tiny") -> Experiment:
    """Three objectives of pre-training, and none."""
    trained = pretraining(size)

    def start_from(name: str) -> dict[str, str]:
        return {"training.start_from": f"prerequisite:{name}", "data.tokenizer.path": f"prerequisite:{name}"}

    def accuracy(pretrained: str) -> Side:
        return Side({"pre-training": pretrained})

    return Experiment(
        name="pretraining_objective" if size == "tiny" else f"pretraining_objective-{size}",
        question="Which objective of pre-training prepares an encoder best for a task?",
        base=config.with_body_of(
            trained["masked"],
            "prerequisite:masked",
            {
                "objective.kind": "classification",
                "data.batch_size": 16,
                "data.sequence_length": trained["masked"].data.sequence_length,
                "training.eval_every": 0,
                "training.checkpoint_every": 0,
                **TUNED[size],
            },
        ),
        prerequisites={name: Prerequisite(settings) for name, settings in trained.items()},
        factors={
            "pre-training": {name: start_from(name) for name in trained}
            | {"none": start_from("masked") | {"training.start_from": ""}}
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        claim=Claim(
            "V29, V30",
            "Masked diffusion prepares an encoder for a task as well as masked language modelling; replaced tokens "
            "prepare it better",
            "Sahoo et al. 2024, MDLM; Clark et al. 2020, ELECTRA",
            control={"pre-training": "none"},
        ),
        contrasts=(
            Contrast(
                "masked diffusion is as good",
                a=accuracy("masked-diffusion"),
                b=accuracy("masked"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"masked diffusion ends at most {MARGIN} of accuracy below masked language modelling",
                claim="V29",
            ),
            Contrast(
                "replaced tokens are better",
                a=accuracy("replaced-tokens"),
                b=accuracy("masked"),
                rule="superiority",
                margin=0.0,
                expected="replaced tokens end above masked language modelling",
                claim="V30",
            ),
        ),
        allow=("tokens",),
        size=size,
    )
