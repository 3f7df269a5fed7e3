"""Masked words and the next sentence together against BertForPreTraining's own loss, gradients
included, on padded pairs.
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


class Ids:
    """As many ids as the model has; no token opens a document in its middle."""

    bos_id = start_id = 0

    def __init__(self, count):
        self.vocab_size = count

    def token_bytes(self):
        return np.ones(self.vocab_size, np.int64)


def test_the_loss_is_bert_s():
    system = next(system for system in ENCODERS if system.name == "bert")
    reference = build(system)
    plain = resolved(system, reference.hf)
    rows = make_batch(system, plain, padded=True)
    filled, length = rows["positions"] >= 0, rows["tokens"].shape[1]
    places = np.array([[1, length - 1, 4], [2, 0, 0]])
    used = np.array([[True, True, True], [True, False, False]])
    generator = np.random.default_rng(5)
    targets = np.where(used, generator.integers(4, plain.model.vocab_size, used.shape), -1)
    classes = np.array([1, 0])

    # Theirs marks what is not predicted with -100; its second loss is the mean over pairs, 0 for
    # one that follows.
    labels = np.full(rows["tokens"].shape, -100)
    labels[np.nonzero(used)[0], places[used]] = targets[used]
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
    objective = make_objective(config, Ids(config.model.vocab_size))
    graph, values = split(make_model(config))[0], import_weights(system.reference, config, reference.tensors())[0]
    batch = {"tokens": np.where(filled, rows["tokens"], -1), "segments": rows["segments"], "masked_positions": places, "targets": targets,
             "next": classes}  # fmt: skip
    constants = {name: jnp.asarray(table) for name, table in objective.constants.items()}

    def loss_of(values, batch):
        losses, _ = objective.sums(graph, values, {}, batch, constants, ForwardMode(training=True))
        return sum_of_means(losses, objective.normalizers(batch))

    loss, gradients = call(jax.value_and_grad(loss_of), jax.tree.map(jnp.asarray, values), batch)
    assert relative_difference(loss, out.loss.detach().numpy()) < 1e-5
    # Theirs sums the gradients of tied matrices under one name.
    expected = imported_gradients(system, reference.hf, theirs)
    moved = gradient_differences(flatten(gradients, "/"), expected)
    assert max(moved.values()) < 1e-4, moved
