"""Random models for the tests of decoding, and their scores with and without a cache."""

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
# A tied head of random weights repeats the last token.
UNTIED = {"model.tie_embeddings": False}
# Longer than every text in these tests.
LONG = {"model.position.max_length": 64}
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11, 12], [3]]
SOURCES = [[5, 6], [1, 2, 3, 4, 5, 6, 7], [9, 9, 1]]


def configured(overrides=None):
    """Returns a tiny config, of one layer by default, whose learned positions (if any) cover every
    text of these tests.
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


def random_model(overrides=None, seed=1):
    """Returns (model, random parameters, random statistics); equal overrides share one model."""
    model = _model(tuple(sorted((overrides or {}).items())))
    return model, random_values(model, seed), random_statistics(model, seed + 1)


@functools.cache
def _generator(overrides):
    return Generator(*random_model(dict(overrides)))


def generator(overrides=None):
    """Returns a generator with a tiny random model; equal overrides share one generator."""
    return _generator(tuple(sorted((overrides or {}).items())))


def padded_rows(lists, width=None):
    """Pads rows of tokens with a token that the model must never read."""
    lengths = np.array([len(row) for row in lists], np.int32)
    tokens = np.full((len(lists), width or max(lengths)), V - 1, np.int32)
    for row, ids in zip(tokens, lists, strict=True):
        row[: len(ids)] = ids
    return PaddedTokens(jnp.asarray(tokens), jnp.asarray(lengths))


def stepwise_and_full_scores(overrides=None, prompts=(3, 9, 1), steps=16, slots=32, cached=True):
    """Computes the scores of the next token, from the last token of each prompt on, in two ways: step
    by step, and in one pass over all tokens.

    Args:
        overrides: overrides of the config.
        prompts: length of each row's prompt.
        steps: number of tokens after the prompts.
        slots: number of slots in the cache.
        cached: whether the steps use the cache.

    Returns:
        Two arrays [B, 1 + steps, V].
    """
    model, params, stats = random_model(overrides)
    has_encoder = model.config.architecture == "encoder_decoder"
    B, generator = len(prompts), np.random.default_rng(7)
    tokens = generator.integers(0, V, (B, max(prompts) + steps)).astype(np.int32)
    lengths = np.array(prompts)
    last = lengths[:, None] - 1 + np.arange(1 + steps)
    following = np.take_along_axis(tokens, last[:, 1:], axis=1).T
    prompt_rows = padded_rows(
        [row[:n] for row, n in zip(tokens.tolist(), prompts, strict=True)], 1 << (max(prompts) - 1).bit_length()
    )
    sources = padded_rows(SOURCES[:B], 8) if has_encoder else None
    decoder = IncrementalDecoder(split(model)[0], has_encoder, _depth(model.config), slots, V, cached)

    def stepwise(params, stats, prompt_rows, sources, following):
        weights = UnstackedWeights(*unstack_layers(params, stats, model.config.dtype))
        state, first = decoder.prefill(weights, prompt_rows, sources)
        _, scores = jax.lax.scan(lambda state, token: decoder.step(weights, state, token), state, following)
        return jnp.concatenate([first[None], scores]).swapaxes(0, 1)

    def full_pass(params, stats, tokens, sources):
        module, context = with_values(model, params, stats), counting(tokens.shape[1])
        if not has_encoder:
            hidden = module(tokens, context)
        else:
            hidden = module(sources.tokens, tokens, Context(sources.positions, causal=False, in_order=True), context)
        return jnp.take_along_axis(module.logits(hidden, context), last[:, :, None], axis=1)

    return (
        compiled(stepwise)(params, stats, prompt_rows, sources, jnp.asarray(following)),
        compiled(full_pass)(params, stats, jnp.asarray(tokens), sources),
    )


def _depth(config):
    return config.decoder.num_layers if "decoder" in config and "num_layers" in config.decoder else config.num_layers
