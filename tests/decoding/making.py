"""Random models for the tests of decoding, and their scores with and without a cache."""

import functools

from tests.support.building import random_statistics, random_values, tiny
from zoo.checks import cached_decoding
from zoo.checks.cached_decoding import SOURCES, padded_rows  # noqa: F401
from zoo.decoding import Generator
from zoo.models.architectures import make_model

V = 13
# A tied head of random weights repeats the last token.
UNTIED = {"model.tie_embeddings": False}
# Longer than every text in these tests.
LONG = {"model.position.max_length": 64}
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11, 12], [3]]


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
    return cached_decoding.stepwise_and_full_scores(random_model(overrides), prompts, steps, slots, cached)
