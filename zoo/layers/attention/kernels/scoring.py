"""The parameters of attention scores, which every implementation of attention takes."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float, Int


@dataclass(frozen=True)
class Scoring:
    """Parameters of the weights: p = softmax(cap(scale * q k^T + bias),
    sink) over the visible keys.

    Attributes:
        scale: factor on q k^T.
        window, global_tokens: visibility of keys, see `Context.visible`.
        score_bias: (scaled q [B,T,H,K], positions of queries [B,T] and keys [B,S]) -> a term added
            to the scores, [B,H,T,S]; None for none.
        reads_query: `score_bias` depends on q, not only on positions.
        shared: [B or 1, H, T, S], a further term of the bias, computed once for all layers.
        softcap: c in cap(x) = c tanh(x / c); 0 for the identity.
        sinks: [H], a further score per head that takes weight and has no value.
        value_bias: (p [B,H,T,S], positions) -> a term added to the output, [B,T,H,V]; None for
            none.
        dropout: rate on p.
        weigh: (scores [B,G,R,T,S] after the cap, visible keys, softmax) -> p [B,G,R,T,S], in place of
            the softmax alone. `softmax` maps scores to weights over the visible keys and the sink.
            None for the softmax.
        dilations: dilations of the windows of the H heads; empty if all are 1.
        subtracted: lambda in p_h - lambda p_(h + H/2), the weights of H / 2 pairs of heads, of which
            each reads both values of its pair; None for weights of single heads.
    """

    scale: float
    window: int = 0
    global_tokens: int = 0
    score_bias: Callable[[Array, Array, Array], Array] | None = None
    reads_query: bool = False
    shared: Float[Array, "#B H T S"] | None = None
    softcap: float = 0.0
    sinks: Float[Array, " H"] | None = None
    value_bias: Callable[[Array, Array, Array], Array] | None = None
    dropout: float = 0.0
    dilations: tuple[int, ...] = ()
    weigh: Callable[[Array, Array, Callable[[Array], Array]], Array] | None = None
    subtracted: Float[Array, ""] | None = None

    def total_bias(
        self, q: Float[Array, "B T H K"], q_positions: Int[Array, "#B #T"], k_positions: Int[Array, "#B S"]
    ) -> Array | None:
        """Returns the sum of the terms added to the scores, [B or 1, H, T, S], or None."""
        if self.score_bias is None:
            return self.shared
        own = self.score_bias(q, q_positions, k_positions)
        return own if self.shared is None else own + self.shared
