"""The sampling loop: batching, stop tokens, random keys, and which requests share a compiled
program.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.decoding.making import PROMPTS, SOURCES, V, generator, padded_rows, random_model
from tests.support.building import ENCODER_DECODER, compiled, counting, programs_inside, with_values
from zoo.decoding import Sampling, decode_loop, stop_table
from zoo.decoding.decode_step import IncrementalDecoder, unstack_layers
from zoo.decoding.generator import Generator
from zoo.decoding.stop_strings import StoppingCriteria
from zoo.models.functional import split

HIGH_TEMPERATURE = Sampling(temperature=1.5)
WINDOWED = {
    "model.num_layers": 2,
    "model.position.kind": "rope",
    "model.attention.window": 3,
    "model.attention.num_kv_heads": 2,
}
KINDS = [{}, WINDOWED, {"model.attention.kind": "performer"}, ENCODER_DECODER]


def sources_for(overrides):
    return SOURCES if overrides == ENCODER_DECODER else None


@pytest.mark.parametrize(
    "overrides",
    [
        *KINDS[:2],
        *(pytest.param(kind, marks=pytest.mark.promise(reason="another model is decoded")) for kind in KINDS[2:]),
    ],
    ids=str,
)
def test_batched_prompts_generate_what_each_generates_alone(overrides):
    model = generator(overrides)
    batched = model.generate(PROMPTS, 12, sources=sources_for(overrides))
    assert len({tuple(row) for row in batched.tokens.tolist()}) > 1
    for row, prompt in enumerate(PROMPTS):
        # The batch size is the same, so that both use one program.
        single = model.generate([prompt] * 3, 12, sources=sources_for(overrides) and [SOURCES[row]] * 3)
        np.testing.assert_array_equal(batched.tokens[row], single.tokens[0])


@pytest.mark.parametrize(
    "overrides",
    [
        KINDS[0],
        *(pytest.param(kind, marks=pytest.mark.promise(reason="another model is decoded")) for kind in KINDS[1:]),
    ],
    ids=str,
)
def test_sampling_is_the_same_with_and_without_a_cache(overrides):
    both = [
        generator(overrides)
        .generate(PROMPTS, 12, HIGH_TEMPERATURE, jax.random.key(5), sources=sources_for(overrides), cache=cache)
        .tokens
        for cache in (True, False)
    ]
    np.testing.assert_array_equal(*both)


def reference_greedy(text, new_tokens, span):
    """Greedy decoding, with a full pass over the last `span` tokens for each new token."""
    model, params, stats = random_model()
    text = list(text)

    @compiled
    def scores(tokens):
        module = with_values(model, params, stats)
        return module.logits(module(tokens, counting(16)))[0]

    for _ in range(new_tokens):
        read = text[-span:]
        text.append(int(np.argmax(scores(np.array([read + [0] * (16 - len(read))]))[len(read) - 1])))
    return text[-new_tokens:]


@pytest.mark.parametrize(("prompt", "span"), [(PROMPTS[0], 5), (PROMPTS[1], 5), (PROMPTS[1], 64)])
def test_max_context_limits_generation_without_a_cache(prompt, span):
    found = Generator(*random_model(), max_context=span).generate([prompt] * 3, 6, cache=False)
    assert found.tokens[0].tolist() == reference_greedy(prompt, 6, span)


def test_a_stop_token_ends_only_its_row():
    model = generator()
    free = model.generate(PROMPTS, 14, HIGH_TEMPERATURE, jax.random.key(2)).tokens
    stop = int(free[0, 3])
    ended = model.generate(PROMPTS, 14, HIGH_TEMPERATURE, jax.random.key(2), stop_table(V, [stop]))
    assert len(set(ended.lengths.tolist())) > 1
    for before, after, length in zip(free, ended.tokens, ended.lengths, strict=True):
        places = np.flatnonzero(before == stop)
        assert length == (places[0] + 1 if len(places) else 14)
        np.testing.assert_array_equal(after[:length], before[:length])
        assert (after[length:] == -1).all()


def run_loop(overrides=None, stop=None, limit=40, buffer_size=64):
    """Runs the loop once; returns the tokens, the lengths and the number of steps."""
    model = generator(overrides)
    steps = IncrementalDecoder(model.graph, False, 1, 64, V, True)
    state, scores = decode_loop.prefill(steps, model.weights, padded_rows(PROMPTS))
    tokens, lengths, state = decode_loop.sample(
        steps,
        model.weights,
        state,
        scores,
        StoppingCriteria(stop_table(V) if stop is None else stop, np.int32(limit)),
        None,
        jax.random.key(0),
        buffer_size=buffer_size,
    )
    return np.asarray(tokens), np.asarray(lengths), np.asarray(state.newest) - [len(prompt) - 1 for prompt in PROMPTS]


def test_the_loop_ends_when_all_rows_have_stopped():
    tokens, _, steps = run_loop()
    assert (steps == 39).all()
    assert (tokens[:, :40] >= 0).all()
    assert (tokens[:, 40:] == -1).all()
    _, lengths, steps = run_loop(stop=stop_table(V, range(V)))
    assert (lengths == 1).all()
    assert (steps == 0).all()


def test_sampling_is_determined_by_the_key():
    model = generator()
    one, again, other = (
        model.generate(PROMPTS, 12, HIGH_TEMPERATURE, jax.random.key(seed)).tokens for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).any(axis=1).all()
    same_prompts = model.generate([PROMPTS[0]] * 3, 12, HIGH_TEMPERATURE, jax.random.key(1)).tokens
    np.testing.assert_array_equal(same_prompts[0], one[0])
    assert (same_prompts[0] != same_prompts[1]).any()


def test_each_step_has_its_own_key():
    """Uniform scores must not repeat one token."""
    model, params, stats = random_model()
    flat = Generator(model, jax.tree.map(jnp.zeros_like, params), stats)
    assert len(set(flat.generate([[1]] * 3, 12, HIGH_TEMPERATURE).tokens[0].tolist())) > 5


def test_low_temperature_small_top_k_or_small_top_p_is_greedy():
    model = generator()
    expected = model.generate(PROMPTS, 12).tokens
    for drawing in (
        Sampling(temperature=1e-4),
        Sampling(top_k=1),
        Sampling(top_p=1e-6),
        Sampling(temperature=0.0, top_k=5),
    ):
        np.testing.assert_array_equal(model.generate(PROMPTS, 12, drawing).tokens, expected)


def test_vocab_size_limits_the_sampled_ids():
    model = generator()
    assert model.generate(PROMPTS, 16, HIGH_TEMPERATURE).tokens.max() >= 4
    few = model.generate(PROMPTS, 16, HIGH_TEMPERATURE, vocab_size=4).tokens
    assert few.max() < 4


def test_a_shorter_generation_is_a_prefix_of_a_longer_one():
    model = generator()
    np.testing.assert_array_equal(
        model.generate(PROMPTS, 1, HIGH_TEMPERATURE).tokens, model.generate(PROMPTS, 7, HIGH_TEMPERATURE).tokens[:, :1]
    )


def test_varied_requests_share_compiled_programs():
    programs = decode_loop.prefill, decode_loop.sample
    model, sizes = generator(WINDOWED), [program._cache_size() for program in programs]
    for number in range(1, 30):
        prompt = [number % V] * (1 + number % 16)
        model.generate([prompt] * 2, 1 + number % 16, Sampling(0.1 * number, number % 5, 1 / number), jax.random.key(number),
                       stop_table(V, [number % V]))  # fmt: skip
    # Prompts and answers of at most 16 tokens fit into 16 or 32 slots.
    for program, size in zip(programs, sizes, strict=True):
        assert program._cache_size() - size <= 2


def test_decoding_is_one_loop_on_the_device():
    model = generator()
    steps = IncrementalDecoder(model.graph, False, 1, 64, V, True)
    state, scores = decode_loop.prefill.eval_shape(steps, model.weights, padded_rows(PROMPTS))
    jaxpr = jax.make_jaxpr(
        lambda state, scores: decode_loop.sample.__wrapped__(
            steps,
            model.weights,
            state,
            scores,
            StoppingCriteria(jnp.asarray(stop_table(V)), np.int32(9)),
            None,
            jax.random.key(0),
            buffer_size=16,
        )
    )(state, scores)

    def names(program):
        for equation in program.eqns:
            yield equation.primitive.name
            for inside in programs_inside(equation):
                yield from names(inside)

    found = list(names(jaxpr.jaxpr))
    assert found.count("while") == 1
    assert not any("callback" in name for name in found)


@pytest.mark.parametrize(
    ("overrides", "slots", "heads"),
    [({}, 64, 4), ({"model.attention.num_kv_heads": 1}, 64, 1), (WINDOWED, 3, 2)],
    ids=str,
)
def test_cache_shapes(overrides, slots, heads):
    model = generator(overrides | {"model.num_layers": 2})
    state, _ = decode_loop.prefill.eval_shape(
        IncrementalDecoder(model.graph, False, 2, 64, V, True), model.weights, padded_rows(PROMPTS)
    )
    assert [x.shape for x in jax.tree.leaves(state.layers)] == [(3 * heads, slots, 4)] * 4


def test_the_performer_cache_has_constant_size():
    model = generator({"model.attention.kind": "performer"})
    shapes = [
        jax.tree.map(
            jnp.shape,
            decode_loop.prefill.eval_shape(
                IncrementalDecoder(model.graph, False, 1, slots, V, True), model.weights, padded_rows(PROMPTS)
            )[0].layers,
        )
        for slots in (16, 1024)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize(
    "overrides", [{"model.head.transform": True}, {"model.tie_embeddings": True}, ENCODER_DECODER], ids=str
)
def test_casting_weights_to_the_compute_dtype_changes_nothing(overrides):
    model, params, stats = random_model(overrides | {"model.dtype": "bfloat16"})
    cast, kept = (unstack_layers(params, stats, dtype) for dtype in ("bfloat16", "float32"))
    sizes = [sum(x.nbytes for x in jax.tree.leaves(weights.params)) for weights in (cast, kept)]
    assert sizes[0] < 0.7 * sizes[1]
    steps = IncrementalDecoder(split(model)[0], overrides == ENCODER_DECODER, 1, 32, V, True)
    one, other = (
        decode_loop.prefill(
            steps, weights, padded_rows(PROMPTS), padded_rows(SOURCES) if overrides == ENCODER_DECODER else None
        )[1]
        for weights in (cast, kept)
    )
    np.testing.assert_array_equal(one, other)
