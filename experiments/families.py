"""Claim O7 (Devlin et al. 2019): an encoder that sees both sides beats a causal decoder, and an
ELMo, on classification at equal size.

    zoo run experiments/families.py
    zoo run experiments/families.py:full

For each seed an encoder is trained on masked tokens, a decoder on the next token, and an ELMo on
the next and the previous one, on the same text, the docstrings of the standard library, with the
same width, vocabulary, packed rows and number of updates. Each is then fine-tuned as a whole to
classify docstrings by their module, one of 16, from the mean of the last layer's vectors, or of a
learned mixture of layers for the ELMo. The families differ in the visible context of a token and in
the share of tokens that pre-training scores: 15 % for the encoder and all for the others, which is
part of the claim. The ELMo reads the characters of the same tokens; the width of its cells makes it
as large as the others, to within 1 %.

Stated beforehand, on the accuracy on the held-out docstrings after the last step:

* The encoder ends more than 0.02 above the decoder (superiority), and more than 0.02 above the
  ELMo.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Prerequisite, Side, choose_size

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
OBJECTIVES = {"encoder": "masked", "decoder": "causal", "elmo": "bidirectional"}
FAMILIES = {"encoder": "the encoder", "decoder": "the decoder", "elmo": "the ELMo"}
# An ELMo of the same size as the others.
ELMO = {
    "tiny": {"model.elmo.cell_dim": 71, "model.elmo.filters": (1, 16, 2, 32, 3, 64), "model.elmo.characters": 16},
    "full": {
        "model.elmo.cell_dim": 627,
        "model.elmo.filters": (1, 32, 2, 64, 3, 128, 4, 256),
        "model.elmo.characters": 24,
    },
}
# Fields of the base that an ELMo does not read.
ATTENDING = (
    "model.position.max_length",
    "model.attention.num_kv_heads",
    "model.attention.num_query_heads",
    "model.attention.head_dim",
    "model.attention.scale",
    "model.ffn.hidden_dim",
)


def get_experiment(size: str = "tiny") -> Experiment:
    """Three families, one task."""
    trained = {
        family: config.override(
            config.default(),
            {
                "model.architecture": family,
                **({} if family == "elmo" else {"model.attention.num_heads": 4, "model.position.kind": "learned"}),
                "objective.kind": objective,
                "data.source": "stdlib:docstrings",
                "data.tokenizer.kind": "wordpiece",
                "data.batch_size": 32,
                "optimizer.learning_rate": 1e-3,
                "schedule.kind": "linear",
                "training.eval_every": 500,
                **choose_size(size, SIZES),
                **(ELMO[size] | {"model.num_layers": 2} if family == "elmo" else {}),
            },
        )
        for family, objective in OBJECTIVES.items()
    }
    return Experiment(
        name="families" if size == "tiny" else f"families-{size}",
        question="Does a pre-trained encoder classify texts better than a pre-trained decoder or ELMo of its size?",
        base=config.with_body_of(
            trained["encoder"],
            "prerequisite:encoder",
            {
                "objective.kind": "classification",
                "model.head.pooling": "mean",
                "data.batch_size": 16,
                "data.sequence_length": trained["encoder"].data.sequence_length,
                "training.eval_every": 0,
                "training.checkpoint_every": 0,
                **TUNED[size],
            },
        ),
        prerequisites={family: Prerequisite(settings) for family, settings in trained.items()},
        # An ELMo has no attention, and the width of its cells matches its size to the others.
        allow=("flops", "levels"),
        factors={
            "family": {
                family: {
                    "model.architecture": family,
                    "training.start_from": f"prerequisite:{family}",
                    "data.tokenizer.path": f"prerequisite:{family}",
                    **(
                        ELMO[size] | {"model.num_layers": 2} | dict.fromkeys(ATTENDING, "auto")
                        if family == "elmo"
                        else {}
                    ),
                }
                for family in trained
            }
        },
        seeds=(0, 1, 2),
        metric="eval/accuracy",
        claim=Claim(
            "O7",
            "A bidirectional encoder beats a causal decoder and ELMo's shallow concatenation on classification at "
            "equal size",
            "Devlin et al. 2019, BERT, section 5.1",
        ),
        contrasts=tuple(
            Contrast(
                f"better than {name}",
                a=Side({"family": "encoder"}),
                b=Side({"family": family}),
                rule="superiority",
                margin=MARGIN,
                expected=f"the encoder ends more than {MARGIN} of accuracy above {name}",
            )
            for family, name in FAMILIES.items()
            if family != "encoder"
        ),
        size=size,
    )
