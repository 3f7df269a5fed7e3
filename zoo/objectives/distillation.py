"""Distillation: a student learns what a larger, trained model predicts, beside what is true."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, teacher_config
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.models.head import Prediction
from zoo.objectives.causal import CausalObjective
from zoo.objectives.cross_entropy import distilled_cross_entropy
from zoo.objectives.masked import MaskedObjective
from zoo.objectives.objective import Batch, Constants, Objective, Pass, Sums, past_the_table, record_logits


class Distilled(Objective):
    """L = hard * H + kl * T^2 KL(p || q) + cosine * (1 - cos(h, h')) (Sanh et al. 2019, section 2;
    Hinton et al. 2015, section 2).

    H is the objective's own loss: the cross-entropy, with what may be added to it. p and q are the
    teacher's and the student's probabilities at the temperature T, softmax(scores / T). Both terms
    are means over the tokens that the objective predicts: of masked language modelling those that
    were chosen, whether the input shows them as [MASK], as another token or as they are, and of
    causal language modelling all. h and h' are the last hidden states of student and teacher, after
    their last norm and before their heads; the third term is a mean over all tokens that are read,
    empty slots apart. A term of weight 0 is not computed.

    The teacher reads the same rows as the student, drops nothing, uses its running statistics, and
    gets no gradient. Its values are constants of the program, and no part of the state that is
    trained and saved.

    Reported as "loss" is the cross-entropy alone, which compares with that of a model without a
    teacher, and beside it "kl", T^2 KL, and "cosine_distance", each before its weight.
    """

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.its_config = teacher_config(config)
        self.teacher = make_model(self.its_config)
        self.its_graph = split(self.teacher)[0]
        distillation = config.objective.distillation
        self.means |= {"kl": ("kl", "weight")} if distillation.kl else {}
        self.means |= {"cosine_distance": ("cosine", "seen")} if distillation.cosine else {}

    def weights(self, batch: Batch) -> Sums:
        """Predicted tokens, and those that are read."""
        seen = {"cosine": (self.inputs(batch) >= 0).sum()} if self.config.objective.distillation.cosine else {}
        return super().weights(batch) | seen

    def too_long(self, model: nnx.Module, length: int) -> str | None:
        """Both must be able to read it."""
        return super().too_long(model, length) or past_the_table(
            self.its_config.model, self.teacher, length, "the teacher's "
        )

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> tuple[Sums, Sums]:
        """Scores the student's tokens and hidden states by the truth and by the teacher."""
        distillation, its = self.config.objective.distillation, jax.lax.stop_gradient(constants["teacher"])
        teacher = nnx.merge(self.its_graph, its["params"], its["stats"])
        still = how._replace(dropout_key=None, training=False, record=None)
        hidden, its_hidden = self.hidden(model, batch, how), self.hidden(teacher, batch, still)
        its_prediction = self.predicted(teacher, its_hidden, batch, still) if distillation.kl else None
        losses, sums = self.score_beside(
            self.predicted(model, hidden, batch, how), its_prediction, batch, constants, how
        )
        if distillation.cosine:
            seen = self.inputs(batch) >= 0
            distance = jnp.where(seen, cosine_distance(hidden, its_hidden), 0).sum()
            losses |= {"cosine": distillation.cosine * distance}
            sums |= {"cosine": distance, "seen": seen.sum().astype(jnp.float32)}
        return losses, sums

    def score_beside(
        self, prediction: Prediction, teacher: Prediction | None, batch: Batch, constants: Constants, how: Pass
    ) -> tuple[Sums, Sums]:
        """The term "loss" and the sums that go with it; without a teacher's prediction the
        cross-entropy by its weight.
        """
        if teacher is None:
            losses, sums = self.score_tokens(prediction, batch, constants, how)
            hard = self.config.objective.distillation.hard
            return losses if hard == 1 else {"loss": hard * losses["loss"]}, sums
        targets, weights, counts = self.counted(batch, constants, how)
        record_logits(prediction, weights, how)
        loss, entropy, divergence = distilled_cross_entropy(
            prediction,
            teacher,
            targets,
            weights,
            self.config.objective.chunk_tokens,
            self.number("objective.distillation.kl", constants),
            self.number("objective.distillation.temperature", constants),
            self.config.objective.distillation.hard,
            *self.regularisers(constants, how),
        )
        return {"loss": loss}, {"loss": entropy, "kl": divergence, **counts}


def cosine_distance(one: Float[Array, "B T D"], other: Float[Array, "B T D"]) -> Float[Array, "B T"]:
    """1 - <h, h'> / (|h| |h'|), in float32; a vector of zeros is at a right angle to all."""
    one, other = one.astype(jnp.float32), other.astype(jnp.float32)
    first, second = (jnp.sqrt(jnp.maximum(jnp.square(x).sum(axis=-1), 1e-16)) for x in (one, other))
    return 1 - (one * other).sum(axis=-1) / (first * second)


class DistilledMaskedObjective(Distilled, MaskedObjective):
    """Masked language modelling beside a teacher."""


class DistilledCausalObjective(Distilled, CausalObjective):
    """Causal language modelling beside a teacher."""
