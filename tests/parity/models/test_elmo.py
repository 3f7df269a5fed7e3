"""ELMo's parts against PyTorch's own, forward and backward, with the same weights."""

import jax
import numpy as np
import pytest

from tests.support.building import TINY_ELMO, call, close, random_values, tiny, with_values
from zoo.layers.characters import CharacterCNN
from zoo.layers.context import Context
from zoo.models.elmo import Carry, Direction

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

T, B, D, M, L = 7, 3, 16, 24, 2
LENGTHS = [7, 5, 2]
CONFIG = tiny(
    TINY_ELMO | {"model.elmo.cell_clip": 0.0, "model.elmo.projection_clip": 0.0, "model.residual": False}
).model


def tensor(array):
    return torch.tensor(np.asarray(array, np.float64), requires_grad=True)


def reverse_rows(x, lengths):
    """Reverses each row's filled tokens; x is [T, B, ...] with padding at the end."""
    return torch.stack(
        [torch.cat([x[:length, row].flip(0), x[length:, row]]) for row, length in enumerate(lengths)], dim=1
    )


@pytest.mark.parametrize("reverse", [False, True])
def test_two_layers_match_torch_lstm_with_projection(reverse):
    values, generator = random_values(Direction(CONFIG), 1), np.random.default_rng(2)
    x, weights = (generator.standard_normal((T, B, D)).astype(np.float32) for _ in range(2))
    h, c = (generator.standard_normal((L, B, width)).astype(np.float32) for width in (D, M))
    filled = np.arange(T)[:, None] < np.array(LENGTHS)

    def loss(values, x, h, c):
        out, carry = with_values(Direction(CONFIG), values)(x, filled, Carry(h, c), Context(None), reverse)
        return (out[-1] * weights).sum() + carry.state.sum() + carry.memory.sum(), (out[-1], *carry)

    (_, found), gradients = call(jax.value_and_grad(loss, (0, 1, 2, 3), has_aux=True), values, x, h, c)

    lstm = torch.nn.LSTM(D, M, num_layers=L, proj_size=D, dtype=torch.float64)
    names = {
        "weight_ih": ("input", "kernel"),
        "weight_hh": ("recurrent", "kernel"),
        "bias_ih": ("input", "bias"),
        "weight_hr": ("projection", "kernel"),
    }
    with torch.no_grad():
        for layer in range(L):
            getattr(lstm, f"bias_hh_l{layer}").zero_()
            for name, (part, leaf) in names.items():
                getattr(lstm, f"{name}_l{layer}").copy_(torch.tensor(np.float64(values["layers"][part][leaf][layer]).T))
    inputs = [tensor(array) for array in (x, h, c)]
    first = reverse_rows(inputs[0], LENGTHS) if reverse else inputs[0]
    packed, (last_h, last_c) = lstm(torch.nn.utils.rnn.pack_padded_sequence(first, LENGTHS), tuple(inputs[1:]))
    out, _ = torch.nn.utils.rnn.pad_packed_sequence(packed)
    out = reverse_rows(out, LENGTHS) if reverse else out
    ((out * torch.tensor(np.float64(weights))).sum() + last_h.sum() + last_c.sum()).backward()
    for ours, theirs in zip(found, (out, last_h, last_c), strict=True):
        close(ours, theirs.detach().numpy())
    for ours, theirs in zip(gradients[1:], inputs, strict=True):
        close(ours, theirs.grad.numpy())
    for layer in range(L):
        for name, (part, leaf) in names.items():
            close(gradients[0]["layers"][part][leaf][layer], getattr(lstm, f"{name}_l{layer}").grad.numpy().T)


def test_token_vectors_match_torch_convolutions_and_highways():
    module = CharacterCNN(CONFIG)
    values, generator = random_values(module, 3), np.random.default_rng(4)
    # Padding repeats one id, so that several windows tie for the maximum.
    characters = generator.integers(0, 262, (B, 5, 8))
    characters[:, 2:, 4:] = 261
    weights = generator.standard_normal((B, 5, D)).astype(np.float32)

    def loss(values):
        out = with_values(module, values)(characters)
        return (out * weights).sum(), out

    (_, found), gradients = call(jax.value_and_grad(loss, has_aux=True), values)

    params = jax.tree.map(tensor, values)
    table = torch.cat([torch.zeros(1, 5, dtype=torch.float64), params["embedding"]])
    embedded = torch.nn.functional.embedding(torch.tensor(characters.reshape(-1, 8)), table).transpose(1, 2)
    pooled = [
        torch.nn.functional.conv1d(embedded, part["kernel"].permute(2, 1, 0), part["bias"]).amax(dim=-1).relu()
        for part in params["convolutions"].values()
    ]
    y = torch.cat(pooled, dim=-1)
    for highway in params["highways"].values():
        gate, transform = (y @ highway[name]["kernel"] + highway[name]["bias"] for name in ("gate", "transform"))
        y = torch.lerp(transform.relu(), y, gate.sigmoid())
    expected = (y @ params["projection"]["kernel"] + params["projection"]["bias"]).reshape(B, 5, D)
    (expected * torch.tensor(np.float64(weights))).sum().backward()
    close(found, expected.detach().numpy())
    jax.tree.map(lambda ours, theirs: close(ours, theirs.grad.numpy()), gradients, params)
