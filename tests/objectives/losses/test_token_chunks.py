"""The number of tokens whose logits exist at once."""

import jax
import pytest

from tests.support.building import programs_inside
from tests.support.small_runs import small
from zoo import config as configs
from zoo.objectives.token_chunks import default_chunk_tokens
from zoo.resources.abstract_run import abstract_batch, abstract_program


@pytest.mark.parametrize(
    ("vocab_size", "platform", "expected"),
    [(257, "cpu", 32768), (8192, "cpu", 1024), (50257, "cpu", 1024), (257, "gpu", 8192), (50257, "tpu", 8192)],
)
def test_default_chunk_depends_on_the_platform(vocab_size, platform, expected):
    assert default_chunk_tokens(vocab_size, platform) == expected


def widest_logits(setting):
    """Largest number of tokens in an array of the train step that has the vocabulary."""
    config = configs.resolve(small(objective__chunk_tokens=setting))
    program = abstract_program(config, jax.devices()[:1])
    traced = program.train_step.trace(program.abstract_state, abstract_batch(config), program.constants.abstract())

    def equations(jaxpr):
        for equation in jaxpr.eqns:
            yield equation
            for inside in programs_inside(equation):
                yield from equations(inside)

    shapes = [variable.aval.shape for one in equations(traced.jaxpr.jaxpr) for variable in one.outvars]
    vocab_size = config.model.vocab_size
    return max(shape[-2] for shape in shapes if len(shape) >= 2 and shape[-1] == vocab_size and shape[-2] != 32)


def test_the_field_sets_the_chunks_of_a_program():
    """Of 8 rows of 16 tokens."""
    assert widest_logits(0) == 128
    assert widest_logits(64) == 64
    assert widest_logits(10) == 16  # 13 chunks are requested, which gives two tokens of each row.
    assert widest_logits("auto") == 128
