"""Forward and backward language modelling with shared token vectors and softmax (ELMo)."""

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Integer

from zoo.config import ResolvedConfig
from zoo.data.rows.packed_rows import BYTES
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.models.head import LogitFactors
from zoo.objectives.objective import Batch, Constants, ForwardMode, Objective, step_key
from zoo.objectives.sampled_softmax import Candidates, draw_candidates, sampled_cross_entropy


class BidirectionalObjective(Objective):
    """-(log p(x_t | x_<t) + log p(x_(t-1) | x_>=t)) / 2, summed over the tokens of a batch (Peters
    et al. 2018, eq. 1).

    A batch is {"tokens": [B, T + 1]}: the forward model predicts the last T tokens of a row, the
    backward one the first T. The loss is the mean of both, so it is comparable with that of a
    single model. Tokens are read as their characters, "token_characters" [V, C], with C characters
    for each.

    With `objective.sampled_softmax` training scores each target only against that number of sampled
    ids, the same for the whole batch (see `zoo.objectives.sampled_softmax`). The training loss is
    then below that of evaluation, which is always over all ids.
    """

    target_weight = 0.5

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        self.constants["token_characters"] = self.pad_to_vocab(tokenizer.token_characters(config.model.elmo.characters))

    def targets(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns each token's neighbours, the next ones first: [B, 2 T]."""
        tokens = batch["tokens"]
        # Padding is at the end: it is no target, and its own state predicts nothing.
        before = jnp.where(tokens[:, 1:] >= 0, tokens[:, :-1], -1)
        return jnp.concatenate([tokens[:, 1:], before], axis=1)

    def target_bytes(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns the bytes of each token's neighbours, the next ones first: [B, 2 T]."""
        return jnp.concatenate([batch[BYTES][:, 1:], batch[BYTES][:, :-1]], axis=1)

    def predict(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> LogitFactors:
        """Predicts each token's neighbours, the next one first: [B, 2 T]."""
        tokens = batch["tokens"]
        characters = constants["token_characters"][jnp.maximum(tokens, 0)]
        forward, backward = model(characters, tokens >= 0, mode.dropout_key)
        return model.prediction(jnp.concatenate([forward[:, :-1], backward[:, 1:]], axis=1))

    def per_step_constants(self, seed: Integer[Array, ""], step: Integer[Array, ""]) -> dict[str, Candidates]:
        """Returns the ids that an update scores against, a function of (seed, step)."""
        size = self.config.objective.sampled_softmax
        if not size:
            return {}
        key = step_key(seed, step, "objective/sampled_softmax")
        return {"candidates": draw_candidates(key, size, self.config.model.vocab_size)}

    def token_loss(
        self,
        prediction: LogitFactors,
        targets: Int[Array, "B T"],
        weights: Float[Array, "B T"],
        constants: Constants,
        mode: ForwardMode,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns `Objective.token_loss`; in training with `objective.sampled_softmax` over the
        sampled ids.
        """
        if not (mode.training and self.config.objective.sampled_softmax):
            return super().token_loss(prediction, targets, weights, constants, mode)
        loss = sampled_cross_entropy(
            prediction, targets, weights, constants["candidates"], self.chunk_tokens, mode.sharding
        )
        return loss, jax.lax.stop_gradient(loss)

    def why_too_long(self, model: nnx.Module, length: int) -> str | None:
        """Returns None: a recurrent model reads rows of any length."""
        return None
