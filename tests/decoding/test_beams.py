"""Beam search against an exhaustive search, and against a reference in plain Python."""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding.making import padded_rows, random_model
from tests.support.building import ENCODER_DECODER, by_default, compiled, counting, with_values
from zoo.decoding import Generator, stop_table
from zoo.decoding.generator import padded_length
from zoo.layers.context import Context

VOCAB_SIZE, END = 4, 1
SMALL = {"model.vocab_size": VOCAB_SIZE}
PROMPTS, SOURCES = [[2, 3], [0], [3, 3, 3, 1]], [[1, 2, 3], [3], [0, 2, 2]]
N = 4
OTHER = pytest.mark.promise(reason="the same search in an encoder-decoder")


@functools.cache
def model_of(has_encoder, seed):
    return Generator(*random_model(SMALL | (ENCODER_DECODER if has_encoder else {}), seed))


@functools.cache
def scoring_program(has_encoder):
    """Returns a function (parameters, texts [M, T], index of the source) -> logits [M, T, V]."""
    model, _, stats = random_model(SMALL | (ENCODER_DECODER if has_encoder else {}))
    sources = padded_rows(SOURCES, 4)

    @compiled
    def scores(params, tokens, row):
        module, context = with_values(model, params, stats), counting(tokens.shape[1])
        if not has_encoder:
            return module.logits(module(tokens, context))
        source, positions = (jnp.broadcast_to(x[row], (len(tokens), 4)) for x in (sources.tokens, sources.positions))
        return module.logits(module(source, tokens, Context(positions, causal=False), context))

    return scores


def log_probabilities(has_encoder, seed):
    """Returns a function (index of a prompt, new tokens [M, n]) -> their log-probabilities [M, n]."""
    params = random_model(SMALL | (ENCODER_DECODER if has_encoder else {}), seed)[1]

    def evaluate(row, new):
        prompt = PROMPTS[row]
        text = np.concatenate([np.tile(prompt, (len(new), 1)), new], axis=1)
        # Every call has the same shape, so that few programs are compiled.
        padded = np.zeros((VOCAB_SIZE**N, 16), np.int32)
        padded[: len(new), : text.shape[1]] = text
        found = np.asarray(scoring_program(has_encoder)(params, padded, row), np.float64)[: len(new)]
        found = found - np.log(np.exp(found).sum(axis=-1, keepdims=True))
        places = len(prompt) - 1 + np.arange(new.shape[1])
        return np.take_along_axis(found[:, places], np.asarray(new)[..., None], axis=2)[..., 0]

    return evaluate


def all_texts(has_encoder, seed, row, alpha):
    """Returns {text: score} for every text that ends with END or has N tokens."""
    every = np.array(list(itertools.product(range(VOCAB_SIZE), repeat=N)))
    each = log_probabilities(has_encoder, seed)(row, every)
    found = {}
    for text, values in zip(every.tolist(), each, strict=True):
        length = text.index(END) + 1 if END in text else N
        found[tuple(text[:length])] = values[:length].sum() / length**alpha
    return found


def texts_and_scores(found, row):
    """Returns [(text, score)] in the order of the beams, without empty beams."""
    return [
        (tuple(found.tokens[row, beam, : found.lengths[row, beam]].tolist()), found.scores[row, beam])
        for beam in range(found.scores.shape[1])
        if np.isfinite(found.scores[row, beam])
    ]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 2.5, -1.0])
@pytest.mark.parametrize("has_encoder", [False, pytest.param(True, marks=OTHER)])
def test_wide_beam_search_is_exhaustive(has_encoder, alpha):
    found = model_of(has_encoder, 1).beam_search(
        PROMPTS, N, VOCAB_SIZE**N, alpha, stop_table(VOCAB_SIZE, [END]), SOURCES if has_encoder else None
    )
    assert (found.tokens[np.arange(N) >= found.lengths[..., None]] == -1).all()
    for row in range(len(PROMPTS)):
        expected = all_texts(has_encoder, 1, row, alpha)
        actual = texts_and_scores(found, row)
        assert len(actual) == len(expected) == sum(3**n for n in range(N)) + 3**N
        for text, score in actual:
            assert score == pytest.approx(expected[text], rel=1e-5, abs=1e-5)
        assert [score for _, score in actual] == sorted((score for _, score in actual), reverse=True)
        best, second = sorted(expected.values())[:-3:-1]
        assert best - second > 1e-4
        assert expected[actual[0][0]] == best


def reference_search(has_encoder, seed, row, beams, alpha, longest=N):
    """Beam search in plain loops, without early stopping."""
    evaluate = log_probabilities(has_encoder, seed)
    unfinished, finished = [((), 0.0)], []
    for length in range(1, longest + 1):
        new = np.array([[*text, token] for text, _ in unfinished for token in range(VOCAB_SIZE)])
        totals = evaluate(row, new).sum(axis=1)
        ranked = sorted(zip(map(tuple, new.tolist()), totals, strict=True), key=lambda pair: -pair[1])
        newly_finished = [pair for pair in ranked[:beams] if pair[0][-1] == END or length == longest]
        finished = sorted(
            finished + [(text, total / length**alpha) for text, total in newly_finished], key=lambda pair: -pair[1]
        )[:beams]
        unfinished = [pair for pair in ranked if pair[0][-1] != END][:beams]
    return finished


