"""Weights of `pytorch_model.bin`, read by torch where it is installed, without running code.

Such a file is a pickle, which can name any function to call. With `weights_only=True` torch builds
tensors and plain containers alone, and refuses everything else (torch.load, since 2.6 by default).
"""

import importlib.util
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import one_line

WHOLE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# Entries under which training programs keep the weights.
STATES = ("state_dict", "model_state_dict", "model")
# Earlier versions could be made to run code in spite of `weights_only` (CVE-2025-32434).
OLDEST = (2, 6)
TYPES = {"torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16"}


def can_read_pickles() -> bool:
    """Returns whether a torch is installed whose weights-only loading runs no code."""
    if importlib.util.find_spec("torch") is None:
        return False
    try:
        numbers = metadata.version("torch").split(".")
        return (int(numbers[0]), int(numbers[1])) >= OLDEST
    except (metadata.PackageNotFoundError, ValueError, IndexError):
        return False


class TorchFile:
    """The tensors of one file; the interface is that of an open safetensors file.

    Args:
        path: the file.

    Raises:
        ValueError: torch refuses it, or it holds no tensors by name.
    """

    def __init__(self, path: Path):
        import torch

        try:
            try:
                content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except RuntimeError:  # Files of torch before 1.6 cannot be mapped.
                content = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # Errors of pickle, of zip files and torch's own.
            raise ValueError(one_line(error)) from error
        state = next((content[name] for name in STATES if isinstance(content, Mapping) and name in content), content)
        named = isinstance(state, Mapping) and all(isinstance(name, str) for name in state)
        self._tensors = {name: value for name, value in state.items() if torch.is_tensor(value)} if named else {}
        if not self._tensors:
            raise ValueError("it holds no tensors by name")

    def described(self) -> dict[str, tuple[tuple[int, ...], str]]:
        """Returns shape and type of each tensor."""
        return {
            name: (tuple(tensor.shape), TYPES.get(str(tensor.dtype), str(tensor.dtype).removeprefix("torch.")))
            for name, tensor in self._tensors.items()
        }

    def get_tensor(self, name: str) -> np.ndarray:
        """Returns the numbers of a tensor as float32."""
        return self._tensors[name].detach().float().numpy()

    def __exit__(self, *error: Any) -> None:
        self._tensors = {}
