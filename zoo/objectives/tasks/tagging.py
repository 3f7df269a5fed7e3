"""A tag for each word."""

import jax
import jax.numpy as jnp
from flax import nnx

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.activation_record import deviations
from zoo.objectives.objective import Batch, Constants, Pass, Sums
from zoo.objectives.tasks.task import TaskObjective


class TaggingObjective(TaskObjective):
    """-log softmax(h_t W + b)[tag], the mean over words, t the first token of a word (Devlin et al.
    2019, section 5.3).

    Tags are "labels" [B, T], -1 where no word begins. Reported are the loss and "accuracy" over the
    words that rows hold; `zoo.data.labelled.word_tags.Tagging` scores all words, and entities.
    """

    outputs = ("real", "predicted")

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.means |= {"accuracy": ("right", "weight")}

    def weights(self, batch: Batch) -> Sums:
        """The words."""
        return {"loss": (batch["labels"] >= 0).sum()}

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> tuple[Sums, Sums]:
        """Scores every word's tag."""
        scores = self.scores(model, batch, constants, how)
        counted, wanted = batch["labels"] >= 0, jnp.maximum(batch["labels"], 0)
        if how.record is not None:
            how.record["logits"] = deviations(scores, counted)
        surprisal = -jnp.take_along_axis(jax.nn.log_softmax(scores), wanted[..., None], axis=-1)[..., 0]
        loss, predicted = jnp.where(counted, surprisal, 0.0).sum(), scores.argmax(axis=-1)
        sums = {
            "loss": loss,
            "weight": counted.sum().astype(jnp.float32),
            "right": (counted & (predicted == wanted)).sum().astype(jnp.float32),
        }
        return {"loss": loss}, sums | ({} if how.training else {"real": self.real(batch), "predicted": predicted})
