"""Claim P3 (Press et al. 2021, Fig. 1): trained on short sequences, ALiBi extrapolates to longer
ones; other position encodings do not.

    zoo run experiments/positions_extrapolation.py
    zoo run experiments/positions_extrapolation.py:small

Six position encodings of a decoder, trained at T = 128 and evaluated at 128, 256, 512, 1024 and
2048 (`eval/loss`, then `eval/loss@256` and so on). Each arm uses its best learning rate, by its
loss at 128 and fitted with separate seeds, because an encoding that is not learned at its trained
length says nothing about longer ones. A learned table ends at the training length, so
the learned arm has no value beyond 128: that part of the claim holds by construction and has no
contrast. The arm without positions is shown for comparison and is not part of the claim; neither
learned nor sinusoidal positions should end above it at 128.

Stated beforehand, in nats per byte at the last step:

* ALiBi at 2048 is at most 0.1 above itself at 128 (non-inferiority). Longer rows also give the
  average byte more context, so a constant loss is a modest result; up to 0.1 nats count as "holds".
* Sinusoidal positions at 2048 are more than 0.1 above themselves at 128 (superiority of 128), by
  the same margin.
* RoPE and T5's bias lie between: above ALiBi and below sinusoidal at 2048, all with margin 0.

The arms differ in parameters only by the learned table and T5's biases. T5 puts all distances from
113 on into one bucket, as published. Token embeddings are multiplied by sqrt(D), so that they have the
scale of the sinusoids (Vaswani et al. 2017, section 3.4), and learned tables begin smaller than
tokens. The head is untied, because a tied one would start with equally large logits.

The tiny size has 18 runs, after 84 or more of tuning.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, Tune, choose_size, levels
from zoo.lab.sizes import sized_name

MARGIN = 0.1
LONGEST = "eval/loss@2048"
SIZES = {
    "micro": {
        "model.dim": 32,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.batch_size": 4,
        "training.steps": 1000,
    },
    "tiny": {
        "model.dim": 64,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.batch_size": 8,
        "training.steps": 2000,
    },
    "medium": {
        "model.dim": 128,
        "model.num_layers": 4,
        "model.attention.num_heads": 4,
        "data.batch_size": 16,
        "training.steps": 4000,
    },
    "small": {
        "model.dim": 256,
        "model.num_layers": 6,
        "model.attention.num_heads": 4,
        "data.batch_size": 16,
        "training.steps": 5000,
    },
    "gpu": {
        "model.dim": 512,
        "model.num_layers": 12,
        "model.attention.num_heads": 8,
        "data.batch_size": 128,
        "training.steps": 10_000,
        "model.dtype": "bfloat16",
    },
}
RATES = {
    "micro": (3e-3, 1e-2, 3e-2),
    "tiny": (1e-3, 3e-3, 1e-2),
    "medium": (5e-4, 1.5e-3, 5e-3),
    "small": (3e-4, 1e-3, 3e-3),
    "gpu": (3e-4, 1e-3, 3e-3),
}
BETWEEN = {"rope": "RoPE", "relative_bias": "T5's bias"}


def get_experiment(size: str = "tiny") -> Experiment:
    """Six position schemes, one training length, five evaluation lengths."""
    chosen = choose_size(size, SIZES)
    steps = chosen["training.steps"]
    base = config.override(
        config.default(),
        {
            "model.tie_embeddings": False,
            "model.embedding.scale": "sqrt_dim",
            "model.init.embedding_std": chosen["model.dim"] ** -0.5,
            "data.sequence_length": 128,
            "schedule.kind": "cosine",
            "schedule.warmup_steps": steps // 10,
            "training.eval_lengths": (256, 512, 1024, 2048),
            "training.eval_every": config.AUTO,
            "training.checkpoint_every": steps,
            **chosen,
        },
    )

    def arm(positions: str, metric: str = LONGEST) -> Side:
        return Side({"positions": positions}, metric)

    return Experiment(
        name=sized_name("positions_extrapolation", size),
        question="Which positions let a decoder trained at length 128 read longer sequences?",
        base=base,
        allow=("parameters",),
        factors={
            "positions": levels(
                "model.position.kind", "learned", "sinusoidal", "rope", "alibi", "relative_bias", "none"
            )
        },
        tune=Tune("optimizer.learning_rate", RATES[size]),
        seeds=(0, 1, 2),
        claim=Claim(
            "P3",
            "Learned positions cannot go past their table; sinusoidal can but degrades; ALiBi holds; RoPE and T5 lie "
            "between",
            "Press et al. 2021, Train Short, Test Long, Fig. 1",
        ),
        contrasts=(
            Contrast(
                "ALiBi holds",
                a=arm("alibi"),
                b=arm("alibi", "eval/loss"),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"ALiBi at 2048 ends at most {MARGIN} nats above ALiBi at 128",
            ),
            Contrast(
                "sinusoidal degrades",
                a=arm("sinusoidal", "eval/loss"),
                b=arm("sinusoidal"),
                rule="superiority",
                margin=MARGIN,
                expected=f"sinusoidal at 128 ends more than {MARGIN} nats below sinusoidal at 2048",
            ),
            *(
                contrast
                for kind, name in BETWEEN.items()
                for contrast in (
                    Contrast(
                        f"{name} is worse than ALiBi",
                        a=arm("alibi"),
                        b=arm(kind),
                        rule="superiority",
                        margin=0.0,
                        expected=f"at 2048, ALiBi ends below {name}",
                    ),
                    Contrast(
                        f"{name} is better than sinusoidal",
                        a=arm(kind),
                        b=arm("sinusoidal"),
                        rule="superiority",
                        margin=0.0,
                        expected=f"at 2048, {name} ends below sinusoidal",
                    ),
                )
            ),
        ),
        size=size,
    )
