"""Packed and padded rows of a model against the reference in float64."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from tests import reference
from tests.support.building import as_float64, call, counting, random_values, tiny, with_values
from tests.support.comparisons import compared
from zoo.models.architectures import make_model

# Two documents in a row, and one that ends before its row.
POSITIONS = np.array([[0, 1, 2, 0, 1, 2], [0, 1, 2, 3, -1, -1]])
DOCUMENTS = np.array([[0, 0, 0, 1, 1, 1], [0] * 6])


def compare_packed_and_padded_rows(fields, tokens, tolerance=2e-5):
    """Fails unless the hidden states of a decoder with random values are those of the reference."""
    config = tiny(fields)
    model = make_model(config)
    values = random_values(model, 2)
    context = replace(counting(6), positions=jnp.asarray(POSITIONS), documents=jnp.asarray(DOCUMENTS), in_order=False)
    found = call(lambda values: with_values(model, values)(tokens, context), values)
    rows = reference.Rows(POSITIONS, DOCUMENTS)
    wanted = reference.model.hidden_states(config.model, as_float64(values), tokens, rows)
    compared(found[POSITIONS >= 0], wanted[POSITIONS >= 0], tolerance, config=config)
