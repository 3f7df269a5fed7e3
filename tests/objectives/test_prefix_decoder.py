"""Prefix language modelling by a decoder: what is seen, what is scored, what is refused, and what
it writes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.objectives.making import OTHER, TOKEN_BYTES, Made, surprisal
from tests.support.building import by_default, call, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo import config as configs
from zoo.data.tokenizers.byte_tokenizers import ByteTokenizer
from zoo.decoding import Sampling
from zoo.decoding.generator import Generator
from zoo.decoding.text_generator import TextGenerator
from zoo.errors import ConfigError
from zoo.interop.config_export import export_config
from zoo.layers.context import Context
from zoo.models import cost
from zoo.models.architectures import make_model

PREFIX = {"objective.kind": "prefix", "objective.prefix_length": 3, "model.num_layers": 1}
ROWS = np.array(
    [
        [9, 1, 2, 3, 9, 5, 6, 0, 4],
        [4, 5, 8, 1, 2, 3, 4, 5, 6],
        [2, 9, 9, 3, 7, -1, -1, -1, -1],
        [2, 3] + [-1] * 7,
        [-1] * 9,
    ]
)


def expected(made, rows, prefix=3):
    """Surprisal of what comes after the prefix, row by row, padding taken away; and the sum of
    squared normalisers.
    """
    total, squares = 0.0, 0.0
    for row in rows:
        row = row[row >= 0]
        if len(row) > prefix:
            logits = reference.logits(made.config.model, made.exact, row[:-1], np.arange(len(row) - 1), prefix=prefix)[
                prefix - 1 :
            ]
            total += surprisal(logits, row[prefix:]).sum()
            squares += (np.log(np.exp(logits).sum(axis=-1)) ** 2).sum()
    return total, squares


@pytest.mark.parametrize("overrides", [
    {}, *(pytest.param(changes, marks=OTHER) for changes in (
        {"objective.chunk_tokens": 4, "model.position.kind": "alibi"}, {"model.position.kind": "rope", "model.norm.kind": "rmsnorm"},
        {"model.position.kind": "shaw", "model.num_layers": 2}, {"model.attention.implementation": "xla"}, {"model.attention.implementation": "einsum"})),
], ids=["plain", "alibi, chunked", "rope", "shaw", "xla", "einsum"])  # fmt: skip
def test_the_loss_is_the_reference_s(overrides):
    made = Made(PREFIX | overrides)
    loss, sums = made.sums(ROWS)
    compared(loss, expected(made, ROWS)[0], config=made.config, parts="objective")
    assert loss == sums["loss"]
    assert sums["weight"] == 6 + 6 + 2
    assert sums["bytes"] == TOKEN_BYTES[np.concatenate([ROWS[:2, 3:].ravel(), ROWS[2, 3:5]])].sum()
    assert sums["tokens"] == 8 + 8 + 4 + 1


@pytest.mark.parametrize("prefix", [1, pytest.param(7, marks=OTHER)])
def test_loss_matches_the_reference_for_any_prefix_length(prefix):
    made = Made(PREFIX | {"objective.prefix_length": prefix})
    loss, sums = made.sums(ROWS[:2])
    np.testing.assert_allclose(loss, expected(made, ROWS[:2], prefix)[0], rtol=1e-5)
    assert sums["weight"] == 2 * (9 - prefix)


def test_a_prefix_of_one_token_equals_the_causal_objective():
    causal = Made({"model.num_layers": 1})
    loss = Made(PREFIX | {"objective.prefix_length": 1}).sums(ROWS[:2])[0]
    np.testing.assert_allclose(loss, causal.sums(ROWS[:2])[0], rtol=1e-6)


def test_training_scores_the_same_and_adds_the_z_loss():
    made = Made(PREFIX | {"objective.z_loss": 0.1})
    total, squares = expected(made, ROWS[:2])
    loss, sums = made.sums(ROWS[:2], training=True)
    np.testing.assert_allclose(sums["loss"], total, rtol=1e-5)
    np.testing.assert_allclose(loss, total + 0.1 * squares, rtol=1e-5)


@pytest.mark.parametrize(
    "kernel",
    by_default(["rows"], ["rows", "einsum", "xla"], pytest.mark.promise(reason="the same mask in another kernel")),
)
def test_which_tokens_a_target_depends_on(kernel):
    """By gradients through a model of one layer: of each target, which inputs' vectors matter."""
    made = Made(
        PREFIX | {"model.attention.implementation": kernel, "model.vocab_size": 30, "model.tie_embeddings": False}
    )
    row = np.arange(9)[None]

    def states(embedding):
        model = with_values(made.model, made.values | {"embedding": embedding})
        context = Context(jnp.arange(8)[None], in_order=True, prefix=3)
        return model(jnp.asarray(row[:, :-1]), context)[0] @ jnp.arange(1.0, 17.0)

    found = (np.abs(call(jax.jacrev(states), made.values["embedding"])) > 0).any(axis=2)[:, :9]
    for query in range(8):
        assert np.flatnonzero(found[query]).tolist() == list(range(max(query + 1, 3)))

    # And in the loss: the row's last token is told to nobody, the tokens of the prefix are scored
    # nowhere.
    def loss(values):
        return made.objective.sums(made.graph, values, {}, {"tokens": jnp.asarray(row)}, made.constants)[0]["loss"]

    gradient = call(jax.grad(loss), made.values)["embedding"]
    assert (np.abs(gradient).max(axis=1)[:8] > 0).all()
    assert (gradient[8:] == 0).all()


