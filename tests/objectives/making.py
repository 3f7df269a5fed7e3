"""Objectives over thirteen token ids, with random models, as compiled functions of a batch."""

import jax.numpy as jnp
import numpy as np

from tests.building import as_float64, compiled, random_values, tiny, with_values
from zoo.data.tokenizers.base import Tokenizer
from zoo.layers.context import DropoutKey
from zoo.models.architectures import make_model
from zoo.models.functional import initialise_statistics, split
from zoo.objectives import make_objective


class FewTokens:
    """Thirteen ids; id i stands for i + 1 bytes, 9 opens a document."""

    vocab_size, document_id, separator_id = 13, 9, 13
    pieces = tuple(bytes(range(id, 2 * id + 1)) for id in range(13))
    token_bytes = Tokenizer.token_bytes
    token_characters = Tokenizer.token_characters


OPENS, TOKEN_BYTES = FewTokens.document_id, FewTokens().token_bytes()


class Made:
    """An objective with random values of its model.

    Attributes:
        config, model, objective: as made; the model is abstract.
        values, stats: nested dicts; `exact` is `values` as float64 numpy.
    """

    def __init__(self, overrides=None, seed=1):
        self.config = tiny(overrides)
        self.model, self.objective = make_model(self.config), make_objective(self.config, FewTokens())
        self.values, self.graph = random_values(self.model, seed), split(self.model)[0]
        self.stats, self.exact = initialise_statistics(self.model, seed), as_float64(self.values)
        self.constants = {name: jnp.asarray(table) for name, table in self.objective.constants.items()}
        self._programs = {}

    def too_long(self, length):
        """Why rows of `length` tokens cannot be evaluated, or None."""
        return self.objective.too_long(self.model, length)

    def apply(self, function, *arrays):
        """function(model, *arrays), compiled once for each shape of the arrays."""
        if "apply" not in self._programs:
            self._programs["apply"] = compiled(
                lambda values, *arrays: function(with_values(self.model, values), *arrays)
            )
        return self._programs["apply"](self.values, *(jnp.asarray(array) for array in arrays))

    def sums(self, batch, key=None, training=False):
        """(loss over tokens, sums) of a batch; an array is a batch of tokens alone."""
        losses, sums = self.terms(batch, key, training)
        return losses["loss"], sums

    def terms(self, batch, key=None, training=False):
        """(summed losses by term, sums) of a batch."""
        batch = batch if isinstance(batch, dict) else {"tokens": batch}
        program = self._programs.setdefault(
            training,
            compiled(
                lambda values, stats, batch, key: self.objective.sums(
                    self.graph, values, stats, batch, self.constants, key, training
                )
            ),
        )
        losses, (sums, _) = program(
            self.values,
            self.stats,
            {name: jnp.asarray(rows) for name, rows in batch.items()},
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
