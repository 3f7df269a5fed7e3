"""Multi-token prediction without parameters: one prediction is scored against several next tokens."""

from collections.abc import Iterator

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.models.head import LogitFactors
from zoo.objectives.causal import CausalObjective
from zoo.objectives.objective import Batch, Constants, ForwardMode, Sums


class MultiTokenObjective(CausalObjective):
    """-sum_k w_k log p_t(x_(t+k)) / sum_k w_k over the next n tokens, k = 1 .. n, with the same
    prediction p_t for all of them and w_k = r^(k - 1) (after Gloeckle et al. 2024, arXiv:2404.19737).

    In that paper each future token has a head of its own; here all share one. n is
    `objective.future_tokens`, r `objective.future_decay`. Each term is a mean over its own targets:
    those of k > 1 lie in the row and in the document of token t, whether or not documents
    see each other. Only training has these terms. The reported loss, in training and in evaluation,
    is that of the next token alone, so it is comparable with `causal`. The head's product is
    computed for each k.
    """

    def shares(self) -> list[float]:
        """Returns w_k / sum_k w_k of k = 1 .. n."""
        decay = self.config.objective.future_decay
        weights = [decay**k for k in range(self.config.objective.future_tokens)]
        return [weight / sum(weights) for weight in weights]

    def future(self, batch: Batch) -> Iterator[tuple[str, Int[Array, "B T"]]]:
        """Yields the name of the term and the targets of k = 2 .. n, -1 where there is none."""
        tokens = batch["tokens"]
        documents = jnp.cumsum(tokens == self.bos_id, axis=1)
        length = tokens.shape[1] - 1
        for k in range(2, self.config.objective.future_tokens + 1):
            same = documents[:, k:] == documents[:, : length + 1 - k]
            targets = jnp.where(same, tokens[:, k:], -1)
            yield f"future_{k}", jnp.pad(targets, [(0, 0), (0, k - 1)], constant_values=-1)

    def normalizers(self, batch: Batch) -> Sums:
        """Returns the number of targets of each term."""
        return super().normalizers(batch) | {name: (targets >= 0).sum() for name, targets in self.future(batch)}

    def score_tokens(
        self, prediction: LogitFactors, batch: Batch, constants: Constants, mode: ForwardMode
    ) -> tuple[Sums, Sums]:
        """Returns the terms, weighted, and the sums of the next token alone."""
        losses, sums = super().score_tokens(prediction, batch, constants, mode)
        if not mode.training:
            return losses, sums
        first, *others = self.shares()
        losses = {"loss": first * losses["loss"]}
        for share, (name, targets) in zip(others, self.future(batch), strict=True):
            losses[name] = share * self._summed(prediction, targets, constants, mode)
        return losses, sums

    def _summed(
        self, prediction: LogitFactors, targets: Int[Array, "B T"], constants: Constants, mode: ForwardMode
    ) -> Float[Array, ""]:
        weights = (targets >= 0).astype(jnp.float32)
        return self.token_loss(prediction, jnp.maximum(targets, 0), weights, constants, mode)[0]
