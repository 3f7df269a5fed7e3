"""Log-probabilities of continuations against those of the whole text, read at once."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.support.small_runs import OBJECTIVES, small
from tests.support.untrained import untrained
from zoo.decoding.sampling import Sampling
from zoo.errors import ConfigError
from zoo.harness.scoring import Continuation, ContinuationScorer, rows_of
from zoo.harness.text_requests import TextRequests, windows
from zoo.layers.context import Context
from zoo.models.functional import split
from zoo.training.trained_run import load_trained

BOS = 256
CONTEXT = (BOS, *b"a bear so cute")
PROGRAMS = {}
ENDS = (b" was", b" is", b" i", b"!", b" that slept")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Returns a function that gives an untrained byte-level run for given settings, made once."""
    runs = {}

    def of(**settings):
        key = repr(settings)
        if key not in runs:
            config = small(data__sequence_length=32, **settings)
            runs[key] = load_trained(untrained(tmp_path_factory.mktemp("run"), config))
        return runs[key]

    return of


def requests_of(*ends, context=CONTEXT, source=()):
    return [Continuation(context, tuple(end), source) for end in ends]


def log_probabilities(run, request):
    """Returns log p of all ids after each token that the decoder reads, without a cache."""
    # What follows changes nothing, so most requests have one program.
    scaled = run.config.model.position.scaling.kind == "dynamic"
    read = jnp.array([[*request.read, *[0] * (0 if scaled else 24 - len(request.read))]], jnp.int32)
    config, positions = run.config, jnp.arange(read.shape[1])[None]

    def scores(model, read):
        if config.model.architecture == "encoder_decoder":
            source = jnp.array([request.source], jnp.int32)
            sides = (
                Context(jnp.arange(source.shape[1])[None], causal=False, in_order=True),
                Context(positions, in_order=True),
            )
            return model.logits(model(source, read, *sides), sides[1])
        prefix = len(request.context) if config.objective.kind == "prefix" else 0
        context = Context(positions, causal=True, in_order=True, prefix=prefix)
        return model.logits(model(read, context), context)

    graph, arguments = split(run.model)[0], (run.params, run.stats, read)
    key = run.config.objective.kind, len(request.context), read.shape
    if key not in PROGRAMS:
        PROGRAMS[key] = jax.jit(lambda params, stats, read: scores(nnx.merge(graph, params, stats), read))
    found = PROGRAMS[key](*arguments)
    return np.asarray(jax.nn.log_softmax(found[0].astype(jnp.float32)))[: len(request.read)]


def agrees(run, requests, scores, tolerance=2e-5):
    for request, score in zip(requests, scores, strict=True):
        tokens = np.array(request.tokens)
        found = log_probabilities(run, request)[len(request.context) - 1 :]
        expected = found[np.arange(len(tokens)), tokens].sum()
        np.testing.assert_allclose(score.log_probability, expected, rtol=tolerance)
        assert score.greedy == bool((found.argmax(axis=-1) == tokens).all())


@pytest.mark.parametrize("shared", [True, False])
def test_continuations_of_a_decoder(run, shared):
    of = run()
    scorer = ContinuationScorer(of, rows=4, share_contexts=shared)
    requests = requests_of(*ENDS) + requests_of(b"xy", context=(BOS,)) + requests_of(ENDS[0])
    best = int(log_probabilities(of, requests[0])[len(CONTEXT) - 1].argmax())
    requests += requests_of((best,))
    scores = scorer.score(requests)
    agrees(of, requests, scores)
    assert scores[0] == scores[6]
    assert scores[-1].greedy


@pytest.mark.parametrize(
    "kind",
    [
        "prefix decoder",
        pytest.param("prefix", marks=pytest.mark.promise(reason="the same with what an encoder has read")),
    ],
)
def test_prefixes_are_read_as_in_training(run, kind):
    of = run(**OBJECTIVES[kind])
    source = CONTEXT if kind == "prefix" else ()
    requests = requests_of(*ENDS[:3], context=CONTEXT[-1:] if source else CONTEXT, source=source)
    agrees(of, requests, ContinuationScorer(of).score(requests))


def test_rows_hold_the_requests_whose_tokens_they_begin_with():
    one, other = requests_of(b"abc", b"abd")
    begins, choice = requests_of(b"a", b"x")
    elsewhere = Continuation((BOS, 1), (2,))
    rows = rows_of([begins, one, elsewhere, choice, other])
    assert sorted(map(len, rows)) == [1, 4]
    # "abc" and "abd" differ in the last token alone, which is not read.
    assert {frozenset(row) for row in rows} == {frozenset([one, other, begins, choice]), frozenset([elsewhere])}


def test_contexts_are_shared_where_that_takes_less_time(run):
    scorer = ContinuationScorer(run())
    long, short = requests_of(b"ab", b"cd", b"ef", context=(1,) * 32), requests_of(b"abcdefgh", b"cdefghij")
    assert scorer._divided(long) == ([long], [])
    assert scorer._divided(short)[0] == []
    one_token = requests_of(b"a", b"b", context=(1,) * 32)
    assert scorer._divided(one_token) == ([], rows_of(one_token))


