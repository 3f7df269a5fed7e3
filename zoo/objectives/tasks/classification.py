"""Classification and regression: one label or one number for a text or a pair of texts."""

import jax.numpy as jnp
from flax import nnx

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.activation_record import deviations
from zoo.objectives.masked import score_classes
from zoo.objectives.objective import Batch, Constants, ForwardMode, Sums
from zoo.objectives.tasks.task import RowObjective


class ClassificationObjective(RowObjective):
    """-log softmax(s)[c], the mean over examples: s the scores of a row, c its label
    (Devlin et al. 2019, section 4.1).

    Labels are "labels" [B], -1 in rows of padding. Metrics are the loss and "accuracy";
    `zoo.data.labelled.sequence_tasks.Classification` computes further ones from the scores.
    """

    outputs = ("real", "scores")

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.means |= {"accuracy": ("right", "weight")}

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores every row's label."""
        scores = self.scores(model, batch, constants, mode)
        if mode.record is not None:
            mode.record["logits"] = deviations(scores, self.real(batch))
        loss, right = score_classes(scores, batch["labels"])
        sums = {"loss": loss, "weight": self.real(batch).sum().astype(jnp.float32), "right": right}
        outputs = {} if mode.training else {"real": self.real(batch), "scores": scores}
        return {"loss": loss}, sums | outputs


class RegressionObjective(RowObjective):
    """(s - y)^2, the mean over examples: s the one score of a row, y its number (Devlin et al.
    2019, section 4.1: STS-B).

    Numbers are "labels" [B], float32. `zoo.data.labelled.sequence_tasks.Regression`
    computes further metrics from the predicted numbers.
    """

    outputs = ("real", "predicted")

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores every row's number."""
        scores, real = self.scores(model, batch, constants, mode)[:, 0], self.real(batch)
        loss = jnp.where(real, (scores - batch["labels"]) ** 2, 0.0).sum()
        outputs = {} if mode.training else {"real": real, "predicted": scores}
        return {"loss": loss}, {"loss": loss, "weight": real.sum().astype(jnp.float32)} | outputs
