"""Two language models that read a row from both ends and share the token vectors and the softmax."""

import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Int

from zoo.config import ResolvedConfig
from zoo.data.tokenizers import Tokenizer
from zoo.models.head import Prediction
from zoo.objectives.objective import Batch, Constants, Objective, Pass


class BidirectionalObjective(Objective):
    """-(log p(x_t | x_<t) + log p(x_(t-1) | x_>=t)) / 2, summed over the tokens of a batch (Peters et al. 2018, eq. 1).

    A batch is {"tokens": [B, T + 1]}: the forward model predicts the last T tokens of a row, the backward one the first T. The loss is
    the mean of both, so that it compares with that of one model. Tokens are read as the characters of "token_characters" [V, C].
    """

    share = 0.5

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.constants["token_characters"] = self.per_id(tokenizer.token_characters(config.model.elmo.characters))

    def targets(self, batch: Batch) -> Int[Array, "B T"]:
        """Each token's neighbours, the next ones first: [B, 2 T]."""
        tokens = batch["tokens"]
        # Padding stands at the end: it is no target, and its own state predicts nothing.
        before = jnp.where(tokens[:, 1:] >= 0, tokens[:, :-1], -1)
        return jnp.concatenate([tokens[:, 1:], before], axis=1)

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, how: Pass) -> Prediction:
        """Predicts each token's neighbours, the next one first: [B, 2 T]."""
        tokens = batch["tokens"]
        characters = constants["token_characters"][jnp.maximum(tokens, 0)]
        forward, backward = model(characters, tokens >= 0, how.dropout_key)
        return model.prediction(jnp.concatenate([forward[:, :-1], backward[:, 1:]], axis=1))

    def too_long(self, length: int) -> str | None:
        """A recurrent model reads rows of any length."""
        return None
