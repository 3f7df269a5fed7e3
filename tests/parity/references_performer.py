"""PerformerLM of performer-pytorch 1.1.4 as a reference, with three of its behaviours changed."""

import importlib
import importlib.metadata
from typing import Any

import numpy as np
import torch

from tests.parity.harness import Arrays, random_tensor
from tests.parity.systems import System
from zoo.config import ResolvedConfig


class PerformerPytorch:
    """A PerformerLM in evaluation mode; its random features are determined by their names, too.

    * Its causal attention takes the maximum over all keys of the row, so that a token depends on
      later ones, and adds 1e-6 to the normaliser. Here every token attends to the tokens up to
      itself with the library's bidirectional attention.
    * Its mask hides the values of empty slots but not their keys. Here every row is run without its
      empty slots.
    * With RoPE it adds sinusoids to the embedding. Here they are 0.
    """

    def __init__(self, system: System, dtype: torch.dtype = torch.float32):
        library = importlib.import_module("performer_pytorch")
        self.module = library.PerformerLM(**system.settings).eval()
        with torch.no_grad():
            for name, tensor in self.module.state_dict().items():
                if name == "pos_emb.emb":
                    tensor.zero_()
                elif not name.startswith(("layer_pos_emb", "performer.proj_updater")):
                    tensor.copy_(torch.tensor(random_tensor(name, tuple(tensor.shape))))
        self.module.to(dtype)
        for part in self.module.modules():
            if isinstance(part, library.FastAttention) and part.causal:
                make_causal(part)
        self.version = f"performer-pytorch {importlib.metadata.version('performer-pytorch')}"
        self.hf: dict[str, Any] = {
            name: value for name, value in system.settings.items() if name != "rotary_position_emb"
        }
        self.written = self.hf

    def tensors(self) -> Arrays:
        """The state dict, without the sinusoids."""
        return {
            name: tensor.detach().numpy() for name, tensor in self.module.state_dict().items() if name != "pos_emb.emb"
        }

    def outputs(self, batch: Arrays, config: ResolvedConfig) -> dict[str, torch.Tensor]:
        """Runs the module on every row of a batch of `harness.make_batch` by itself."""
        del config
        logits = []
        for tokens, positions in zip(batch["tokens"], batch["positions"], strict=True):
            filled = np.flatnonzero(positions >= 0)
            row = self.module(torch.tensor(tokens[filled])[None])
            logits.append(
                torch.zeros(len(tokens), row.shape[-1], dtype=row.dtype).index_copy(0, torch.tensor(filled), row[0])
            )
        return {"logits": torch.stack(logits)}


def make_causal(attention: torch.nn.Module) -> None:
    """Makes a FastAttention causal by running its bidirectional form on every prefix."""
    bidirectional = attention.forward

    def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        ends = range(1, q.shape[2] + 1)
        return torch.cat([bidirectional(q[:, :, end - 1 : end], k[:, :, :end], v[:, :, :end]) for end in ends], dim=2)

    attention.causal, attention.forward = False, forward
