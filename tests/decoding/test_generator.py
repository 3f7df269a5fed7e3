"""Requests that cannot be met are rejected with a one-line reason."""

import jax
import numpy as np
import pytest

from tests.decoding.making import PROMPTS, SOURCES, V, generator, random_model
from tests.support.building import ENCODER, ENCODER_DECODER, TINY_ELMO, tiny
from zoo.decoding import Generator, Sampling, stop_table
from zoo.decoding.generator import padded_length
from zoo.errors import ConfigError
from zoo.models.architectures import make_model

SHORT_LEARNED = {"model.position.kind": "learned", "model.position.max_length": 24}
DYNAMIC = {"model.position.kind": "rope", "model.position.scaling.kind": "dynamic", "model.position.scaling.factor": 2.0,
           "model.position.scaling.original_length": 4}  # fmt: skip
LONGROPE = {"model.position.kind": "rope", "model.position.scaling.kind": "longrope", "model.position.scaling.factor": 2.0,
            "model.position.scaling.original_length": 4, "model.attention.head_dim": 4,
            "model.position.scaling.short_factors": (1.0, 1.5), "model.position.scaling.long_factors": (3.0, 8.0)}  # fmt: skip
PARTLY_DYNAMIC = {"model.position.kind": "rope", "model.layers.pattern": ("a", "b"), "model.num_layers": 2,
                "model.layers.kinds.a.position.scaling.kind": "dynamic", "model.layers.kinds.a.position.scaling.factor": 2.0,
                "model.layers.kinds.b.attention.window": 3}  # fmt: skip


def assert_rejected(words, call):
    with pytest.raises(ConfigError, match=words) as error:
        call()
    assert len(error.value.problems) == 1
    assert "\n" not in error.value.problems[0]


@pytest.mark.parametrize(("overrides", "name"), [(ENCODER, "encoder"), (TINY_ELMO, "elmo")])
def test_models_that_cannot_generate_are_rejected(overrides, name):
    assert_rejected(
        f"model.architecture={name} does not continue", lambda: Generator(make_model(tiny(overrides)), {}, {})
    )


@pytest.mark.parametrize(
    "overrides",
    [
        DYNAMIC,
        *(
            pytest.param(fields, marks=pytest.mark.promise(reason="another model is decoded"))
            for fields in (PARTLY_DYNAMIC, ENCODER_DECODER | DYNAMIC)
        ),
    ],
    ids=str,
)
def test_dynamic_rope_scaling_cannot_be_cached(overrides):
    model, sources = generator(overrides), [SOURCES[0]] if "model.architecture" in overrides else None
    assert_rejected(
        "scaling.kind=dynamic rotates all keys anew as .* --no-cache",
        lambda: model.generate([[1, 2]], 3, sources=sources),
    )
    assert_rejected("scaling.kind=dynamic", lambda: model.beam_search([[1, 2]], 3, sources=sources))
    assert model.generate([[1, 2]], 3, sources=sources, cache=False).tokens.shape == (1, 3)
    assert_rejected(
        "follows the longest row",
        lambda: model.generate([[1, 2], [1]], 3, sources=sources and sources * 2, cache=False),
    )


def test_longrope_is_cached_on_either_side_of_its_length():
    model = generator(LONGROPE)
    assert_rejected(
        "longrope rotates all keys anew where a text grows past 4 tokens.* at most 2 new ones.* --no-cache",
        lambda: model.generate([[1, 2]], 3),
    )
    for prompt, length in (([1, 2], 2), ([1, 2, 3, 4, 5], 3)):
        cached, read_again = (model.generate([prompt], length, cache=cache).tokens for cache in (True, False))
        np.testing.assert_array_equal(cached, read_again)
    assert_rejected("give one prompt at a time", lambda: model.generate([[1, 2], [1]], 3, cache=False))
    assert_rejected("follows the longest row", lambda: model.generate([[1], [1, 2, 3, 4, 5]], 3))


def test_an_encoder_with_dynamic_rope_needs_sources_of_equal_length():
    model = generator(
        ENCODER_DECODER | {"model.encoder." + path.removeprefix("model."): value for path, value in DYNAMIC.items()}
    )
    assert model.generate([[1], [2]], 3, sources=[[1, 2], [3, 4]]).tokens.shape == (2, 3)
    assert_rejected("one source at a time", lambda: model.generate([[1], [2]], 3, sources=[[1, 2], [3]]))


