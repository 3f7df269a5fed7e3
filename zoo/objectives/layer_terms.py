"""Terms of the loss that layers add: weighted by their fields, summed over a batch like any other
term, and reported apart from the cross-entropy.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.config import ResolvedConfig, loss_weight_path, used_loss_terms
from zoo.nested import flatten
from zoo.objectives.cross_entropy import Scalar

ROWS = "rows"
"""Name of the number of rows that the values of the terms are averaged over."""


class LayerTerms:
    """The terms that the layers of one model add by `Context.add_loss`.

    Term k adds sum_s w_ks v_ks to the loss: v_ks is the sum of its values over the layers of the
    scope s (the whole model, a side or a kind of layers), w_ks its weight there
    (`zoo.config.hyperparameters.LOSS_TERMS`). The metric k is sum_s v_ks, without the weights; a
    scope whose weight is 0 counts in neither. A batch that is processed in parts has the mean of
    the parts' values, each counted by its number of rows.

    Args:
        config: the resolved config.

    Attributes:
        means: the metrics of the terms, see `Objective`.
    """

    def __init__(self, config: ResolvedConfig):
        self._flat = flatten(config)
        self.means = {name: (name, ROWS) for name in used_loss_terms(self._flat)}

    def normalizers(self, rows: Float[Array, ""]) -> dict[str, Float[Array, ""]]:
        """Returns the number of rows that each term is averaged over."""
        return dict.fromkeys(self.means, rows)

    def score(
        self,
        collected: Mapping[tuple[str, str], Float[Array, ""]],
        rows: Float[Array, ""],
        weight_at: Callable[[str], Scalar],
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Returns (the weighted terms, the sums behind the metrics), each times the number of rows.

        Args:
            collected: `Context.losses` after a forward pass.
            rows: number of rows in it.
            weight_at: path of a field -> its value.
        """
        losses, sums = {}, {ROWS: rows}
        for name in self.means:
            weighted = reported = jnp.float32(0)
            for (scope, term), value in collected.items():
                path = loss_weight_path(name, scope, self._flat)
                if term == name and self._flat[path]:
                    weighted, reported = weighted + weight_at(path) * value, reported + value
            losses[name], sums[name] = weighted * rows, jax.lax.stop_gradient(reported) * rows
        return losses, sums
