"""Objectives over thirteen token ids with random models, as compiled functions of a batch."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import pytest

from tests import reference
from tests.support.building import as_float64, compiled, random_values, tiny, with_values
from zoo.config import to_plain
from zoo.data.tokenizers.tokenizer import Tokenizer
from zoo.layers.context import DropoutKey
from zoo.models.architectures import make_model
from zoo.models.functional import initialise_statistics, split
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode


class FewTokens:
    """A tokenizer of thirteen ids; id i stands for i + 1 bytes, and 9 opens a document."""

    vocab_size, bos_id, start_id, separator_id = 13, 9, 9, 13
    pieces = tuple(bytes(range(id, 2 * id + 1)) for id in range(13))
    token_bytes = Tokenizer.token_bytes
    token_characters = Tokenizer.token_characters


OPENS, TOKEN_BYTES = FewTokens.bos_id, FewTokens().token_bytes()
# By default the loss of every objective is compared in one model.
OTHER = pytest.mark.promise(reason="the same loss of another model or in chunks")


class Made:
    """An objective with random values of its model.

    Attributes:
        config, model, objective: as made; the model is abstract.
        values, stats: nested dicts; `exact` is `values` as float64 numpy.
    """

    # Compiled programs by what they compute, shared by tests with equal objectives.
    _programs: ClassVar = {}

    def __init__(self, overrides=None, seed=1):
        self.config = tiny({"model.num_layers": 1} | (overrides or {}))
        self.model, self.objective = make_model(self.config), make_objective(self.config, FewTokens())
        self.values, self.graph = random_values(self.model, seed), split(self.model)[0]
        self.stats, self.exact = initialise_statistics(self.model, seed), as_float64(self.values)
        self.constants = {name: jnp.asarray(table) for name, table in self.objective.constants.items()}

    def why_too_long(self, length):
        """Why rows of `length` tokens cannot be evaluated, or None."""
        return self.objective.why_too_long(self.model, length)

    def hidden_alone(self, tokens, segments=None):
        """The reference's hidden states of one row of tokens without padding, [T, D]."""
        segments = None if segments is None else segments[None]
        rows = reference.counting(1, len(tokens))
        return reference.hidden_states(self.config.model, self.exact, np.asarray(tokens)[None], rows, segments)[0]

    def logits_alone(self, tokens, segments=None):
        """The reference's scores of one row of tokens without padding, [T, V]."""
        return reference.head(self.config.model, self.exact, self.hidden_alone(tokens, segments))

    def decoder_logits_alone(self, source, inputs):
        """The reference's scores of one row that an encoder-decoder reads, [T, V]."""
        rows = reference.counting(1, len(source), causal=False), reference.counting(1, len(inputs))
        arrays = np.asarray(source)[None], np.asarray(inputs)[None]
        return reference.encoder_decoder_logits(self.config.model, self.exact, *arrays, *rows)[0]

    def program(self, name, make):
        """Returns the program of this config and name, which `make` builds the first time."""
        key = str(to_plain(self.config)), name
        if key not in self._programs:
            self._programs[key] = make()
        return self._programs[key]

    def apply(self, function, *arrays):
        """function(model, *arrays), compiled once for each function and shape of the arrays."""
        model = self.model

        def make():
            return compiled(lambda values, *arrays: function(with_values(model, values), *arrays))

        return self.program(function, make)(self.values, *(jnp.asarray(array) for array in arrays))

    def sums(self, batch, key=None, training=False):
        """(loss over tokens, sums) of a batch; an array is a batch of tokens alone."""
        losses, sums = self.terms(batch, key, training)
        return losses["loss"], sums

    def terms(self, batch, key=None, training=False):
        """(summed losses by term, sums) of a batch."""
        batch = batch if isinstance(batch, dict) else {"tokens": batch}
        objective, graph = self.objective, self.graph

        def make():
            def sums(values, stats, batch, constants, key):
                return objective.sums(
                    graph, values, stats, batch, constants, ForwardMode(dropout_key=key, training=training)
                )

            return compiled(sums)

        losses, (sums, _) = self.program(training, make)(
            self.values,
            self.stats,
            {name: jnp.asarray(rows) for name, rows in batch.items()},
            self.constants,
            key if key is None else DropoutKey(key),
        )
        return losses, sums


def surprisal(logits, targets):
    """-log softmax(logits)[target], [T], in float64; 0 where the target is -1."""
    logits = np.asarray(logits, np.float64)
    largest = logits.max(axis=-1, keepdims=True)
    log_normalizer = np.log(np.exp(logits - largest).sum(axis=-1)) + largest[..., 0]
    return np.array([log_normalizer[t] - logits[t, target] if target >= 0 else 0.0 for t, target in enumerate(targets)])


def squared_normalizers(logits, targets):
    """Sum of log(sum exp logits)^2 over the tokens that have a target."""
    logits = np.asarray(logits, np.float64)
    return sum(np.log(np.exp(logits[t]).sum()) ** 2 for t, target in enumerate(targets) if target >= 0)