@pytest.mark.parametrize("has_encoder", [False, pytest.param(True, marks=OTHER)])
@pytest.mark.parametrize(
    ("beams", "alpha", "cache"),
    by_default(
        [(2, 2.0, True)],
        [(2, 0.0, True), (2, 2.0, True), (3, 1.0, True), (3, -0.7, True), (3, 1.0, False)],
        pytest.mark.promise(reason="other numbers of beams and length penalties"),
    ),
)
def test_narrow_beam_search_matches_a_reference(has_encoder, beams, alpha, cache):
    for seed in (1, 2, 3):
        found = model_of(has_encoder, seed).beam_search(
            PROMPTS, N, beams, alpha, stop_table(VOCAB_SIZE, [END]), SOURCES if has_encoder else None, cache=cache
        )
        for row in range(len(PROMPTS)):
            expected, actual = reference_search(has_encoder, seed, row, beams, alpha), texts_and_scores(found, row)
            assert [text for text, _ in actual] == [text for text, _ in expected]
            np.testing.assert_allclose(
                [score for _, score in actual], [score for _, score in expected], rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize("alpha", [1.0, -1.0])
def test_the_search_ends_where_no_longer_text_can_win(alpha):
    longest = 12
    found = model_of(False, 3).beam_search(PROMPTS, longest, 3, alpha, stop_table(VOCAB_SIZE, [END]))
    for row in range(len(PROMPTS)):
        expected = reference_search(False, 3, row, 3, alpha, longest)
        assert [text for text, _ in texts_and_scores(found, row)] == [text for text, _ in expected]


def test_one_beam_without_stops_is_greedy_decoding():
    model = model_of(False, 1)
    found = model.beam_search(PROMPTS, 20, 1)
    greedy = model.generate(PROMPTS, 20)
    np.testing.assert_array_equal(found.tokens[:, 0], greedy.tokens)
    assert (found.lengths == 20).all()


@pytest.mark.parametrize("overrides", [
    pytest.param({"model.attention.kind": "performer"}, marks=pytest.mark.promise(reason="another cache")),
    {"model.num_layers": 2, "model.layers.pattern": ("state", "full"), "model.position.kind": "none",
     "model.layers.kinds.state.attention.kind": "gated_delta", "model.layers.kinds.full.position.kind": "rope"},
    {"model.attention.num_kv_heads": 1, "model.position.kind": "rope", "model.attention.window": 3},
    {"model.ffn.kind": "moe", "model.ffn.experts.number": 4, "model.position.kind": "rope"},
], ids=str)  # fmt: skip
def test_beam_search_reorders_the_cache(overrides):
    """With one prompt and one key head, the cache of the prompt has another shape than the cache of
    its hypotheses.
    """
    model = Generator(*random_model(SMALL | overrides))
    found, again = (
        model.beam_search(PROMPTS[:1], 12, 3, 1.0, stop_table(VOCAB_SIZE, [END]), cache=cache)
        for cache in (True, False)
    )
    np.testing.assert_array_equal(found.tokens, again.tokens)
    np.testing.assert_allclose(found.scores, again.scores, rtol=1e-5)


def test_a_stop_string_may_end_within_a_token():
    pieces = [b"a", b"b", b"ab", b"c"]
    stop = stop_table(VOCAB_SIZE, [], ["ba"], pieces)
    found = model_of(False, 1).beam_search(PROMPTS, N, VOCAB_SIZE**N, 0.0, stop)
    for row in range(len(PROMPTS)):
        for text, _ in texts_and_scores(found, row):
            prefixes = [b"".join(pieces[token] for token in text[:n]) for n in range(len(text) + 1)]
            assert not any(b"ba" in part for part in prefixes[:-1])
            assert b"ba" in prefixes[-1] or len(text) == N


@pytest.mark.promise(reason="a second search of an encoder-decoder is compiled")
def test_buffer_sizes_do_not_change_beam_search():
    assert (padded_length(N), padded_length(17)) == (16, 32)
    model, stop = model_of(True, 2), stop_table(VOCAB_SIZE, [END])
    short = model.beam_search(PROMPTS, 17, 3, 1.0, stop, SOURCES)
    # A longer prompt and a longer source in the batch widen the buffers.
    wide = model.beam_search([*PROMPTS, [2] * 20], 17, 3, 1.0, stop, [*SOURCES, [1] * 40])
    np.testing.assert_array_equal(short.tokens, wide.tokens[:3])
    np.testing.assert_allclose(short.scores, wide.scores[:3], atol=1e-5)
