"""The loss of masked tokens and next sentences against that of BertForPreTraining, with gradients, on
padded pairs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

from tests.parity.harness import gradient_differences, imported_gradients, make_batch, relative_difference, resolved
from tests.parity.references import build
from tests.parity.systems.encoders import ENCODERS
from tests.support.building import call
from zoo.interop import resolve_like
from zoo.interop.model_weights import import_weights
from zoo.models.architectures import make_model
from zoo.models.functional import split
from zoo.nested import flatten
from zoo.objectives import make_objective
from zoo.objectives.objective import ForwardMode, sum_of_means

pytestmark = pytest.mark.parity


class IdTokenizer:
    """A tokenizer with as many ids as the model."""

    bos_id = start_id = 0

    def __init__(self, count):
        self.vocab_size = count

    def token_bytes(self):
        return np.ones(self.vocab_size, np.int64)


def test_pretraining_loss_and_gradients_match_bert():
    system = next(system for system in ENCODERS if system.name == "bert")
    reference = build(system)
    plain = resolved(system, reference.hf)
    rows = make_batch(system, plain, padded=True)
    filled, length = rows["positions"] >= 0, rows["tokens"].shape[1]
    masked_positions = np.array([[1, length - 1, 4], [2, 0, 0]])
    valid = np.array([[True, True, True], [True, False, False]])
    generator = np.random.default_rng(5)
    targets = np.where(valid, generator.integers(4, plain.model.vocab_size, valid.shape), -1)
    classes = np.array([1, 0])

    # BERT marks tokens that are not predicted with -100, and labels pairs of consecutive sentences 0.
    labels = np.full(rows["tokens"].shape, -100)
    labels[np.nonzero(valid)[0], masked_positions[valid]] = targets[valid]
    out = reference.module(
        input_ids=torch.tensor(rows["tokens"]),
        attention_mask=torch.tensor(filled).long(),
        token_type_ids=torch.tensor(rows["segments"]),
        labels=torch.tensor(labels),
        next_sentence_label=torch.tensor(classes),
    )
    reference.module.zero_grad()
    out.loss.backward()
    theirs = {
        name: parameter.grad.numpy()
        for name, parameter in reference.module.named_parameters()
        if parameter.grad is not None
    }

    fields = {
        "data.tokenizer.kind": "characters",
        "data.sequence_length": system.length,
        "data.batch_size": 2,
        "objective.next_sentence": True,
        "data.row_format": "segment_pairs",
        **dict(system.overrides),
    }
    config = resolve_like(system.imported_as, reference.hf, fields)
    objective = make_objective(config, IdTokenizer(config.model.vocab_size))
    graph, values = split(make_model(config))[0], import_weights(system.reference, config, reference.tensors())[0]
    batch = {"tokens": np.where(filled, rows["tokens"], -1), "segments": rows["segments"], "masked_positions": masked_positions, "targets": targets,
             "next": classes}  # fmt: skip
    constants = {name: jnp.asarray(table) for name, table in objective.constants.items()}

    def loss_of(values, batch):
        losses, _ = objective.sums(graph, values, {}, batch, constants, ForwardMode(training=True))
        return sum_of_means(losses, objective.normalizers(batch))

    loss, gradients = call(jax.value_and_grad(loss_of), jax.tree.map(jnp.asarray, values), batch)
    assert relative_difference(loss, out.loss.detach().numpy()) < 1e-5
    # The reference sums the gradients of tied matrices under one name.
    expected = imported_gradients(system, reference.hf, theirs)
    gradient_errors = gradient_differences(flatten(gradients, "/"), expected)
    assert max(gradient_errors.values()) < 1e-4, gradient_errors
