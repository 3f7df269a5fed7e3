"""Small models for the measurements."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from zoo import config as configs
from zoo import data
from zoo.config import ResolvedConfig
from zoo.data import resolve_with_data
from zoo.layers.context import Context
from zoo.models import cost
from zoo.models.architectures import make_model
from zoo.models.functional import initialise, initialise_statistics, split
from zoo.objectives import make_objective
from zoo.training.mesh import make_mesh
from zoo.training.step import make_program


def resolved(fields: Mapping[str, Any]) -> ResolvedConfig:
    """Returns the default config over bytes with these fields."""
    return configs.resolve(
        configs.override(configs.default(), {"model.vocab_size": 258, "data.tokenizer.kind": "bytes", **fields})
    )


def passes(fields: Mapping[str, Any], length: int) -> tuple[Callable[[], None], int]:
    """Returns a function that runs one row forwards and backwards, up to the hidden states, and how
    many bytes the compiled program needs beside its inputs and outputs.
    """
    config = resolved({**fields, "data.batch_size": 1, "data.sequence_length": length})
    model = make_model(config)
    graph = split(model)[0]
    params, stats = initialise(model, 0), initialise_statistics(model, 0)
    tokens = np.random.default_rng(0).integers(0, 256, (1, length), np.int32)
    context = Context(jnp.arange(length)[None], causal=config.model.architecture == "decoder", in_order=True)

    def loss(params, stats, tokens):
        return jnp.square(nnx.merge(graph, params, stats)(tokens, context)).mean()

    program = jax.jit(jax.value_and_grad(loss)).lower(params, stats, tokens).compile()
    return (
        lambda: jax.block_until_ready(program(params, stats, tokens)) and None,
        program.memory_analysis().temp_size_in_bytes,
    )


def training_step(fields: Mapping[str, Any], length: int, tokens: int) -> tuple[Callable[[], None], float]:
    """Returns a function that does a training step and waits for it, and the FLOPs of a token.

    Args:
        fields: overrides of the default config.
        length: tokens of a row.
        tokens: tokens of a step.
    """
    sizes = {"data.sequence_length": length, "data.batch_size": tokens // length}
    config = resolve_with_data(configs.override(configs.default(), {**fields, **sizes}))
    dataset = data.load(config)
    program = make_program(config, make_model(config), make_objective(config, dataset.tokenizer), make_mesh(config))
    state, constants = program.initial_state(0), program.constants(0)
    with dataset.training_batches() as batches:
        batch = program.put_batch(next(batches))

    def step() -> None:
        nonlocal state
        state, metrics = program.train_step(state, batch, constants)
        jax.block_until_ready(metrics)

    return step, cost.summary(config).flops_per_token