@pytest.mark.promise(reason="compiles a program for each length")
def test_angles_that_follow_the_length_are_computed_for_each_row(run):
    of = run(
        model__position__kind="rope",
        model__position__scaling__kind="dynamic",
        model__position__scaling__factor=2.0,
        model__position__scaling__original_length=8,
    )
    requests = requests_of(b" was", b" w")
    agrees(of, requests, ContinuationScorer(of).score(requests))


def test_windows_score_each_token_once_with_as_much_context_as_fits():
    assert list(windows([9, *range(9)], 4)) == [
        Continuation((9,), (0, 1, 2, 3)),
        Continuation((3,), (4, 5, 6, 7)),
        Continuation((4, 5, 6, 7), (8,)),
    ]
    assert list(windows([9, 1, 2], 4)) == [Continuation((9,), (1, 2))]
    assert not list(windows([9], 4))


def test_texts_of_a_decoder(run):
    of = run()
    texts = TextRequests(of, rows=4)
    assert texts.max_length == 32
    ((value, _),) = texts.loglikelihood([("a bear so cute ", "is")])
    assert texts.encoded("a bear so cute ", "is").tokens == tuple(b" is")
    (same,) = texts.scorer.score(requests_of(b" is"))
    assert value == same.log_probability
    # Without a context, a text follows what opens a document.
    assert texts.encoded("", "ab") == Continuation((BOS,), tuple(b"ab"))
    whole = "a bear so cute slept in a cave, " * 2 + "and so on"
    (rolling,) = texts.loglikelihood_rolling([whole])
    scored = list(windows((BOS, *whole.encode()), 32))
    np.testing.assert_allclose(rolling, sum(one.log_probability for one in texts.scorer.score(scored)), rtol=1e-9)
    assert sum(len(one.tokens) for one in scored) == len(whole)
    # Of a longer text the last tokens are read.
    limited = texts._limited(texts.encoded(whole, "end"))
    assert (len(limited.read), limited.tokens) == (32, tuple(b"end"))


def test_texts_are_generated_up_to_a_string(run):
    of = run()
    texts = TextRequests(of, rows=2)
    arguments = {"until": ["\n\n\n\n"], "max_gen_toks": 6, "do_sample": False, "temperature": 0.0}
    contexts = ["a bear", "two", "a"]
    found = texts.generate_until([(context, arguments) for context in contexts])
    alone = [texts._text.sample([context], 6, Sampling(temperature=0.0), 0)[0].text for context in contexts]
    assert found == alone
    end = found[0][2]
    (cut,) = texts.generate_until([("a bear", arguments | {"until": end})])
    assert cut == found[0][: found[0].index(end)]
    # 256 new tokens leave no room: half of the row is new.
    (long,) = texts.generate_until([("a bear " * 9, {"until": []})])
    assert 1 <= texts._text.tokenizer.encode(long).size <= 16 * 3
    with pytest.raises(ConfigError, match="generation_kwargs: beams"):
        texts.generate_until([("a", {"beams": 2})])


def test_an_import_reads_the_positions_of_its_published_model(run):
    """Not the rows with which it would be trained further."""
    of = run(model__position__kind="rope")
    assert TextRequests(of).max_length == 32
    assert TextRequests(replace(of, trained_length=96.0)).max_length == 96
    assert TextRequests(replace(of, trained_length=math.inf)).max_length == 2048
    assert TextRequests(replace(run(model__position__kind="learned"), trained_length=96.0)).max_length == 32


def test_texts_after_one_context_are_drawn_anew_in_each_batch(run):
    texts = TextRequests(run(), rows=1)
    arguments = {"until": [], "max_gen_toks": 12, "do_sample": True, "temperature": 5.0}
    assert len(set(texts.generate_until([("a bear", arguments)] * 3))) == 3
    with pytest.raises(ConfigError, match="num_beams=4: one text is written for a context, without beams"):
        texts.generate_until([("a", {"num_beams": 4})])
    assert texts.generate_until([("a", {"num_beams": 1, "num_return_sequences": 1, "max_gen_toks": 2})])


def test_texts_are_generated_where_angles_follow_the_length(run):
    """Nothing is cached, and each text is read alone."""
    scaled = {"kind": "rope", "scaling__kind": "dynamic", "scaling__original_length": 8}
    of = run(**{f"model__position__{name}": value for name, value in scaled.items()})
    texts = TextRequests(of, rows=2)
    arguments = {"until": [], "max_gen_toks": 3, "do_sample": False}
    found = texts.generate_until([("a bear so cute", arguments), ("two", arguments)])
    alone = [
        texts._text.sample([context], 3, Sampling(temperature=0.0), 0, cache=False)[0].text
        for context in ("a bear so cute", "two")
    ]
    assert found == alone


def test_runs_that_continue_no_text_are_refused(run):
    for kind, word in (("masked", "architecture=encoder"), ("span", "fills blanks")):
        with pytest.raises(ConfigError, match=word):
            TextRequests(run(**OBJECTIVES[kind]))
    with pytest.raises(ConfigError, match="max_length=40: positions end at 32"):
        TextRequests(run(model__position__kind="learned"), max_length=40)
