"""Masked diffusion: masked language modelling with every share of hidden tokens, weighted so that the
loss bounds the likelihood of the text.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from zoo.objectives.masked import MaskedObjective
from zoo.objectives.objective import Batch, Constants, ForwardMode, Sums


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
        targets = jnp.maximum(targets, 0)
        return targets, weights, {"weight": weights.sum(), "bytes": (constants["token_bytes"][targets] * weights).sum()}
