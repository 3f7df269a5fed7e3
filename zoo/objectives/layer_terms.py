"""Terms of the loss that layers add: weighted by their fields, summed over a batch like any other
term, and reported apart from the cross-entropy.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, declared_loss_terms, loss_weight_path, used_loss_terms
from zoo.nested import flatten
from zoo.objectives.cross_entropy import Scalar

ROWS = "rows"
"""Name of the number of rows that the values of the terms are averaged over."""


class LayerTerms:
    """The terms that the layers of one model add by `Context.add_loss`.

    Term k adds sum_s w_ks v_ks to the loss: v_ks is the sum of its values over the layers of the
    scope s (the whole model, a side or a kind of layers), w_ks its weight there
    (`zoo.config.hyperparameters.LOSS_TERMS`). The metric k is sum_s v_ks, without the weights: in
    training over the scopes whose weight is not 0, as nothing else computes the others; in evaluation
    over all of them, so that runs with other weights, or none, have the same metric. A batch that is
    processed in parts has the mean of the parts' values, each counted by its number of rows.

    Args:
        config: the resolved config.

    Attributes:
        trained: the terms with a weight, which training computes.
        means: the metrics of the terms, see `Objective`; those without a weight are only evaluated.
    """

    def __init__(self, config: ResolvedConfig):
        self._flat = flatten(config)
        self.trained = used_loss_terms(self._flat)
        self.means = {name: (name, ROWS) for name in declared_loss_terms(self._flat)}

    def computed(self, training: bool) -> tuple[str, ...]:
        """Returns the terms that are computed in training or in evaluation."""
        return self.trained if training else tuple(self.means)

    def normalizers(self, rows: Float[Array, ""]) -> dict[str, Float[Array, ""]]:
        """Returns the number of rows that each term of the loss is averaged over."""
        return dict.fromkeys(self.trained, rows)

    def score(
        self,
        collected: Mapping[tuple[str, str], Float[Array, ""]],
        rows: Float[Array, ""],
        weight_at: Callable[[str], Scalar],
        training: bool,
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Returns (the weighted terms, the sums behind the metrics), each times the number of rows.

        Args:
            collected: `Context.losses` after a forward pass.
            rows: number of rows in it.
            weight_at: path of a field -> its value.
            training: whether terms and scopes without a weight are left out.
        """
        losses, sums = {}, {ROWS: rows}
        for name in self.computed(training):
            weighted = reported = jnp.float32(0)
            for (scope, term), value in collected.items():
                path = loss_weight_path(name, scope, self._flat)
                if term != name:
                    continue
                if self._flat[path]:
                    weighted = weighted + weight_at(path) * value
                if self._flat[path] or not training:
                    reported = reported + value
            sums[name] = jax.lax.stop_gradient(reported) * rows
            if name in self.trained:
                losses[name] = weighted * rows
        return losses, sums
