"""Models that make tokens: with a cache, token by token, and without."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tests.support.building import compiled, counting, random_statistics, random_values, tiny, with_values
from zoo.decoding import Generator
from zoo.decoding.decode_step import IncrementalDecoder, PaddedTokens, UnstackedWeights, unstack_layers
from zoo.layers.context import Context
from zoo.models.architectures import make_model
from zoo.models.functional import split

V = 13
# Untied, because a tied head says the last token again; the table is longer than the texts.
UNTIED = {"model.tie_embeddings": False}
LONG = {"model.position.max_length": 64}
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11, 12], [3]]
SOURCES = [[5, 6], [1, 2, 3, 4, 5, 6, 7], [9, 9, 1]]


def configured(overrides=None):
    """A tiny config of one layer, if nothing else is said, whose learned positions, if it has any,
    go further than every text here.
    """
    overrides = UNTIED | {"model.num_layers": 1} | (overrides or {})
    learned = [
        key
        for key in ("model.position.kind", "model.encoder.position.kind", "model.decoder.position.kind")
        if key in overrides
    ]
    return tiny(overrides if learned else LONG | overrides)


@functools.cache
def _model(overrides):
    return make_model(configured(dict(overrides)))


def made(overrides=None, seed=1):
    """(abstract model, the same one for the same overrides, its random parameters, its random
    statistics).
    """
    model = _model(tuple(sorted((overrides or {}).items())))
    return model, random_values(model, seed), random_statistics(model, seed + 1)


@functools.cache
def _generator(overrides):
    return Generator(*made(dict(overrides)))


def generator(overrides=None):
    """A generator with a tiny random model; the same one for the same overrides."""
    return _generator(tuple(sorted((overrides or {}).items())))


def rows(lists, width=None):
    """Rows of tokens, filled up with a token that must not be seen."""
    lengths = np.array([len(row) for row in lists], np.int32)
    tokens = np.full((len(lists), width or max(lengths)), V - 1, np.int32)
    for row, ids in zip(tokens, lists, strict=True):
        row[: len(ids)] = ids
    return PaddedTokens(jnp.asarray(tokens), jnp.asarray(lengths))


def both_ways(overrides=None, prompts=(3, 9, 1), steps=16, slots=32, cached=True):
    """Scores of the next token after every token that follows the prompts: step by step, and by one
    pass over all tokens.

    Args:
        overrides: of the config.
        prompts: lengths of the rows' prompts.
        steps: tokens that follow.
        slots: room in the cache.
        cached: whether the steps use it.

    Returns:
        Two arrays [B, 1 + steps, V].
    """
    model, params, stats = made(overrides)
    has_encoder = model.config.architecture == "encoder_decoder"
    B, generator = len(prompts), np.random.default_rng(7)
    tokens = generator.integers(0, V, (B, max(prompts) + steps)).astype(np.int32)
    lengths = np.array(prompts)
    last = lengths[:, None] - 1 + np.arange(1 + steps)
    following = np.take_along_axis(tokens, last[:, 1:], axis=1).T
    read = rows(
        [row[:n] for row, n in zip(tokens.tolist(), prompts, strict=True)], 1 << (max(prompts) - 1).bit_length()
    )
    sources = rows(SOURCES[:B], 8) if has_encoder else None
    how = IncrementalDecoder(split(model)[0], has_encoder, _depth(model.config), slots, V, cached)

    def step_by_step(params, stats, read, sources, following):
        weights = UnstackedWeights(*unstack_layers(params, stats, model.config.dtype))
        state, first = how.prefill(weights, read, sources)
        _, scores = jax.lax.scan(lambda state, token: how.step(weights, state, token), state, following)
        return jnp.concatenate([first[None], scores]).swapaxes(0, 1)

    def at_once(params, stats, tokens, sources):
        module, context = with_values(model, params, stats), counting(tokens.shape[1])
        if not has_encoder:
            hidden = module(tokens, context)
        else:
            hidden = module(sources.tokens, tokens, Context(sources.positions, causal=False, in_order=True), context)
        return jnp.take_along_axis(module.logits(hidden, context), last[:, :, None], axis=1)

    return (
        compiled(step_by_step)(params, stats, read, sources, jnp.asarray(following)),
        compiled(at_once)(params, stats, jnp.asarray(tokens), sources),
    )


def _depth(config):
    return config.decoder.num_layers if "decoder" in config and "num_layers" in config.decoder else config.num_layers
