"""A feed-forward layer that adds a term to the loss, and the config field for the term's weight."""

import contextlib

import jax.numpy as jnp
import pytest

from zoo.config import LOSS_TERMS
from zoo.config.fields import FIELDS, Field
from zoo.layers.feedforward import FeedForward

TERM, WEIGHT = "output_cosh", "model.ffn.output_penalty"


class PenalisedFeedForward(FeedForward):
    """Adds the mean of cosh(y) over all outputs y, an operation that nothing else uses.

    `outputs` has the outputs of the last calls, for layers that run one by one.
    """

    outputs = ()

    def __call__(self, x, context=None):
        y = super().__call__(x, context)
        PenalisedFeedForward.outputs += (y,)
        context.add_loss(TERM, jnp.cosh(y.astype(jnp.float32)).mean())
        return y


@contextlib.contextmanager
def penalised():
    """Gives all models this layer and all configs its field."""
    field = Field(WEIGHT, 0.0, float, "weight of the mean of cosh(y) of the feed-forward's outputs", minimum=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zoo.layers.block.make_feed_forward", PenalisedFeedForward)
        patch.setitem(LOSS_TERMS, TERM, WEIGHT)
        FIELDS.add(field)
        try:
            yield
        finally:
            FIELDS.remove(WEIGHT)
