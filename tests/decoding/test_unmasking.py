"""Text from masked diffusion: the distribution of what is drawn, and what is refused."""

import jax
import numpy as np
import pytest

from tests.support.building import call, random_values, tiny, with_values
from tests.support.small_runs import OBJECTIVES, small
from tests.support.untrained import untrained
from zoo.cli import main
from zoo.decoding.sampling import Sampling
from zoo.decoding.unmasking import UnmaskingGenerator
from zoo.errors import ConfigError
from zoo.layers.context import Context
from zoo.models.architectures import make_model

ENCODER = {
    "model.architecture": "encoder",
    "objective.kind": "masked_diffusion",
    "model.vocab_size": 6,
    "model.num_layers": 1,
}
MASK, ALLOWED = 5, np.array([1, 1, 1, 0, 0], bool)
# Random weights are sure of one token otherwise.
TEMPERATURE = 4.0
FULL = Sampling(temperature=TEMPERATURE)


@pytest.fixture(scope="module")
def model():
    abstract = make_model(tiny(ENCODER))
    return abstract, random_values(abstract, 1)


@pytest.fixture(scope="module")
def generator(model):
    return UnmaskingGenerator(*model, {}, MASK, ALLOWED)


def probabilities(model, rows):
    """p(x_t | the row) of the allowed ids, [B, T, 3], at this temperature."""
    module, values = model

    def scores(values, tokens):
        filled = with_values(module, values)
        return filled.logits(filled(tokens, Context(np.arange(tokens.shape[1])[None], causal=False)))

    weights = np.exp(np.float64(call(scores, values, np.array(rows))[..., :3]) / TEMPERATURE)
    return weights / weights.sum(axis=-1, keepdims=True)


def test_texts_are_drawn_as_by_filling_in_all_orders(model, generator):
    prompt, rows = [4, 2], 30_000
    made = generator.generate([prompt] * rows, 2, FULL, jax.random.key(0)).tokens
    found = np.bincount(made[:, 0] * 3 + made[:, 1], minlength=9) / rows
    given = [[MASK, MASK], *([a, MASK] for a in range(3)), *([MASK, b] for b in range(3))]
    first, *others = probabilities(model, [[*prompt, *tokens] for tokens in given])
    right, left = np.array([row[3] for row in others[:3]]), np.array([row[2] for row in others[3:]])
    expected = (first[2][:, None] * right + first[3] * left.T) / 2
    # Five standard deviations of a frequency; independent draws would differ by more.
    tolerance = 5 * (expected * (1 - expected) / rows) ** 0.5
    assert (abs(found.reshape(3, 3) - expected) < tolerance).all()
    assert (abs(np.outer(first[2], first[3]) - expected) > tolerance).any()


def test_a_batch_of_prompts_gives_the_texts_of_each_alone(generator):
    prompts, key = [[4], [4, 1, 2, 0], [4, 2]], jax.random.key(3)
    together = generator.generate(prompts, 4, FULL, key)
    assert together.tokens.shape == (3, 4)
    assert together.lengths.tolist() == [4, 4, 4]
    # Three rows each time, so that one program is compiled.
    alone = [generator.generate([prompt] * 3, 4, FULL, key).tokens[row] for row, prompt in enumerate(prompts)]
    np.testing.assert_array_equal(together.tokens, alone)
    assert (generator.generate(prompts, 4, FULL, jax.random.key(4)).tokens != together.tokens).any()
    assert together.tokens.max() < 3


def test_the_row_ends_with_the_suffix(model):
    alone = UnmaskingGenerator(*model, {}, MASK, ALLOWED, suffix=(3,))
    greedy = alone.generate([[4]], 1, Sampling(temperature=0.0), jax.random.key(0)).tokens
    assert greedy[0, 0] == probabilities(model, [[4, MASK, 3]])[0, 1].argmax()


@pytest.mark.parametrize(("arguments", "line"), [
    ({"max_new_tokens": 0}, "max_new_tokens=0 must be at least 1"),
    ({"max_new_tokens": 5000}, "learned positions end at"),
    ({"cache": False}, "--no-cache has no effect"),
])  # fmt: skip
def test_bad_requests_are_refused(generator, arguments, line):
    with pytest.raises(ConfigError, match=line):
        generator.generate(
            **{"prompts": [[4]], "max_new_tokens": 2, "sampling": FULL, "key": jax.random.key(0)} | arguments
        )


def test_a_run_generates_from_the_command_line(tmp_path, capsys):
    untrained(tmp_path / "run", small(**OBJECTIVES["masked_diffusion"]))
    words = ["--prompt", "ab", "--max-new-tokens", "6", "--seed", "4"]
    assert main.main(["generate", str(tmp_path / "run"), *words]) == 0
    assert capsys.readouterr().out.startswith("ab")
    assert main.main(["generate", str(tmp_path / "run"), "--prompt", "ab", "--beams", "2"]) == 2
    assert "--beams: masked diffusion fills in" in capsys.readouterr().err
