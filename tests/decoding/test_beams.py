"""Beam search against all texts there are, and against the search spelled out."""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding.making import made, rows
from tests.support.building import ENCODER_DECODER, compiled, counting, slow_but, with_values
from zoo.decoding import Generator, stop_table
from zoo.decoding.generator import padded_length
from zoo.layers.context import Context

FEW, END = 4, 1
SMALL = {"model.vocab_size": FEW}
PROMPTS, SOURCES = [[2, 3], [0], [3, 3, 3, 1]], [[1, 2, 3], [3], [0, 2, 2]]
N = 4


@functools.cache
def model_of(has_encoder, seed):
    return Generator(*made(SMALL | (ENCODER_DECODER if has_encoder else {}), seed))


@functools.cache
def whole_texts(has_encoder):
    """A program: (parameters, texts [M, T], number of the source) -> scores [M, T, V]."""
    model, _, stats = made(SMALL | (ENCODER_DECODER if has_encoder else {}))
    sources = rows(SOURCES, 4)

    @compiled
    def scores(params, tokens, row):
        module, context = with_values(model, params, stats), counting(tokens.shape[1])
        if not has_encoder:
            return module.logits(module(tokens, context))
        source, positions = (jnp.broadcast_to(x[row], (len(tokens), 4)) for x in (sources.tokens, sources.positions))
        return module.logits(module(source, tokens, Context(positions, causal=False), context))

    return scores


def log_probabilities(has_encoder, seed):
    """A function: (number of a prompt, new tokens [M, n]) -> log p of each of them [M, n]."""
    params = made(SMALL | (ENCODER_DECODER if has_encoder else {}), seed)[1]

    def evaluate(row, new):
        prompt = PROMPTS[row]
        text = np.concatenate([np.tile(prompt, (len(new), 1)), new], axis=1)
        # One number of texts and one length for all: few programs.
        padded = np.zeros((FEW**N, 8), np.int32)
        padded[: len(new), : text.shape[1]] = text
        found = np.asarray(whole_texts(has_encoder)(params, padded, row), np.float64)[: len(new)]
        found = found - np.log(np.exp(found).sum(axis=-1, keepdims=True))
        places = len(prompt) - 1 + np.arange(new.shape[1])
        return np.take_along_axis(found[:, places], np.asarray(new)[..., None], axis=2)[..., 0]

    return evaluate


def all_texts(has_encoder, seed, row, alpha):
    """{text: score} of every text that ends with END or has N tokens."""
    every = np.array(list(itertools.product(range(FEW), repeat=N)))
    each = log_probabilities(has_encoder, seed)(row, every)
    found = {}
    for text, values in zip(every.tolist(), each, strict=True):
        length = text.index(END) + 1 if END in text else N
        found[tuple(text[:length])] = values[:length].sum() / length**alpha
    return found


def as_texts(found, row):
    """[(text, score)] as beam search returned them, without those that are none."""
    return [
        (tuple(found.tokens[row, beam, : found.lengths[row, beam]].tolist()), found.scores[row, beam])
        for beam in range(found.scores.shape[1])
        if np.isfinite(found.scores[row, beam])
    ]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.5, -1.0])
@pytest.mark.parametrize("has_encoder", [False, True])
def test_with_enough_beams_it_is_exhaustive(has_encoder, alpha):
    found = model_of(has_encoder, 1).beam_search(
        PROMPTS, N, FEW**N, alpha, stop_table(FEW, [END]), SOURCES if has_encoder else None
    )
    assert (found.tokens[np.arange(N) >= found.lengths[..., None]] == -1).all()
    for row in range(len(PROMPTS)):
        expected = all_texts(has_encoder, 1, row, alpha)
        actual = as_texts(found, row)
        assert len(actual) == len(expected) == sum(3**n for n in range(N)) + 3**N
        for text, score in actual:
            assert score == pytest.approx(expected[text], rel=1e-5, abs=1e-5)
        assert [score for _, score in actual] == sorted((score for _, score in actual), reverse=True)
        best, second = sorted(expected.values())[:-3:-1]
        assert best - second > 1e-4
        assert expected[actual[0][0]] == best


