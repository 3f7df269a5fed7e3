"""Claim O6 (Sanh et al. 2019): half the layers, distilled, keep most of the teacher, and beat the
same student trained on hard labels.

    python train.py --config=configs/bert.py:tiny --config.model.num_layers=4 --workdir=runs/teacher
    zoo run experiments/distillation.py:teacher=runs/teacher
    zoo run experiments/distillation.py:full,teacher=runs/teacher

The teacher is any run that predicts masked or next tokens. A student has half as many layers; it is
initialised with every other layer of the teacher, and with its embeddings and head (Sanh et al.
2019, section 3). All arms start from the same values, read the same rows with the same masks, and
differ in their loss: the true tokens alone; also the teacher's probabilities, at temperature 2;
also its last hidden states. Each term has weight 1.

Stated beforehand, on `eval/loss`, the cross-entropy of the true tokens, at the last step:

* With the divergence a student ends more than 0.02 nats below the same student without a teacher
  (superiority). 2 % of perplexity is less than the paper's ablation suggests: without the
  divergence its GLUE score falls by 2.96 points, the most of all.
* The student keeps most of the teacher: with the divergence it ends above the teacher's own
  `eval/loss` by at most 3 % of the teacher's gain over a uniform guess, ln V minus that loss
  (non-inferiority). DistilBERT keeps 97 % of BERT's GLUE score. The margin in nats follows from the
  teacher, before a student is trained; a teacher that was never evaluated, such as an imported one,
  has no such rule. This rule was added after three seeds with another teacher had been seen.
* The cosine costs nothing: with it a student ends at most 0.02 nats above the student with the
  divergence alone (non-inferiority). Without it the paper's score falls by 1.46 points.

`measured/pretraining_loss` is the teacher's loss, on the same rows; `python
benchmarks/forward_time.py TEACHER STUDENT` measures the ratio of the two speeds. A step of
distillation includes the teacher's forward pass: the arms are equal in steps, not in time.
"""

import math
from pathlib import Path

from zoo import config
from zoo.errors import ConfigError
from zoo.lab.experiment import Claim, Contrast, Experiment, Side, choose_size
from zoo.lab.results.run_records import load_run

MARGIN = 0.02
LOST = 0.03
TEACHERS_LOSS = "measured/pretraining_loss"
SIZES = {
    "tiny": {
        "training.steps": 300,
        "schedule.warmup_steps": 30,
        "training.eval_every": 100,
        "optimizer.learning_rate": 1e-3,
    },
    "full": {
        "training.steps": 20_000,
        "schedule.warmup_steps": 1000,
        "training.eval_every": 1000,
        "data.batch_size": 256,
    },
}
KL, COSINE, TEACHER = (f"objective.distillation.{name}" for name in ("kl", "cosine", "teacher"))


def get_experiment(argument: str = "tiny") -> Experiment:
    """Truth alone; and the teacher's probabilities; and its hidden states. `argument` is
    "[SIZE,]teacher=RUN".
    """
    size, _, teacher = argument.rpartition("teacher=")
    size = size.rstrip(",") or "tiny"
    if not teacher or "teacher=" not in argument:
        raise ConfigError(
            "distillation needs a trained run to learn from: zoo run experiments/distillation.py:teacher=RUN"
        )
    base = config.override(config.distilled(f"from={teacher}"), {COSINE: 0.0, TEACHER: "", **choose_size(size, SIZES)})
    taught = {TEACHER: teacher, KL: 1.0}
    arms = {
        "labels": {TEACHER: "", KL: 1.0, COSINE: 0.0},
        "labels+KL": {**taught, COSINE: 0.0},
        "labels+KL+cosine": {**taught, COSINE: 1.0},
    }
    plain, divergence, everything = ({"learns from": level} for level in arms)
    loss = load_run(Path(teacher)).final("eval/loss")
    return Experiment(
        name="distillation" if size == "tiny" else f"distillation-{size}",
        question="Does a student of half the layers learn more from its teacher's predictions than from the true "
        "tokens alone?",
        base=base,
        factors={"learns from": arms},
        # Distillation costs the teacher's forward pass.
        allow=("flops",),
        seeds=(0, 1, 2),
        claim=Claim(
            "O6",
            "Half the layers, distilled, keep most of the teacher, and beat the same student trained on hard labels",
            "Sanh et al. 2019, DistilBERT, sections 3 and 4",
        ),
        contrasts=(
            Contrast(
                "the teacher helps",
                a=Side(divergence),
                b=Side(plain),
                rule="superiority",
                margin=MARGIN,
                expected=f"with the divergence a student ends more than {MARGIN} nats below the one without a teacher",
            ),
            *keeps_most(divergence, loss, config.resolve(config.load(f"{teacher}/config.json")).model.vocab_size),
            Contrast(
                "the cosine costs nothing",
                a=Side(everything),
                b=Side(divergence),
                rule="non_inferiority",
                margin=MARGIN,
                expected=f"with the cosine too a student ends at most {MARGIN} nats above that with the divergence "
                "alone",
            ),
        ),
        size=size,
    )


def keeps_most(student: dict[str, str], loss: float | None, vocabulary: int) -> tuple[Contrast, ...]:
    """Returns the contrast of a student and its teacher; none without the teacher's loss."""
    gain = math.log(vocabulary) - (math.inf if loss is None else loss)
    if gain <= 0:
        return ()
    margin = LOST * gain
    return (
        Contrast(
            "it keeps most of the teacher",
            a=Side(student),
            b=Side(student, TEACHERS_LOSS),
            rule="non_inferiority",
            margin=margin,
            expected=f"with the divergence a student ends at most {margin:.3g} nats above its teacher, {LOST:.0%} of "
            "the teacher's gain over a uniform guess",
        ),
    )
