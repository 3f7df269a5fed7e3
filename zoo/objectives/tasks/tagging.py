"""Tagging: a tag for each word."""

import jax
import jax.numpy as jnp
from flax import nnx

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.activation_record import deviations
from zoo.objectives.objective import Batch, Constants, ForwardMode, Sums
from zoo.objectives.tasks.task import TaskObjective


class TaggingObjective(TaskObjective):
    """-log softmax(h_t W + b)[tag], the mean over words, t the first token of a word (Devlin et al.
    2019, section 5.3).

    Tags are "labels" [B, T], -1 where no word begins. Metrics are the loss and "accuracy" over
    the words in the rows; `zoo.data.labelled.word_tags.Tagging` scores all words, and entities.
    """

    outputs = ("real", "predicted")

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.means |= {"accuracy": ("right", "weight")}

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the number of words."""
        return {"loss": (batch["labels"] >= 0).sum()}

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores every word's tag."""
        scores = self.scores(model, batch, constants, mode)
        counted, wanted = batch["labels"] >= 0, jnp.maximum(batch["labels"], 0)
        if mode.record is not None:
            mode.record["logits"] = deviations(scores, counted)
        surprisal = -jnp.take_along_axis(jax.nn.log_softmax(scores), wanted[..., None], axis=-1)[..., 0]
        loss, predicted = jnp.where(counted, surprisal, 0.0).sum(), scores.argmax(axis=-1)
        sums = {
            "loss": loss,
            "weight": counted.sum().astype(jnp.float32),
            "right": (counted & (predicted == wanted)).sum().astype(jnp.float32),
        }
        return {"loss": loss}, sums | ({} if mode.training else {"real": self.real(batch), "predicted": predicted})