def test_learned_positions_limit_the_length():
    model = generator(SHORT_LEARNED)
    # The last token is never read, so it needs no position.
    assert (model.generate([[1] * 20], 5).lengths == 5).all()
    assert_rejected(
        "learned positions end at 24: after a prompt of 20 tokens at most 5 new ones fit",
        lambda: model.generate([[1] * 20], 6),
    )
    assert_rejected("learned positions end at 24: after a prompt of 20", lambda: model.beam_search([[1] * 20, [1]], 6))
    assert_rejected(
        "learned positions end at 24: a prompt of 25 tokens is too long", lambda: model.generate([[1] * 25], 1)
    )
    assert model.generate([[1] * 30], 6, cache=False).tokens.min() >= 0


def test_learned_encoder_positions_limit_the_source():
    model = generator(ENCODER_DECODER | {"model.encoder.position.kind": "learned", "model.encoder.position.max_length": 9,
                                         "model.position.kind": "rope"})  # fmt: skip
    assert model.generate([[1]], 40, sources=[[1] * 9]).tokens.min() >= 0
    assert_rejected(
        "learned positions end at 9: a source of 10 tokens", lambda: model.generate([[1]], 2, sources=[[1] * 10])
    )


@pytest.mark.parametrize(("words", "request_"), [
    ("max_new_tokens=0", {"max_new_tokens": 0}),
    ("there is no prompt", {"prompts": []}),
    ("prompt 1 has no token", {"prompts": [[1], []]}),
    (f"token id outside 0 .. {V - 1}", {"prompts": [[V]]}),
    ("token id outside", {"prompts": [[-1]]}),
    ("vocab_size=0", {"vocab_size": 0}),
    ("vocab_size=14", {"vocab_size": 14}),
    ("table of stops is for 5 token ids, and 13", {"stop": stop_table(5)}),
    ("a decoder reads no sources", {"sources": SOURCES}),
], ids=str)  # fmt: skip
def test_bad_requests(words, request_):
    request = {"prompts": PROMPTS, "max_new_tokens": 3} | request_
    assert_rejected(words, lambda: generator().generate(**request))
    assert_rejected(words, lambda: generator().beam_search(**request))


def test_bad_requests_of_one_method():
    assert_rejected("temperature=-1", lambda: generator().generate(PROMPTS, 3, Sampling(temperature=-1)))
    assert_rejected("beams=0", lambda: generator().beam_search(PROMPTS, 3, 0))
    assert_rejected("length_penalty=nan", lambda: generator().beam_search(PROMPTS, 3, 2, float("nan")))
    both = generator(ENCODER_DECODER)
    assert_rejected("needs sources", lambda: both.generate(PROMPTS, 3))
    assert_rejected("3 prompts and 2 sources", lambda: both.generate(PROMPTS, 3, sources=SOURCES[:2]))


def test_padded_lengths():
    assert [padded_length(n) for n in (1, 16, 17, 32, 33, 1000)] == [16, 16, 32, 32, 64, 1024]
    assert [padded_length(n, 24) for n in (1, 17, 24)] == [16, 24, 24]
    assert padded_length(3, 5) == 5


def test_generation_does_not_modify_the_parameters():
    model, params, stats = random_model()
    before = {name: np.asarray(value) for name, value in params["stack"]["layers"]["attention_norm"].items()}
    Generator(model, params, stats).generate(PROMPTS, 3)
    for name, value in before.items():
        np.testing.assert_array_equal(params["stack"]["layers"]["attention_norm"][name], value)


def test_requests_that_exceed_the_memory(monkeypatch):
    one = generator({"model.position.kind": "rope"})
    for max_new_tokens in (2**24 + 1, 10**12):
        with pytest.raises(ConfigError, match=f"max_new_tokens={max_new_tokens} must be at most 16777216"):
            one.generate(PROMPTS, max_new_tokens)

    def out_of_memory(*arguments, **keywords):
        raise jax.errors.JaxRuntimeError(f"{reason}: Out of memory allocating 9 bytes.")

    monkeypatch.setattr("zoo.decoding.generator.prefill", out_of_memory)
    reason = "RESOURCE_EXHAUSTED"
    with pytest.raises(
        ConfigError, match="the device's memory does not hold 3 texts of 1024 tokens; ask for fewer new tokens"
    ):
        one.generate(PROMPTS, 1000)
    with pytest.raises(ConfigError, match="does not hold 12 texts of 1024 tokens"):
        one.beam_search(PROMPTS, 1000, 4)
    reason = "INTERNAL"
    with pytest.raises(jax.errors.JaxRuntimeError):
        one.generate(PROMPTS, 1000)
