"""Distillation: a student learns the predictions of a larger, trained model besides the targets."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, teacher_config
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.models.head import LogitFactors
from zoo.objectives.causal import CausalObjective
from zoo.objectives.cross_entropy import LossTerms, distilled_cross_entropy
from zoo.objectives.masked import MaskedObjective
from zoo.objectives.objective import (
    Batch,
    Constants,
    ForwardMode,
    Objective,
    Sums,
    beyond_position_table,
    record_logits,
)


class Distilled(Objective):
    """L = hard * H + kl * T^2 KL(p || q) + cosine * (1 - cos(h, h')) (Sanh et al. 2019, section 2;
    Hinton et al. 2015, section 2).

    H is the objective's own loss: the cross-entropy with its other terms. p and q are the teacher's
    and the student's probabilities at the temperature T, softmax(logits / T). Both terms are means
    over the tokens that the objective predicts: in masked language modelling the chosen ones,
    whether the input shows them as [MASK], as another token or unchanged, and in causal language
    modelling all. h and h' are the last hidden states of student and teacher, after their last norm
    and before their heads; the third term is a mean over all tokens that are read, padding
    excluded. A term of weight 0 is not computed.

    The teacher reads the same rows as the student, drops nothing, uses its running statistics, and
    gets no gradient. Its values are constants of the program, not part of the state that is trained
    and saved.

    The metric "loss" is the cross-entropy alone, so it is comparable with that of a model without a
    teacher. "kl" is T^2 KL and "cosine_distance" the third term, each before its weight.
    """

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.teacher_config = teacher_config(config)
        self.teacher = make_model(self.teacher_config)
        self.teacher_graph = split(self.teacher)[0]
        distillation = config.objective.distillation
        self.means |= {"kl": ("kl", "weight")} if distillation.kl else {}
        self.means |= {"cosine_distance": ("cosine", "seen")} if distillation.cosine else {}

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the numbers of predicted tokens and of tokens that are read."""
        seen = {"cosine": (self.inputs(batch) >= 0).sum()} if self.config.objective.distillation.cosine else {}
        return super().normalizers(batch) | seen

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns why student or teacher cannot read such rows."""
        return super().why_too_long(model, length) or beyond_position_table(
            self.teacher_config.model, self.teacher, length, "the teacher's "
        )

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores the student against the targets and against the teacher."""
        distillation, values = self.config.objective.distillation, jax.lax.stop_gradient(constants["teacher"])
        teacher = nnx.merge(self.teacher_graph, values["params"], values["stats"])
        teacher_mode = replace(mode, dropout_key=None, training=False, record=None, losses=None)
        hidden, teacher_hidden = self.hidden(model, batch, mode), self.hidden(teacher, batch, teacher_mode)
        teacher_prediction = (
            self.predict_from_hidden(teacher, teacher_hidden, batch, teacher_mode) if distillation.kl else None
        )
        losses, sums = self.score_with_teacher(
            self.predict_from_hidden(model, hidden, batch, mode), teacher_prediction, batch, constants, mode
        )
        if distillation.cosine:
            seen = self.inputs(batch) >= 0
            distance = jnp.where(seen, cosine_distance(hidden, teacher_hidden), 0).sum()
            losses |= {"cosine": distillation.cosine * distance}
            sums |= {"cosine": distance, "seen": seen.sum().astype(jnp.float32)}
        return losses, sums

    def score_with_teacher(
        self,
        prediction: LogitFactors,
        teacher: LogitFactors | None,
        batch: Batch,
        constants: Constants,
        mode: ForwardMode,
    ) -> tuple[Sums, Sums]:
        """Returns the term "loss" and its sums; without a teacher's prediction this is the weighted
        cross-entropy.
        """
        if teacher is None:
            losses, sums = self.score_tokens(prediction, batch, constants, mode)
            hard = self.config.objective.distillation.hard
            return losses if hard == 1 else {"loss": hard * losses["loss"]}, sums
        targets, weights, counts = self.prepare_targets(batch, constants, mode)
        record_logits(prediction, weights, mode)
        terms = LossTerms(
            *self.regularisers(constants, mode),
            hard=self.config.objective.distillation.hard,
            kl=self.hyperparameter("objective.distillation.kl", constants),
            temperature=self.hyperparameter("objective.distillation.temperature", constants),
        )
        loss, cross_entropy_sum, divergence = distilled_cross_entropy(
            prediction, teacher, targets, weights, self.chunk_tokens, terms, mode.sharding
        )
        return {"loss": loss}, {"loss": cross_entropy_sum, "kl": divergence, **counts}


def cosine_distance(one: Float[Array, "B T D"], other: Float[Array, "B T D"]) -> Float[Array, "B T"]:
    """1 - <h, h'> / (|h| |h'|), in float32; a vector of zeros is orthogonal to all."""
    one, other = one.astype(jnp.float32), other.astype(jnp.float32)
    first, second = (jnp.sqrt(jnp.maximum(jnp.square(x).sum(axis=-1), 1e-16)) for x in (one, other))
    return 1 - (one * other).sum(axis=-1) / (first * second)


class DistilledMaskedObjective(Distilled, MaskedObjective):
    """Masked language modelling with a teacher."""


class DistilledCausalObjective(Distilled, CausalObjective):
    """Causal language modelling with a teacher."""
