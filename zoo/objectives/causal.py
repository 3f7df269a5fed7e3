"""Causal language modelling: every token is predicted from those before it."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int, Key

from zoo.config import ResolvedConfig
from zoo.layers.context import Context
from zoo.models.functional import Params
from zoo.models.architectures import make_model
from zoo.models.language_model import LanguageModel
from zoo.objectives.cross_entropy import cross_entropy

Sums = dict[str, Float[Array, ""]]


def structure(tokens: Int[Array, "B T"], isolate: bool, document_id: int) -> tuple[Int[Array, "B T"], Int[Array, "B T"] | None]:
    """Positions and documents of packed rows.

    Args:
        tokens: rows in which `document_id` opens every document.
        isolate: each document counts its positions from 0 and is a world of its own; else a row is one sequence.

    Returns:
        (positions [B or 1, T], document numbers [B, T] or None).
    """
    index = jnp.arange(tokens.shape[1])[None]
    if not isolate:
        return index, None
    opens = tokens == document_id
    start = jax.lax.cummax(jnp.where(opens, index, 0), axis=1)
    return index - start, jnp.cumsum(opens, axis=1)


class CausalObjective:
    """-log p(x_t | x_<t), summed over the tokens of a batch (Radford et al. 2018, eq. 1).

    A batch is {"tokens": [B, T + 1]}: inputs are the first T of a row, targets the last T. Rows are padded with -1 at their end, where
    no earlier token can see it, and it is not scored.
    """

    def __init__(self, config: ResolvedConfig, document_id: int):
        self.config, self.document_id = config, document_id
        self.model: LanguageModel = make_model(config)

    def sums(
        self,
        graph: nnx.GraphDef,
        params: Params,
        batch: Mapping[str, Int[Array, "B T1"]],
        token_bytes: Int[Array, " V"],
        dropout_key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, ""], Sums]:
        """Returns the summed loss and the sums that turn it into metrics.

        Args:
            graph, params: the model, split.
            batch: rows of tokens.
            token_bytes: bytes of text that each token id stands for.
            dropout_key: None to drop nothing.

        Returns:
            Loss in nats summed over scored tokens; {"weight": scored tokens, "bytes": bytes of text that they stand for}.
        """
        model = nnx.merge(graph, params)
        tokens = batch["tokens"]
        inputs, targets = jnp.maximum(tokens[:, :-1], 0), tokens[:, 1:]
        positions, documents = structure(inputs, self.config.data.isolate_documents, self.document_id)
        weights = (targets >= 0).astype(jnp.float32)
        targets = jnp.maximum(targets, 0)
        hidden = model(inputs, Context(positions, documents, causal=True, in_order=True, dropout_key=dropout_key))
        loss = cross_entropy(hidden, model.head_weights, targets, weights, self.config.objective.chunk_tokens)
        return loss, {"weight": weights.sum(), "bytes": (token_bytes[targets] * weights).sum()}


OBJECTIVES = {"causal": CausalObjective}


def make_objective(config: ResolvedConfig, document_id: int) -> CausalObjective:
    """Builds the objective that `objective.kind` names."""
    return OBJECTIVES[config.objective.kind](config, document_id)
