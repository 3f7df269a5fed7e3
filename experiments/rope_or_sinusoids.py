"""Claim P7 (Su et al. 2021; EleutherAI 2021): RoPE reaches a given loss in fewer steps than sinusoidal
positions, in a RoBERTa-style encoder and in a Performer.

    zoo run experiments/rope_or_sinusoids.py
    zoo run experiments/rope_or_sinusoids.py:small

An encoder like RoBERTa (post-norm LayerNorm, also after the embedding, GELU, biases) that predicts
masked tokens, with softmax attention and with Performer's linear one, with RoPE and with sinusoids.
Token embeddings are multiplied by sqrt(D), so that they have the scale of the sinusoids. Each arm
uses its best learning rate, by its last loss and fitted with separate seeds. After the warm-up the
rate is constant, so a loss in the middle of training does not depend on how far a schedule still has
to go.

The given loss is that at which sinusoids end, with the same attention and the same seed. What is
judged is the step at which `eval/loss` first reaches it (`steps_to/...`), interpolated between
evaluations. A run with RoPE that never reaches it counts as reaching it at its last step.

Stated beforehand:

* With softmax attention, RoPE reaches that loss after fewer steps than sinusoids (superiority, margin
  0).
* The same holds with a Performer's attention.
"""

from zoo import config
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, arm_name, levels
from zoo.lab.sizes import SIZES, decoder, rates, sized_name

# Steps as multiples of those that other experiments train at this size.
LONGER = 2


def get_experiment(size: str = "tiny") -> Experiment:
    """RoPE and sinusoids, softmax and Performer."""
    shared = decoder(size)
    steps = LONGER * SIZES[size]["training.steps"]

    def sides(attention: str) -> tuple[Side, Side]:
        arms = [{"positions": positions, "attention": attention} for positions in ("rope", "sinusoidal")]
        metric = f"steps_to/{arm_name(arms[1])}"
        return Side(arms[0], metric), Side(arms[1], metric)

    return Experiment(
        name=sized_name("rope_or_sinusoids", size),
        question="Does RoPE reach the loss at which sinusoidal positions end in fewer steps?",
        base=config.override(
            shared,
            {
                "model.architecture": "encoder",
                "objective.kind": "masked",
                "model.norm.kind": "layernorm",
                "model.norm.placement": "post",
                "model.embedding.norm": True,
                "model.embedding.scale": "sqrt_dim",
                "model.attention.bias": True,
                "model.ffn.bias": True,
                "schedule.kind": "constant",
                "schedule.warmup_steps": steps // 10,
                "training.steps": steps,
                "training.eval_every": steps // 25,
                "training.checkpoint_every": steps,
            },
        ),
        factors={
            "positions": levels("model.position.kind", "rope", "sinusoidal"),
            "attention": levels("model.attention.kind", "softmax", "performer"),
        },
        tune=rates(size, 0.16, 0.4, 1),
        # A Performer has other FLOPs than softmax; the contrasts compare arms of one attention.
        allow=("flops",),
        claim=Claim(
            "P7",
            "RoPE reaches a given loss in fewer steps than sinusoidal positions, in a RoBERTa-style encoder and in a "
            "Performer",
            "Su et al. 2021, RoFormer, sections 4.2 and 4.4; EleutherAI 2021, Rotary Embeddings",
        ),
        contrasts=tuple(
            Contrast(
                f"RoPE is faster with {name}",
                *sides(attention),
                rule="superiority",
                margin=0.0,
                expected=f"with {name}, RoPE reaches the loss at which sinusoids end in fewer steps",
            )
            for attention, name in (("softmax", "softmax attention"), ("performer", "a Performer's attention"))
        ),
        size=size,
    )
