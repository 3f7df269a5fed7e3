"""Kinds that are wrong in one respect each, as a plug-in may be."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from zoo import plugin

FFN, ATTENTION = "model.ffn.kind", "model.attention.kind"


class Plain(plugin.FeedForward):
    """y = gelu(x W_up) W_down."""

    def nonlinearity(self, x):
        return jax.nn.gelu(x)


class Wide(Plain):
    """It returns float32 whatever comes in."""

    def __call__(self, x, context=None):
        return super().__call__(x, context).astype(jnp.float32)


class LooksAhead(Plain):
    """Every token reads the next one."""

    def __call__(self, x, context=None):
        return super().__call__(x + jnp.roll(x, -1, axis=1), context)


class LooksAheadWithoutGradient(Plain):
    """Every token reads the next one, which has no gradient."""

    def __call__(self, x, context=None):
        return super().__call__(x + jax.lax.stop_gradient(jnp.roll(x, -1, axis=1)), context)


class MixesRows(Plain):
    """Every token reads that of the other rows."""

    def __call__(self, x, context=None):
        return super().__call__(x - x.mean(axis=0, keepdims=True), context)


class MixesRowsInTraining(Plain):
    """Every token reads the mean of the batch in training, and a stored one in evaluation."""

    def __init__(self, config, gain=1.0):
        super().__init__(config, gain)
        self.mean = plugin.statistic((config.dim,), plugin.zeros)

    def __call__(self, x, context=None):
        mean = x.mean(axis=(0, 1)) if context is not None and context.training else self.mean[...]
        return super().__call__(x - mean.astype(x.dtype), context)


class LooksBack(Plain):
    """Every token reads the one before, of which the cache knows nothing."""

    def __call__(self, x, context=None):
        return super().__call__(x + jnp.pad(x, [(0, 0), (1, 0), (0, 0)])[:, :-1], context)


class Kept(NamedTuple):
    """A sum of all values, of which beam search gets the wrong rows."""

    total: jax.Array

    def take(self, rows):
        del rows
        return self


class SumOfAll(plugin.TokenMixer):
    """y_t = (sum over s <= t of x_s) W."""

    def __init__(self, config, cross=False, gain=1.0):
        super().__init__(config, cross, gain)
        self.output = plugin.Linear(
            config.dim, config.dim, ("embed", "heads"), False, plugin.kernel_initializer(config)
        )

    def __call__(self, x, context, shared=None):
        if context.cache is None or self.part not in context.cache.entries:
            y = jnp.cumsum(jnp.where(context.positions[..., None] >= 0, x, 0), axis=1)
            last = y[:, -1:]
        else:
            y = last = context.cache.entries[self.part].total + x
        if context.cache is not None:
            context.cache.entries[self.part] = Kept(last)
        return self.output(y)

    @staticmethod
    def product_flops(layer, queries, keys):
        return layer.dim * queries


class Unused(Plain):
    """It has a parameter that nothing reads."""

    def __init__(self, config, gain=1.0):
        super().__init__(config, gain)
        self.factor = plugin.parameter((1,), (None,), plugin.ones, "scalar")


class Drawn(Plain):
    """It draws a factor each time that it is traced."""

    def __call__(self, x, context=None):
        return super().__call__(x, context) * np.float32(1 + np.random.default_rng().random())


class Cancels(Plain):
    """It loses the digits of bfloat16."""

    def __call__(self, x, context=None):
        return super().__call__((x + 1000) - 1000, context)


class AddsNothing(Plain):
    """It declares a term of the loss and adds none."""


class AddsConstant(Plain):
    """Its term of the loss depends on no parameter."""

    def __call__(self, x, context=None):
        if context is not None:
            context.add_loss("constant_term", jnp.float32(1))
        return super().__call__(x, context)


class AddsProduct(Plain):
    """Its term of the loss is the squared length of a mean over the batch."""

    def __call__(self, x, context=None):
        y = super().__call__(x, context)
        if context is not None:
            context.add_loss("product_term", jnp.square(y.mean(axis=(0, 1), dtype=jnp.float32)).sum())
        return y


class Squares(plugin.FeedForward):
    """y = (x W_up)^2 W_down."""

    def nonlinearity(self, x):
        return jnp.square(x)


def relu(config, values, x, positions):
    """y = max(0, x W_up) W_down."""
    del config, positions
    up, down = values["up"], values["down"]
    return np.maximum(0, x @ up["kernel"] + up["bias"]) @ down["kernel"] + down["bias"]


def doubled(step):
    """A schedule whose share has a dimension too many."""
    return jnp.ones((1,)) * step.since


def weight(name):
    return plugin.Field(f"model.ffn.{name}", 0.0, float, "weight of the term", minimum=0)


def kind(path, name, code, **more):
    return plugin.Kind(path, name, "y", code=code, **more), code


# Property -> kinds that lack it.
BROKEN = {
    "shapes": [kind(FFN, "wide", Wide), kind("schedule.kind", "doubled", doubled)],
    "causality": [kind(FFN, "looks_ahead", LooksAhead), kind(FFN, "looks_ahead_quietly", LooksAheadWithoutGradient)],
    "padding": [kind(FFN, "mixes_rows", MixesRows), kind(FFN, "mixes_rows_in_training", MixesRowsInTraining)],
    "packed documents": [kind(FFN, "looks_back", LooksBack)],
    "cached generation": [kind(FFN, "looks_back_uncached", LooksBack)],
    "beams": [kind(ATTENTION, "sum_of_all", SumOfAll)],
    "gradients": [kind(FFN, "unused", Unused)],
    "scanned layers": [kind(FFN, "drawn", Drawn)],
    "recomputation": [kind(FFN, "drawn_again", Drawn)],
    "bfloat16": [kind(FFN, "cancels", Cancels)],
    "loss terms": [
        kind(FFN, "adds_nothing", AddsNothing, fields=(weight("nothing_weight"),),
             loss_terms={"nothing_term": "model.ffn.nothing_weight"}),
        kind(FFN, "adds_constant", AddsConstant, fields=(weight("constant_weight"),),
             loss_terms={"constant_term": "model.ffn.constant_weight"}),
    ],
    "accumulation": [
        kind(FFN, "mixes_rows_in_parts", MixesRows),
        kind(FFN, "adds_product", AddsProduct, fields=(weight("product_weight"),),
             loss_terms={"product_term": "model.ffn.product_weight"}),
    ],
    "population": [kind(FFN, "drawn_for_each", Drawn)],
    "resume": [kind(FFN, "drawn_after_a_restart", Drawn)],
    "8 devices": [kind(FFN, "drawn_on_each", Drawn)],
    "reference": [kind(FFN, "squares", Squares, reference=relu)],
}  # fmt: skip
