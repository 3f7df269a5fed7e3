"""A laboratory for ablations of transformers.

In Python (docs/python.md):

    model = zoo.load("runs/first")             # logits, hidden states, attention, predictions, text
    config = zoo.load_config("configs/llama.py:tiny", {"training.steps": 200})
    model = zoo.train(config, "runs/second")
    frame = zoo.compare(["runs/first", "runs/second"])
"""

import importlib
from typing import Any

__version__ = "0.1.0"

# Imported when they are first used, because they need JAX.
_LAZY = {
    "load": "zoo.inference.loaded_model",
    "load_config": "zoo.inference.python_api",
    "train": "zoo.inference.python_api",
    "compare": "zoo.inference.python_api",
}
__all__ = ["__version__", "compare", "load", "load_config", "train"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'zoo' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
