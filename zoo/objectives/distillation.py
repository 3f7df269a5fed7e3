"""Distillation: a student learns the predictions of a larger, trained model besides the targets."""

from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Bool, Float

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
    modelling all. With `objective.distillation.kl_tokens=all` the second term of a masked model is a
    mean over all tokens that are read, as in the authors' training script. h and h' are the last
    hidden states of student and teacher, after their last norm and before their heads; the third term
    is a mean over all tokens that are read. Padding is not read. A term of weight 0 is not computed.

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
        self.read_tokens = bool(distillation.kl) and distillation.kl_tokens == "all"
        self.means |= {"kl": ("kl", "seen" if self.read_tokens else "weight")} if distillation.kl else {}
        self.means |= {"cosine_distance": ("cosine", "seen")} if distillation.cosine else {}

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the numbers of predicted tokens and of tokens that are read."""
        terms = ["kl"] * self.read_tokens + ["cosine"] * bool(self.config.objective.distillation.cosine)
        return super().normalizers(batch) | {name: (self.inputs(batch) >= 0).sum() for name in terms}

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
        seen = self.inputs(batch) >= 0
        if self.read_tokens:
            every = model.prediction(hidden, self.context(batch, mode))
            chosen = jnp.take_along_axis(every.hidden, batch["masked_positions"][..., None], axis=1)
            losses, sums = self.score_hard(every._replace(hidden=chosen), batch, constants, mode)
            teacher_every = teacher.prediction(teacher_hidden, self.context(batch, teacher_mode))
            loss, divergence = self.divergence(every, teacher_every, seen, constants, mode)
            losses, sums = losses | {"kl": loss}, sums | {"kl": divergence}
        else:
            prediction = self.predict_from_hidden(model, hidden, batch, mode)
            if distillation.kl:
                teacher_prediction = self.predict_from_hidden(teacher, teacher_hidden, batch, teacher_mode)
                losses, sums = self.score_with_teacher(prediction, teacher_prediction, batch, constants, mode)
            else:
                losses, sums = self.score_hard(prediction, batch, constants, mode)
        if distillation.cosine:
            distance = jnp.where(seen, cosine_distance(hidden, teacher_hidden), 0).sum()
            losses, sums = losses | {"cosine": distillation.cosine * distance}, sums | {"cosine": distance}
        if self.read_tokens or distillation.cosine:
            sums |= {"seen": seen.sum().astype(jnp.float32)}
        return losses, sums

    def score_hard(
        self, prediction: LogitFactors, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> tuple[Sums, Sums]:
        """Returns the term "loss" without a divergence, and its sums."""
        losses, sums = self.score_tokens(prediction, batch, constants, mode)
        hard = self.config.objective.distillation.hard
        return losses if hard == 1 else {"loss": hard * losses["loss"]}, sums

    def divergence(
        self,
        prediction: LogitFactors,
        teacher: LogitFactors,
        seen: Bool[Array, "B T"],
        constants: Constants,
        mode: ForwardMode,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns kl * T^2 KL(p || q) and T^2 KL(p || q), both summed over all read tokens."""
        nothing = jnp.zeros(seen.shape, jnp.int32)
        loss, _, divergence = distilled_cross_entropy(
            prediction, teacher, nothing, seen.astype(jnp.float32), self.chunk_tokens,
            self.terms(constants)._replace(hard=0.0), mode.sharding,
        )  # fmt: skip
        return loss, divergence

    def terms(self, constants: Constants) -> LossTerms:
        """Returns the weights of the terms, without regularisers, and the temperature."""
        return LossTerms(
            hard=self.config.objective.distillation.hard,
            kl=self.hyperparameter("objective.distillation.kl", constants),
            temperature=self.hyperparameter("objective.distillation.temperature", constants),
        )

    def score_with_teacher(
        self, prediction: LogitFactors, teacher: LogitFactors, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> tuple[Sums, Sums]:
        """Returns the term "loss", with the divergence of the predicted tokens, and its sums."""
        targets, weights, counts = self.prepare_targets(batch, constants, mode)
        record_logits(prediction, weights, mode)
        z_loss, smoothing = self.regularisers(constants, mode)
        terms = self.terms(constants)._replace(z_loss=z_loss, smoothing=smoothing)
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
