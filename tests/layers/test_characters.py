"""Token vectors from characters against their equations."""

import numpy as np
import pytest

from tests.reference import elmo as reference
from tests.support.building import TINY_ELMO, as_float64, call, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.layers.characters import CharacterCNN
from zoo.models.functional import initialise, split


def cnn(**more):
    return CharacterCNN(tiny(TINY_ELMO | more).model)


# Twelve layers, because sorted as text 10 and 11 would come before 2.
@pytest.mark.parametrize(
    ("highways", "filters"),
    [
        (0, (1, 4, 3, 6, 2, 5)),
        (1, (2, 7)),
        (2, (1, 4, 3, 6, 2, 5)),
        (12, (1, 2, 2, 3, 3, 1, 1, 4, 2, 1, 3, 2, 1, 1, 2, 2, 3, 4, 2, 3, 1, 5, 4, 2)),
    ],
)
def test_token_vector_matches_its_equation(highways, filters):
    module = cnn(**{"model.elmo.highways": highways, "model.elmo.filters": filters})
    values = random_values(module)
    characters = np.random.default_rng(1).integers(1, 262, (2, 5, 8))
    characters[:, 1:3, 5:] = 261
    characters[:, 3, 4:] = 0
    characters[:, 4] = 0
    characters[0, 0, :2] = 1, 261
    out = call(lambda characters: with_values(module, values)(characters), characters)
    params = as_float64(values)
    expected = [[reference.token_vector(params, token) for token in row] for row in characters]
    compared(out, expected, variants=("character-cnn",))


def test_tokens_shorter_than_a_filter_are_refused():
    module = with_values(cnn(), random_values(cnn()))
    assert call(module, np.ones((1, 3), np.int32)).shape == (1, 16)
    with pytest.raises(ValueError, match="2 characters per token are fewer than the widest filter, 3"):
        module(np.ones((1, 2), np.int32))


def test_highways_start_close_to_the_identity():
    values = call(lambda: initialise(cnn(), 0))
    for highway in values["highways"].values():
        assert (highway["gate"]["bias"] == 2).all()
        assert not highway["transform"]["bias"].any()
        assert highway["gate"]["kernel"].std() == pytest.approx(0.02, rel=0.2)


def test_parameters_have_the_shapes_of_the_published_file():
    shapes = split(cnn())[1]
    assert shapes["embedding"].shape == (261, 5)
    assert {name: part["kernel"].shape for name, part in shapes["convolutions"].items()} == {
        "0": (1, 5, 4),
        "1": (3, 5, 6),
        "2": (2, 5, 5),
    }
    assert shapes["projection"]["kernel"].shape == (15, 16)
