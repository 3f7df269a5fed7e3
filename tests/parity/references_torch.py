"""Models built from PyTorch's modules, for systems that no library has: controls, DeepNorm, Shaw's
relative values, ELMo.
"""

from typing import Any

import numpy as np
import torch
from torch.nn import Conv1d, Embedding, Linear, ModuleList, MultiheadAttention
from torch.nn.functional import conv1d, embedding, gelu, linear, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from tests.parity.harness import Arrays, random_tensor
from tests.parity.systems import System
from zoo.config import ResolvedConfig

VERSION = f"torch {torch.__version__.partition('+')[0]}"


class RelativeAttention(torch.nn.Module):
    """Shaw et al. 2018, eq. 3 and 4: z_i = sum_j p_ij (x_j W_V + v_ij), p = softmax over j of x_i
    W_Q (x_j W_K + k_ij) / sqrt(K).

    k_ij and v_ij are rows of two tables [2 k + 1, K], number clip(j - i, -k, k), shared by the
    heads.
    """

    def __init__(self, dim: int, heads: int, clip: int):
        super().__init__()
        self.heads, self.clip, width = heads, clip, dim // heads
        self.in_proj_weight, self.in_proj_bias = (
            torch.nn.Parameter(torch.empty(3 * dim, *more)) for more in ((dim,), ())
        )
        self.to_keys, self.to_values = (torch.nn.Parameter(torch.empty(2 * clip + 1, width)) for _ in range(2))
        self.out_proj = Linear(dim, dim)

    def forward(self, x: torch.Tensor, masked: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """x is [B, T, D]; masked [B, T, S] is True where a token does not see another one; positions
        are [B, T].
        """
        q, k, v = (
            part.unflatten(-1, (self.heads, -1))
            for part in linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        )
        numbers = (positions[:, None, :] - positions[:, :, None]).clamp(-self.clip, self.clip) + self.clip
        # Every pair of tokens has its own key and value: [B, T, S, H, K].
        keys, values = (
            projected[:, None] + table[numbers][:, :, :, None]
            for projected, table in ((k, self.to_keys), (v, self.to_values))
        )
        scores = (q[:, :, None] * keys).sum(-1) / q.shape[-1] ** 0.5
        probabilities = scores.masked_fill(masked[..., None], -torch.inf).softmax(dim=2)
        return self.out_proj((probabilities[..., None] * values).sum(2).flatten(2))


class Layer(torch.nn.Module):
    """One layer: pre-norm x + f(norm(x)), post-norm norm(x + f(x)), DeepNorm norm((2 L)^(1/4) x +
    f(x)); without residual no x + .
    """

    def __init__(self, s: dict[str, Any]):
        super().__init__()
        self.heads, self.placement, self.residual = s["heads"], s["placement"], s["residual"]
        self.factor = (2 * s["layers"]) ** 0.25 if s["placement"] == "deepnorm" else 1.0
        self.norms = ModuleList([make_norm(s), make_norm(s)])
        self.relative = s["positions"] == "relative"
        self.attention = (
            RelativeAttention(s["dim"], s["heads"], s["clip"])
            if self.relative
            else MultiheadAttention(s["dim"], s["heads"], batch_first=True)
        )
        self.up, self.down = Linear(s["dim"], s["hidden"]), Linear(s["hidden"], s["dim"])

    def attend(self, x: torch.Tensor, masked: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Attention of either kind."""
        if self.relative:
            return self.attention(x, masked, positions)
        return self.attention(x, x, x, attn_mask=masked.repeat_interleave(self.heads, 0), need_weights=False)[0]

    def forward(self, x: torch.Tensor, masked: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Both sublayers."""
        sublayers = (lambda x: self.attend(x, masked, positions), lambda x: self.down(gelu(self.up(x))))
        for norm, f in zip(self.norms, sublayers, strict=True):
            y = f(over_tokens(norm, x, positions)) if self.placement == "pre" else f(x)
            x = self.factor * x + y if self.residual else y
            x = x if self.placement == "pre" else over_tokens(norm, x, positions)
        return x


def make_norm(s: dict[str, Any]) -> torch.nn.Module:
    """Returns the norm of torch.nn that the settings name."""
    return getattr(torch.nn, s["norm"])(s["dim"], eps=s["epsilon"])


def over_tokens(norm: torch.nn.Module, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Normalizes the filled slots, as rows of a matrix; empty slots become zero."""
    out, filled = torch.zeros_like(x), positions >= 0
    out[filled] = norm(x[filled])
    return out


class Transformer(torch.nn.Module):
    """A decoder or an encoder with a tied head; the settings are those of
    `tests.parity.systems.controls`.
    """

    def __init__(self, s: dict[str, Any]):
        super().__init__()
        self.causal = s["causal"]
        self.embedding = Embedding(s["vocab"], s["dim"])
        self.position_embedding = Embedding(s["length"], s["dim"]) if s["positions"] == "learned" else None
        self.layers = ModuleList(Layer(s) for _ in range(s["layers"]))
        self.final_norm = make_norm(s) if s["placement"] == "pre" else None

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Logits [B, T, V]."""
        positions = batch["positions"]
        masked = (positions < 0)[:, None, :].repeat(1, positions.shape[1], 1)
        if self.causal:
            masked |= positions[:, None, :] > positions[:, :, None]
        # An empty slot sees itself, because a softmax over no scores is undefined.
        masked &= ~torch.eye(positions.shape[1], dtype=torch.bool)
        x = self.embedding(batch["tokens"])
        if self.position_embedding is not None:
            x = x + self.position_embedding(positions.clamp(min=0))
        for layer in self.layers:
            x = layer(x, masked, positions)
        if self.final_norm is not None:
            x = over_tokens(self.final_norm, x, positions)
        return {"logits": linear(x, self.embedding.weight)}


class ELMo(torch.nn.Module):
    """Convolutions and highways over characters, LSTMs with a projection in both directions, one
    softmax (Peters et al. 2018).

    Nothing is clipped, which torch.nn.LSTM cannot. From the second layer on a layer's input is
    added to its output.
    """

    def __init__(self, s: dict[str, Any]):
        super().__init__()
        pairs, width = list(zip(s["filters"][::2], s["filters"][1::2], strict=True)), sum(s["filters"][1::2])
        self.embedding = torch.nn.Parameter(torch.empty(261, s["character_dim"]))
        self.convolutions = ModuleList(Conv1d(s["character_dim"], count, size) for size, count in pairs)
        self.gates, self.transforms = (ModuleList(Linear(width, width) for _ in range(s["highways"])) for _ in range(2))
        self.projection = Linear(width, s["dim"])
        self.forwards, self.backwards = (
            ModuleList(
                torch.nn.LSTM(s["dim"], s["cell"], proj_size=s["dim"], batch_first=True) for _ in range(s["layers"])
            )
            for _ in range(2)
        )
        self.head = Linear(s["dim"], s["vocab"])
        # PyTorch's LSTM has a second bias, which zoo lacks; it stays 0.
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("bias_hh" not in name)

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Logits of both directions, [B, T, V] each; empty slots stand at the end of a row."""
        characters, lengths = batch["tokens"], (batch["positions"] >= 0).sum(1)
        ids = characters.flatten(0, 1)
        # Id 0 is a vector of zeros.
        embedded = embedding(ids, pad(self.embedding, (0, 0, 1, 0))).transpose(1, 2)
        x = torch.cat([conv1d(embedded, part.weight, part.bias).amax(-1).relu() for part in self.convolutions], dim=-1)
        for gate, transform in zip(self.gates, self.transforms, strict=True):
            x = torch.lerp(transform(x).relu(), x, gate(x).sigmoid())
        x = self.projection(x).unflatten(0, characters.shape[:2])
        return {
            "forward": self.head(run_lstms(self.forwards, x, lengths)),
            "backward": self.head(reverse_rows(run_lstms(self.backwards, reverse_rows(x, lengths), lengths), lengths)),
        }


def run_lstms(layers: ModuleList, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Runs the LSTM layers of one direction."""
    for number, layer in enumerate(layers):
        packed, _ = layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        y, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        x = y + x if number else y
    return x


def reverse_rows(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Reverses each row's filled tokens."""
    return torch.stack(
        [torch.cat([row[:length].flip(0), row[length:]]) for row, length in zip(x, lengths, strict=True)]
    )


class Torch:
    """One of these models as a reference; its buffers are determined by their names, like its
    parameters.
    """

    def __init__(self, kind: type[torch.nn.Module], system: System, dtype: torch.dtype = torch.float32):
        self.module = kind(dict(system.settings)).train(system.training)
        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    tensor.copy_(
                        torch.zeros(tensor.shape)
                        if "bias_hh" in name
                        else torch.tensor(random_tensor(name, tuple(tensor.shape)))
                    )
        self.module.to(dtype)
        self.version, self.hf = VERSION, dict(system.settings)
        self.written = self.hf

    def tensors(self) -> Arrays:
        """The state dict, as it is now."""
        return {name: tensor.detach().numpy().copy() for name, tensor in self.module.state_dict().items()}

    def outputs(self, batch: Arrays, config: ResolvedConfig) -> dict[str, torch.Tensor]:
        """Runs the module on a batch of `harness.make_batch`."""
        del config
        return self.module({name: torch.tensor(array, dtype=torch.long) for name, array in batch.items()})


def number_of_parameters(kind: type[torch.nn.Module], settings: dict[str, Any]) -> int:
    """Counts the learned parameters without allocating them."""
    with torch.device("meta"):
        return int(np.sum([parameter.numel() for parameter in kind(settings).parameters() if parameter.requires_grad]))
