"""Shapes and types, without computing anything."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array

from zoo.checks.outcome import Fails
from zoo.checks.small_models import with_values
from zoo.checks.subject import ROWS, Subject, T
from zoo.config import ResolvedConfig
from zoo.layers.attention import make_attention
from zoo.layers.context import Context
from zoo.layers.feedforward import make_feed_forward
from zoo.layers.norm import make_norm
from zoo.models import cost
from zoo.models.functional import Params, Stats, split
from zoo.training.optimization.schedules import make_schedule

# The layers that map [B, T, D] to [B, T, D].
LAYERS = {"model.norm.kind": make_norm, "model.attention.kind": make_attention, "model.ffn.kind": make_feed_forward}


def shapes(subject: Subject) -> str:
    """Layers keep shape and type, updates those of the parameters, and costs are numbers."""
    config = subject.config()
    if subject.kind.path == "schedule.kind":
        return _schedule(config)
    counted = cost.summary(config)
    if not (math.isfinite(counted.flops_per_token) and counted.flops_per_token > 0):
        raise Fails(f"FLOPs per token are {counted.flops_per_token}; see product_flops")
    model, values, stats = subject.model(config)
    number = sum(np.size(leaf) for leaf in jax.tree.leaves(values))
    lines = [f"{number:,} parameters"]
    if subject.kind.path in LAYERS:
        D = config.model.dim
        for dtype in ("float32", "bfloat16"):
            layer = LAYERS[subject.kind.path](subject.config({"model.dtype": dtype}).model)
            _require_shape(layer, config, jax.ShapeDtypeStruct((2, T, D), dtype))
        lines.append(f"[2, {T}, {D}] to [2, {T}, {D}] in float32 and bfloat16")
    if subject.architecture != "encoder_decoder":
        tokens = jax.ShapeDtypeStruct((ROWS, T), jnp.int32)
        scores = jax.eval_shape(lambda tokens: _scores(model, values, stats, tokens), tokens)
        if scores.shape[:2] != (ROWS, T):
            raise Fails(f"a model of [{ROWS}, {T}] tokens returns scores of shape {list(scores.shape)}")
    return ", ".join(lines)


def first_layer_context(config: ResolvedConfig, positions: Array) -> Context:
    """Returns the context of a stack's first layer, for one that runs alone.

    Args:
        config: the resolved config.
        positions: of its tokens, [B, T]; -1 marks empty slots. All tokens have the id 0.
    """
    return Context(
        positions,
        causal=config.model.architecture == "decoder",
        in_order=True,
        layer_index=0,
        depth=config.model.num_layers,
        tokens=jnp.zeros(positions.shape, jnp.int32),
        published={},
    )


def _require_shape(layer: nnx.Module, config: ResolvedConfig, x: jax.ShapeDtypeStruct) -> None:
    graph, values, stats = split(layer)

    def call(values, stats, x):
        positions = jnp.broadcast_to(jnp.arange(x.shape[1]), x.shape[:2])
        return nnx.merge(graph, values, stats)(x, first_layer_context(config, positions))

    y = jax.eval_shape(call, values, stats, x)
    if y.shape != x.shape:
        raise Fails(f"x {list(x.shape)} goes in and {list(y.shape)} comes out")
    if y.dtype != x.dtype:
        raise Fails(f"x in {x.dtype} comes out in {y.dtype}; end with .astype(x.dtype)")


def _scores(model: nnx.Module, values: Params, stats: Stats, tokens: Array) -> Array:
    context = Context(jnp.arange(T)[None], causal=model.config.architecture == "decoder", in_order=True)
    module = with_values(model, values, stats)
    return module.logits(module(tokens, context), context)


def _schedule(config: ResolvedConfig) -> str:
    rate = make_schedule(config)
    rates = np.array([rate(jnp.int32(step)) for step in range(config.training.steps)])
    if rates.shape != (config.training.steps,):
        raise Fails(f"the rate of an update has the shape {list(rates.shape[1:])}, not []")
    if not np.isfinite(rates).all() or (rates < 0).any():
        raise Fails(f"the rates of {config.training.steps} updates are {', '.join(f'{one:.3g}' for one in rates)}")
    shown = ", ".join(f"{one:.3g}" for one in (rates[0], rates[-1]))
    return f"one rate for each of {config.training.steps} updates, the first and the last {shown}"