def spelled_out(has_encoder, seed, row, beams, alpha):
    """The search in plain loops, to the very end."""
    evaluate = log_probabilities(has_encoder, seed)
    going, ended = [((), 0.0)], []
    for length in range(1, N + 1):
        new = np.array([[*text, token] for text, _ in going for token in range(FEW)])
        totals = evaluate(row, new).sum(axis=1)
        ranked = sorted(zip(map(tuple, new.tolist()), totals, strict=True), key=lambda pair: -pair[1])
        over = [pair for pair in ranked[:beams] if pair[0][-1] == END or length == N]
        ended = sorted(ended + [(text, total / length**alpha) for text, total in over], key=lambda pair: -pair[1])[
            :beams
        ]
        going = [pair for pair in ranked if pair[0][-1] != END][:beams]
    return ended


@pytest.mark.parametrize("has_encoder", [False, True])
@pytest.mark.parametrize(
    ("beams", "alpha", "cache"),
    slow_but(
        [(2, 2.0, True)],
        [(2, 0.0, True), (2, 2.0, True), (3, 1.0, True), (3, -0.7, True), (3, 1.0, False)],
        pytest.mark.promise,
    ),
)
def test_with_few_beams_it_prunes_as_described(has_encoder, beams, alpha, cache):
    for seed in (1, 2, 3):
        found = model_of(has_encoder, seed).beam_search(
            PROMPTS, N, beams, alpha, stop_table(FEW, [END]), SOURCES if has_encoder else None, cache=cache
        )
        for row in range(len(PROMPTS)):
            expected, actual = spelled_out(has_encoder, seed, row, beams, alpha), as_texts(found, row)
            assert [text for text, _ in actual] == [text for text, _ in expected]
            np.testing.assert_allclose(
                [score for _, score in actual], [score for _, score in expected], rtol=1e-5, atol=1e-5
            )


def test_one_beam_without_stops_is_greedy():
    model = model_of(False, 1)
    found = model.beam_search(PROMPTS, 20, 1)
    greedy = model.generate(PROMPTS, 20)
    np.testing.assert_array_equal(found.tokens[:, 0], greedy.tokens)
    assert (found.lengths == 20).all()


@pytest.mark.parametrize("overrides", [
    pytest.param({"model.attention.kind": "performer"}, marks=pytest.mark.promise), {"model.attention.num_kv_heads": 1, "model.position.kind": "rope", "model.attention.window": 3},
], ids=str)  # fmt: skip
def test_what_a_hypothesis_has_read_goes_with_it(overrides):
    """One prompt, so that with one key head its cache has another form than those of its
    hypotheses.
    """
    model = Generator(*made(SMALL | overrides))
    found, again = (
        model.beam_search(PROMPTS[:1], 12, 3, 1.0, stop_table(FEW, [END]), cache=cache) for cache in (True, False)
    )
    np.testing.assert_array_equal(found.tokens, again.tokens)
    np.testing.assert_allclose(found.scores, again.scores, rtol=1e-5)


def test_a_text_stops_a_hypothesis_in_the_middle_of_a_token():
    pieces = [b"a", b"b", b"ab", b"c"]
    stop = stop_table(FEW, [], ["ba"], pieces)
    found = model_of(False, 1).beam_search(PROMPTS, N, FEW**N, 0.0, stop)
    for row in range(len(PROMPTS)):
        for text, _ in as_texts(found, row):
            said = [b"".join(pieces[token] for token in text[:n]) for n in range(len(text) + 1)]
            assert not any(b"ba" in part for part in said[:-1])
            assert b"ba" in said[-1] or len(text) == N


def test_the_size_of_the_buffers_changes_nothing():
    assert (padded_length(N), padded_length(17)) == (16, 32)
    model, stop = model_of(True, 2), stop_table(FEW, [END])
    short = model.beam_search(PROMPTS, 17, 3, 1.0, stop, SOURCES)
    # Padding: other sources and prompts in the batch make for wider buffers.
    wide = model.beam_search([*PROMPTS, [2] * 20], 17, 3, 1.0, stop, [*SOURCES, [1] * 40])
    np.testing.assert_array_equal(short.tokens, wide.tokens[:3])
    np.testing.assert_allclose(short.scores, wide.scores[:3], atol=1e-5)
