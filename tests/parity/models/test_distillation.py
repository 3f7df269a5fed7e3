"""The distillation loss against PyTorch's KL divergence, cross-entropy and cosine embedding loss."""

import jax
import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from tests.support.building import call
from zoo.models.head import LogitFactors
from zoo.objectives.cross_entropy import LossTerms, distilled_cross_entropy
from zoo.objectives.distillation import cosine_distance

pytestmark = pytest.mark.parity
B, T, D, V = 2, 7, 16, 29
TEMPERATURE, KL, HARD = 2.0, 5.0, 2.0


def relative(ours, theirs):
    return np.abs(np.asarray(ours) - theirs.numpy()).max() / np.abs(theirs.numpy()).max()


@pytest.mark.parametrize("chunk", [0, 5])
def test_distillation_loss_and_gradients(chunk):
    generator = np.random.default_rng(7)
    hidden, teacher_hidden = (generator.standard_normal((B, T, D)).astype(np.float32) for _ in range(2))
    head, teacher_head = (generator.standard_normal((V, D)).astype(np.float32) for _ in range(2))
    targets, ones = generator.integers(0, V, (B, T)), np.ones((B, T), np.float32)

    def loss(hidden, head):
        return distilled_cross_entropy(
            LogitFactors(hidden, head, None, 0.0),
            LogitFactors(teacher_hidden, teacher_head, None, 0.0),
            targets,
            ones,
            chunk,
            LossTerms(hard=HARD, kl=KL, temperature=TEMPERATURE),
        )[0]

    value, gradients = call(jax.value_and_grad(loss, (0, 1)), hidden, head)
    inputs = [torch.tensor(array, requires_grad=True) for array in (hidden, head)]
    logits, teacher_logits = inputs[0] @ inputs[1].T, torch.tensor(teacher_hidden) @ torch.tensor(teacher_head).T
    functional = torch.nn.functional
    divergence = (
        functional.kl_div(
            functional.log_softmax(logits / TEMPERATURE, dim=-1),
            functional.softmax(teacher_logits / TEMPERATURE, dim=-1),
            reduction="sum",
        )
        * TEMPERATURE**2
    )
    expected = KL * divergence + HARD * functional.cross_entropy(
        logits.flatten(0, 1), torch.tensor(targets).flatten(), reduction="sum"
    )
    expected.backward()
    assert abs(float(value) / float(expected.detach()) - 1) < 1e-5
    for ours, theirs in zip(gradients, inputs, strict=True):
        assert relative(ours, theirs.grad) < 1e-5


def test_cosine_distance_and_gradient():
    generator = np.random.default_rng(8)
    hidden, teacher_hidden = (generator.standard_normal((B, T, D)).astype(np.float32) for _ in range(2))
    value, gradient = call(jax.value_and_grad(lambda h: cosine_distance(h, teacher_hidden).sum()), hidden)
    theirs = torch.tensor(hidden, requires_grad=True)
    expected = torch.nn.functional.cosine_embedding_loss(
        theirs.flatten(0, 1), torch.tensor(teacher_hidden).flatten(0, 1), torch.ones(B * T), reduction="sum"
    )
    expected.backward()
    assert abs(float(value) / float(expected.detach()) - 1) < 1e-5
    assert relative(gradient, theirs.grad) < 1e-5
