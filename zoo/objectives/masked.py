"""Masked language modelling: hidden tokens are predicted from all others, and optionally also whether
two segments belong together. Masked diffusion hides any share of the tokens, so its loss bounds
the likelihood of the text.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.context import Context
from zoo.models.head import LogitFactors
from zoo.objectives.objective import (
    Batch,
    Constants,
    ForwardMode,
    Objective,
    Sums,
    make_context,
    mark_padding,
    positions_and_documents,
)


class MaskedObjective(Objective):
    """-log p(x_t | the corrupted row), the mean over the chosen t (Devlin et al. 2019, section 3.1,
    Task 1).

    With `objective.next_sentence` the mean over pairs of -log p(does the second segment follow the
    first | the row) is added (Task 2), so the loss is the sum of two means. The metric "loss"
    is the first alone, so it is comparable with that of a model without the second (Liu et al.
    2019, section 4.2); the others are "next_loss" and "next_accuracy".

    A batch is what `zoo.data.rows.masking.Masking` makes: {"tokens": [B, T] after corruption,
    "masked_positions": [B, N] of the chosen tokens in their row, "targets": [B, N] their original
    ids, -1 for unused entries}; pairs also have {"segments": [B, T] 0 or 1, "next": [B] 0 where the
    second segment follows, 1 where it does not, -1 for rows of padding}. Scores are computed
    only for the N chosen tokens. No token sees padding (-1).
    """

    marks_padding = True

    def __init__(self, config: ResolvedConfig, tokenizer: Tokenizer):
        super().__init__(config, tokenizer)
        if config.objective.next_sentence:
            self.means |= {"next_loss": ("next_loss", "pairs"), "next_accuracy": ("next_right", "pairs")}

    def targets(self, batch: Batch) -> Int[Array, "B N"]:
        """Returns the original tokens at the chosen positions."""
        return batch["targets"]

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the numbers of chosen tokens and of pairs."""
        pairs = {"next": (batch["next"] >= 0).sum()} if self.config.objective.next_sentence else {}
        return super().normalizers(batch) | pairs

    def context(self, batch: Batch, mode: ForwardMode) -> Context:
        """Returns the context of the rows."""
        tokens, data = batch["tokens"], self.config.data
        positions, documents = positions_and_documents(
            tokens, data.isolate_documents, self.bos_id, data.position_offsets, mode.rows
        )
        return make_context(
            mode, mark_padding(positions, tokens, mode), documents, causal=False, in_order=not data.position_offsets
        )

    def hidden(self, model: nnx.Module, batch: Batch, mode: ForwardMode) -> Float[Array, "B T D"]:
        """Reads the corrupted rows."""
        return model(jnp.maximum(batch["tokens"], 0), self.context(batch, mode), batch.get("segments"))

    def chosen(
        self, hidden: Float[Array, "B T D"], batch: Batch, mode: ForwardMode
    ) -> tuple[Float[Array, "B N D"], Context]:
        """Returns the hidden states at the chosen positions, and their context for a head."""
        places = batch["masked_positions"]
        # A norm over tokens inside the head counts only the predicted ones.
        context = make_context(
            replace(mode, no_padding=False), jnp.where(self.targets(batch) >= 0, places, -1), causal=False
        )
        return jnp.take_along_axis(hidden, places[..., None], axis=1), context

    def predict_from_hidden(
        self, model: nnx.Module, hidden: Float[Array, "B T D"], batch: Batch, mode: ForwardMode
    ) -> LogitFactors:
        """Returns the prediction at the chosen positions, from the hidden states of all."""
        return model.prediction(*self.chosen(hidden, batch, mode))

    def inputs(self, batch: Batch) -> Int[Array, "B T"]:
        """Returns the tokens that the model reads, -1 for padding."""
        return batch["tokens"]

    def score(self, model: nnx.Module, batch: Batch, constants: Constants, mode: ForwardMode) -> tuple[Sums, Sums]:
        """Scores the chosen tokens, and pairs with `objective.next_sentence`."""
        hidden = self.hidden(model, batch, mode)
        losses, sums = self.score_tokens(self.predict_from_hidden(model, hidden, batch, mode), batch, constants, mode)
        if not self.config.objective.next_sentence:
            return losses, sums
        loss, right = score_classes(model.next_sentence_logits(hidden), batch["next"])
        pairs = self.normalizers(batch)["next"].astype(jnp.float32)
        return losses | {"next": loss}, sums | {"next_loss": loss, "next_right": right, "pairs": pairs}

    def num_tokens(self, batch: Batch) -> Int[Array, ""]:
        """Returns the number of tokens of text; rows share none."""
        return (batch["tokens"] >= 0).sum()


class MaskedDiffusionObjective(MaskedObjective):
    """The sum over the k hidden tokens of -(1 / k) log p(x_t | the other n - k tokens of the row), k
    uniform over 1 .. n (Sahoo et al. 2024, arXiv:2406.07524, section 3).

    Its mean over k and over which tokens are hidden is an upper bound of -log p(x) / n, and equals the
    mean over all orders of the tokens of an autoregressive model's loss (Ou et al. 2024,
    arXiv:2406.03736). The papers hide each token with a probability t uniform in (0, 1] and divide
    by n t; with k drawn in place of t the mean is the same and varies less. The model reads no t.

    The metric "loss" is this bound, the mean over all tokens that can be hidden. An autoregressive
    model's loss is the likelihood itself. A batch is what
    `zoo.data.rows.diffusion_masking.DiffusionMasking` makes.
    """

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the number of tokens that can be hidden."""
        return {"loss": batch["candidates"].sum()}

    def prepare_targets(
        self, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> tuple[Int[Array, "B T"], Float[Array, "B T"], Sums]:
        """Returns the targets with weights n / k; see `Objective.prepare_targets`."""
        targets = self.scored_targets(batch, mode)
        hidden = (targets >= 0).astype(jnp.float32)
        weights = hidden * (batch["candidates"] / jnp.maximum(hidden.sum(axis=1), 1))[:, None]
        return self.counted(targets, weights, batch, constants)


def score_classes(logits: Float[Array, "B C"], classes: Int[Array, " B"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns (-log softmax(logits)[class] summed over rows, number of rows whose largest logit is
    their class), in float32.

    Args:
        logits: scores of the classes.
        classes: -1 for rows that do not count.
    """
    real, wanted = classes >= 0, jnp.maximum(classes, 0)
    surprisal = -jnp.take_along_axis(jax.nn.log_softmax(logits.astype(jnp.float32)), wanted[:, None], axis=1)[:, 0]
    return jnp.where(real, surprisal, 0.0).sum(), (real & (logits.argmax(axis=1) == wanted)).sum().astype(jnp.float32)
