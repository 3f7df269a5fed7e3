"""The interface of position schemes: four hooks; each scheme implements those it needs."""

from flax import nnx
from jaxtyping import Array, Float, Int

from zoo.config import ResolvedConfig


class Position(nnx.Module):
    """The interface, and the scheme without positions: every hook returns its input."""

    max_length: int | None = None
    """Longest sequence the scheme can express, or None if there is no limit."""
    reads_query = False
    """Whether `score_bias` depends on the query, and not on positions alone."""

    def __init__(self, config: ResolvedConfig):
        del config

    @property
    def has_score_bias(self) -> bool:
        """Whether the scheme has `score_bias`."""
        return type(self).score_bias is not Position.score_bias

    @property
    def has_value_bias(self) -> bool:
        """Whether the scheme has `value_bias`."""
        return type(self).value_bias is not Position.value_bias

    @staticmethod
    def query_flops(layer: ResolvedConfig) -> float:
        """Returns the operations of the scheme's own products for one query of all heads."""
        del layer
        return 0.0

    def embed(self, x: Float[Array, "B T D"], positions: Int[Array, "#B T"]) -> Float[Array, "B T D"]:
        """Adds position vectors to embeddings."""
        del positions
        return x

    def rotate(
        self,
        q: Float[Array, "B T H K"],
        k: Float[Array, "B S G K"],
        q_positions: Int[Array, "#B T"],
        k_positions: Int[Array, "#B S"],
    ) -> tuple[Float[Array, "B T H K"], Float[Array, "B S G K"]]:
        """Rotates queries and keys by their positions."""
        del q_positions, k_positions
        return q, k

    def score_bias(
        self, q: Float[Array, "B T H K"], q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"]
    ) -> Float[Array, "#B H T S"]:
        """Returns the term added to the scores; `q` is already multiplied by the scale."""
        raise NotImplementedError

    def value_bias(
        self, probabilities: Float[Array, "B H T S"], q_positions: Int[Array, "#B T"], k_positions: Int[Array, "#B S"]
    ) -> Float[Array, "B T H K"]:
        """Returns the term added to the attended values."""
        raise NotImplementedError
