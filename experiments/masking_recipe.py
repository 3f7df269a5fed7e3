"""Claim O3 (Devlin et al. 2019, appendix C.2): 80/10/10 corruption beats 100 % [MASK] after
fine-tuning.

    zoo run experiments/masking_recipe.py
    zoo run experiments/masking_recipe.py:full

Of the tokens that it predicts, BERT shows 80 % as [MASK], 10 % unchanged and 10 % as a random
token, because inputs contain no [MASK] when the model is used. In the paper's Table 8, 80/10/10 and
100/0/0 (MASK/SAME/RND) end at 84.2 and 84.3 on MNLI, at 95.4 and 94.9 on named entities after
fine-tuning, and at 94.9 and 94.0 on named entities with a frozen body.

Here, for each seed, a small RoBERTa is pre-trained on the standard library's code with each recipe
(`full` has all six of the paper), and used in three ways: fine-tuned to classify docstrings by
their module, one of 16; fine-tuned to tag the tokens of Python code (keyword, name, number, string,
operator, comment); and with a frozen body whose vectors a new head learns to tag. Python comes with
no data for names of people and places. The text of the held-out examples is part of the
pre-training text, without labels.

Stated beforehand, on the held-out accuracy after the last step:

* For tags, 80/10/10 ends above 100/0/0 after fine-tuning (superiority, margin 0).
* The same holds with a frozen body.
* For modules, it ends at most 0.03 below (non-inferiority).

And on the loss at the end of pre-training, where all recipes are evaluated on the same rows with
the same predicted tokens, every one shown as [MASK] (`training.eval_masks=all`): 80/10/10 ends at
most 0.05 nats above 100/0/0 (non-inferiority), 5 % of perplexity. This comparison favours 100/0/0,
which is trained for nothing else.

The tiny size has 6 runs of pre-training and 18 of fine-tuning.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size

MARGIN, LOSS_MARGIN = 0.03, 0.05
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
    "tiny": {"training.steps": 600, "schedule.warmup_steps": 60},
    "full": {"training.steps": 2000, "schedule.warmup_steps": 200},
}
# Learning rates of the whole model, and of the head on a frozen body.
RATES = {"tiny": (1e-3, 1e-2), "full": (3e-4, 1e-2)}
BERT, MASK = "80/10/10", "100/0/0"
RECIPES = {"tiny": (BERT, MASK), "full": (BERT, MASK, "80/0/20", "80/20/0", "0/20/80", "0/0/100")}


def run_name(recipe: str) -> str:
    """Returns the name of the pre-training with a recipe."""
    return f"mask-{recipe.replace('/', '-')}"


def pretraining(size: str) -> dict[str, Mapping[str, Any]]:
    """Returns the config of every pre-training, by its recipe."""
    base = config.override(
        config.load(f"{ROBERTA}:tiny"),
        {
            "model.dropout": 0.0,
            "model.attention.dropout": 0.0,
            "data.tokenizer.kind": "bpe",
            "training.eval_batches": 60,
            "training.eval_masks": "all",
            **choose_size(size, SIZES),
        },
    )

    def corrupted(recipe: str) -> Mapping[str, Any]:
        mask, _, random = (int(share) / 100 for share in recipe.split("/"))
        return config.override(
            base,
            {
                "training.eval_every": base.training.steps // 3,
                "training.checkpoint_every": base.training.steps,
                "objective.mask_token_fraction": mask,
                "objective.random_token_fraction": random,
            },
        )

    return {recipe: corrupted(recipe) for recipe in RECIPES[size]}


def get_experiment(size: str = "tiny") -> Experiment:
    """Recipes for the predicted tokens, three uses of the model."""
    trained = pretraining(size)

    def use(kind: str, layers: int | str, rate: float) -> dict[str, Any]:
        return {"objective.kind": kind, "training.trained_layers": layers, "optimizer.learning_rate": rate}

    whole, head = RATES[size]
    uses = {
        "modules": use("classification", "auto", whole),
        "tags": use("tagging", "auto", whole),
        "tags, frozen body": use("tagging", 0, head),
    }

    def better(name: str, use: str, expected: str, rule: str = "superiority", margin: float = 0.0, metric=None):
        one, other = (Side({"mask/same/random": recipe, "use": use}, metric) for recipe in (BERT, MASK))
        return Contrast(name, a=one, b=other, rule=rule, margin=margin, expected=expected)

    return Experiment(
        name="masking_recipe" if size == "tiny" else f"masking_recipe-{size}",
        question="Is a model better after fine-tuning if some of the tokens that it predicted were not hidden by "
        "[MASK]?",
        base=config.with_body_of(
            trained[BERT],
            f"prerequisite:{run_name(BERT)}",
            {
                "objective.kind": "classification",
                "data.batch_size": 16,
                "data.sequence_length": trained[BERT].data.sequence_length,
                "training.eval_every": 0,
                "training.checkpoint_every": 0,
                **TUNED[size],
            },
        ),
        prerequisites={run_name(recipe): Prerequisite(settings) for recipe, settings in trained.items()},
        factors={
            "mask/same/random": {
                recipe: {
                    "training.start_from": f"prerequisite:{run_name(recipe)}",
                    "data.tokenizer.path": f"prerequisite:{run_name(recipe)}",
                }
                for recipe in trained
            },
            "use": uses,
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        # The contrasts compare arms of one use.
        allow=("targets",),
        claim=Claim(
            "O3",
            "80/10/10 corruption beats 100 % [MASK] after fine-tuning",
            "Devlin et al. 2019, BERT, section 3.1 and appendix C.2",
        ),
        contrasts=(
            better("better for tags", "tags", "fine-tuned for tags, 80/10/10 ends above 100/0/0"),
            better("better for tags on a frozen body", "tags, frozen body", "with a frozen body, it does too"),
            better(
                "as good for modules",
                "modules",
                f"for modules, 80/10/10 ends at most {MARGIN} of accuracy below 100/0/0",
                "non_inferiority",
                MARGIN,
            ),
            better(
                "pre-training loses little",
                "modules",
                f"80/10/10 ends pre-training at most {LOSS_MARGIN} nats above 100/0/0 on hidden tokens",
                "non_inferiority",
                LOSS_MARGIN,
                "measured/pretraining_loss",
            ),
        ),
        size=size,
    )