REFUSED = {
    "model.attention.window": ({"model.attention.window": 3}, r"a decoder cannot combine that with model\.attention\.window=3"),
    "a kind's window": ({"model.layers.pattern": ("a", "b"), "model.num_layers": 2, "model.layers.kinds.a.attention.window": 3,
                         "model.layers.kinds.b.attention.window": 0}, r"model\.layers\.kinds\.a: .*model\.attention\.window=3"),
    "relative_bias": ({"model.position.kind": "relative_bias"}, "has no buckets in a decoder"),
    "performer": ({"model.attention.kind": "performer"}, r"performer cannot be combined with objective\.kind=prefix"),
    "documents": ({"data.isolate_documents": True}, "reads a row as one text"),
    "length": ({"objective.prefix_length": 8}, "leaves nothing of data.sequence_length=8 to predict"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_configs_are_refused(name):
    changes, line = REFUSED[name]
    with pytest.raises(ConfigError, match=line):
        tiny(PREFIX | changes)


def test_lengths_that_cannot_be_evaluated_are_reported():
    made = Made(PREFIX | {"model.position.max_length": 10})
    assert made.why_too_long(3) == "objective.prefix_length=3 leaves nothing of it to predict"
    assert made.why_too_long(10) is None
    assert made.why_too_long(11) == "learned positions end at 10"


def test_no_other_library_s_decoder_sees_a_prompt_as_a_whole():
    causal, prefix = (
        tiny({"objective.kind": kind, "model.head.bias": False, "model.ffn.gelu_approximation": "tanh"})
        for kind in ("causal", "prefix")
    )
    assert not export_config("GPT2LMHeadModel", causal).problems
    assert export_config("GPT2LMHeadModel", prefix).problems == (
        "objective.kind='prefix': its decoder would not see the prompt as a whole",
    )


def test_attention_s_cost_counts_the_keys_of_the_prefix():
    for length, prefix in ((7, 0), (7, 1), (7, 3), (7, 7)):
        seen = [max(t + 1, prefix) for t in range(length)]
        assert cost.mean_visible_keys(length, 0, prefix=prefix) == pytest.approx(np.mean(seen))


# What it writes


BYTES = {
    "data.tokenizer.kind": "bytes",
    "model.vocab_size": 257,
    "model.position.kind": "rope",
    "model.tie_embeddings": False,
}


def test_a_prompt_is_read_as_a_whole_and_the_rest_token_by_token():
    config = tiny(BYTES | PREFIX | {"model.num_layers": 2})
    model = make_model(config)
    values = random_values(model, 3)
    generator = TextGenerator(config, ByteTokenizer(), model, values, {})
    prompts = ["abcd", "a longer prompt"]
    answers = generator.sample(prompts, 5, Sampling(temperature=0.0), 0)

    def argmax_token(tokens, prefix):
        """One token after another, everything read again, by the whole model."""
        tokens = list(tokens)
        for _ in range(5):
            logits = reference.logits(
                config.model,
                jax.tree.map(lambda x: np.asarray(x, np.float64), values),
                np.array(tokens),
                np.arange(len(tokens)),
                prefix=prefix,
            )
            tokens.append(int(logits[-1].argmax()))
        return tokens[-5:]

    for prompt, answer in zip(prompts, answers, strict=True):
        tokens = [256, *prompt.encode()]
        expected = argmax_token(tokens, len(tokens))
        assert answer.text == ByteTokenizer().decode(expected[: answer.tokens - answer.stopped])
    # Read in order, the first prompt would go on otherwise.
    tokens = [256, *prompts[0].encode()]
    made = Generator(model, values, {}).generate([tokens], 5)
    assert made.tokens[0].tolist() == argmax_token(tokens, 0) != argmax_token(tokens, len(tokens))
    with pytest.raises(ConfigError, match=r"cannot generate without a cache"):
        generator.sample(["ab"], 3, Sampling(temperature=0.0), 0, cache=False)


def test_a_decoder_is_trained_by_either():
    for kind in ("causal", "prefix"):
        assert configs.resolve(configs.override(configs.default(), {"objective.kind": kind})).objective.kind == kind
    with pytest.raises(ConfigError, match=r"decoder is trained by objective\.kind=causal or multi_token or prefix"):
        configs.resolve(configs.override(configs.default(), {"objective.kind": "span"}))
